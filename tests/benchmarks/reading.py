"""How long a trace takes to read, beside its peers and the floor, in one run on one machine.

    python tests/benchmarks/reading.py [--events 1000000] [--file TRACE] [--all]

Prints CPU seconds, peak memory and the ratio to our own reader for: touching every byte (the floor), our reader with
the compiled scanner and without it, a second opening from ``.profiler/``, ``json.load``, and (``--all``, where
installed) HolisticTraceAnalysis. Each runs in a process of its own; the trace is written once by this script.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from importlib import util
from pathlib import Path

LAYERS, KERNELS = 36, 12
KERNEL_ARGUMENTS: dict[str, object] = {
    "queued": 0, "device": 0, "context": 1, "stream": 7, "registers per thread": 128, "shared memory": 0,
    "blocks per SM": 0.969697, "warps per SM": 7.757576, "grid": [132, 1, 1], "block": [256, 1, 1],
    "est. achieved occupancy %": 12,
}  # fmt: skip

READ = """
from pathlib import Path
from profiler.collectors.torch_trace import reader
from profiler.store.source import FileSource
{prepare}
reader.FORMAT.read(FileSource(Path(PATH)), ())
"""
WAYS = {
    "touch every byte": "data = open(PATH, 'rb')\nwhile (b := data.read(1 << 24)): b.count(b'}')",
    "scanner": READ.format(prepare=""),
    "general reader (msgspec)": READ.format(prepare="reader.scan = lambda data: None"),
    "second opening (.profiler)": "import profiler\nprofiler.open_run(PATH)",
    "json.load": "import json\njson.load(open(PATH))",
}
HTA = (
    "import warnings; warnings.simplefilter('ignore')\nfrom hta.common.trace import parse_trace_file\n"
    "parse_trace_file(PATH)"
)


def write_trace(path: Path, events: int) -> None:
    """A decode loop in libkineto's layout: per step one graph launch and its kernels, each with a flow event."""
    kernels = [f"void kernel_{i}<{'float, ' * (i % 5)}128>(float*, int)" for i in range(KERNELS)]
    written, step, clock = 0, 0, 7_656_582_823_613.583
    with path.open("w") as out:
        out.write(
            '{\n  "schemaVersion": 1,\n  "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}],\n  "traceEvents": [\n'
        )
        while written < events:
            step += 1
            batch = step % 64 + 1
            label = f"execute_context_0(0)_generation_{batch}({batch})"
            launch = {"External id": step, "cbid": 311, "correlation": step}
            rows = [
                _event("user_annotation", label, clock, 4000.25, 4242, 4242, {"External id": step}),
                _event("cuda_runtime", "cudaGraphLaunch", clock + 1, 40.5, 4242, 4242, launch),
            ]
            for index in range(LAYERS * KERNELS):
                at = clock + 60 + index * 9.125
                args = KERNEL_ARGUMENTS | {"External id": step, "correlation": step}
                rows.append(_event("kernel", kernels[index % KERNELS], at, 8.064, 0, 7, args))
                flow = f'"id": {step}, "pid": 0, "tid": 7, "ts": {at:.3f}, "cat": "ac2g", "name": "ac2g", "bp": "e"'
                rows.append('  {\n    "ph": "f", ' + flow + "\n  }")
            out.write(("" if written == 0 else ",\n") + ",\n".join(rows))
            written += len(rows)
            clock += 4500.0
        out.write('\n  ],\n  "traceName": "t.json",\n  "baseTimeNanoseconds": 1735632360000000000\n}\n')


def _event(category: str, name: str, start: float, duration: float, pid: int, tid: int, args: dict[str, object]) -> str:
    body = ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in args.items())
    return (
        f'  {{\n    "ph": "X", "cat": "{category}", "name": {json.dumps(name)}, "pid": {pid}, "tid": {tid},\n'
        f'    "ts": {start:.3f}, "dur": {duration:.3f},\n    "args": {{\n      {body}\n    }}\n  }}'
    )


def measure(code: str, path: Path) -> tuple[float, float]:
    """(CPU seconds, peak MB) of a fresh interpreter that runs ``code``, imports included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    program = (
        f"PATH = {str(path)!r}\n{code}\nimport resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return cpu, int(done.stdout.split()[-1]) / 1024


def main() -> None:
    """Parse, write the trace, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--file", type=Path)
    parser.add_argument("--all", action="store_true", help="HolisticTraceAnalysis too (minutes)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or Path(folder) / "trace.json"
        if options.file is None:
            started = time.monotonic()
            write_trace(path, options.events)
            took, size = time.monotonic() - started, path.stat().st_size / 1e6
            print(f"wrote {options.events:,} events, {size:.0f} MB, in {took:.0f} s")
        ways = dict(WAYS)
        if options.all and util.find_spec("hta") is not None:
            ways["HolisticTraceAnalysis"] = HTA
        measure(WAYS["second opening (.profiler)"], path)  # the first opening writes the tables
        results = {name: measure(code, path) for name, code in ways.items()}
        ours = results["scanner"][0]
        print(f"{'way':28} {'CPU s':>8} {'peak MB':>8} {'x scanner':>10} {'MB/s':>8}")
        for name, (cpu, peak) in results.items():
            rate = path.stat().st_size / 1e6 / cpu
            print(f"{name:28} {cpu:8.2f} {peak:8.0f} {cpu / ours:10.2f} {rate:8.0f}")


if __name__ == "__main__":
    main()
