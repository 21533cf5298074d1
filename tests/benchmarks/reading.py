"""How long traces take to read, beside peers and the floor, in one run on one machine.

    python tests/benchmarks/reading.py [--events 1000000] [--file TRACE] [--repeat 5]

Prints CPU seconds of the process, those without its imports ("apart": our modules and libraries are loaded before),
wall seconds, peak memory and the ratio to our own reader (in CPU seconds of the process) for: touching every byte (the
floor), our reader with the compiled scanner (plain and gzip) and without it, a second opening from ``.profiler/``,
``json.load`` and HolisticTraceAnalysis; for an Nsight Systems export with as many kernels: our readers of SQLite (with
the compiled reader and without) and Parquet, the imports that no reader of columns can do without (numpy; polars for
Parquet), and Python's own ``sqlite3`` fetching the same columns; then for the command itself. Each runs in a process of
its own, ``--repeat`` times, of which the medians are shown; files are written once by this script. HTA gets an environment
of its own on first use (see tests/peers/environment.py) and is left out, with the reason, where it can't be installed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median

import polars as pl

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.peers.environment import NotInstalled, hta_environment, hta_python  # noqa: E402

LAYERS, KERNELS = 36, 12
KERNEL_ARGUMENTS: dict[str, object] = {
    "queued": 0, "device": 0, "context": 1, "stream": 7, "registers per thread": 128, "shared memory": 0,
    "blocks per SM": 0.969697, "warps per SM": 7.757576, "grid": [132, 1, 1], "block": [256, 1, 1],
    "est. achieved occupancy %": 12,
}  # fmt: skip


@dataclass(frozen=True)
class Way:
    """Code to measure; what ``imports`` does is loaded before, and counted apart."""

    work: str
    imports: str = ""


OURS = "from pathlib import Path\nfrom profiler.store.source import FileSource\n"
TORCH = f"{OURS}from profiler.collectors.torch_trace import reader"
SQLITE = f"{OURS}from profiler.collectors import database\nfrom profiler.collectors.nsys.sqlite import FORMAT"
# The last two are loaded where a Parquet file is met, and not before.
PARQUET = (
    f"{OURS}from profiler.collectors.nsys.parquet import FORMAT\n"
    "import polars\nfrom profiler.collectors.nsys import parquet_tables"
)
READ = "{}.read(FileSource(Path(PATH)), ())"
TOUCH = Way("data = open(PATH, 'rb')\nwhile (b := data.read(1 << 24)): b.count(b'}')")
TRACE_WAYS = {
    "touch every byte": TOUCH,
    "our reader": Way(READ.format("reader.FORMAT"), TORCH),
    "our reader, file.gz": Way("PATH += '.gz'\n" + READ.format("reader.FORMAT"), TORCH),
    "without the scanner": Way("reader.scan = lambda data: None\n" + READ.format("reader.FORMAT"), TORCH),
    "second opening (.profiler)": Way("import profiler\nprofiler.open_run(PATH)"),
    "json.load": Way("json.load(open(PATH))", "import json"),
}
HTA = Way(
    "parse_trace_file(PATH)",
    "import warnings; warnings.simplefilter('ignore')\nfrom hta.common.trace import parse_trace_file",
)
FETCH = 'SELECT start, "end", deviceId, streamId, correlationId, globalPid, demangledName, graphNodeId FROM {}'
TABLE = "CUPTI_ACTIVITY_KIND_KERNEL"
EXPORT_WAYS = {
    "touch every byte": TOUCH,
    "our reader": Way(READ.format("FORMAT"), SQLITE),
    "numpy alone": Way("import numpy"),
    "numpy and polars alone": Way("import numpy, polars"),
    "without the compiled reader": Way("database._rows = None\n" + READ.format("FORMAT"), SQLITE),
    "our reader, Parquet": Way(
        f"PATH = str(Path(PATH).parent / 'parquet' / '{TABLE}.parquet')\n" + READ.format("FORMAT"), PARQUET
    ),
    "sqlite3, fetchall": Way(f"sqlite3.connect(PATH).execute({FETCH.format(TABLE)!r}).fetchall()", "import sqlite3"),
}
COMMAND = (
    "import sys\nsys.argv = ['profiler', {}]\nfrom profiler.cli.main import main\ntry: main()\nexcept SystemExit: pass"
)
COMMAND_WAYS = {
    "profiler --version": Way(COMMAND.format("'--version'")),
    "profiler --help": Way(COMMAND.format("'--help'")),
    "profiler inspect, second time": Way(COMMAND.format("'inspect', PATH")),
}


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
            # As large as they are in long captures; HTA fails on ids that fit in 16 bits.
            correlation = step + 100_000
            launch = {"External id": step, "cbid": 311, "correlation": correlation}
            rows = [
                _event("user_annotation", label, clock, 4000.25, 4242, 4242, {"External id": step}),
                _event("cuda_runtime", "cudaGraphLaunch", clock + 1, 40.5, 4242, 4242, launch),
            ]
            for index in range(LAYERS * KERNELS):
                at = clock + 60 + index * 9.125
                args = KERNEL_ARGUMENTS | {"External id": step, "correlation": correlation}
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


def write_export(path: Path, kernels: int) -> None:
    """An export of Nsight Systems as SQLite, and the same tables as Parquet in ``parquet/`` beside it."""
    columns = (
        "start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName, shortName, graphNodeId, "
    )
    columns += "gridX, gridY, gridZ, blockX, blockY, blockZ, registersPerThread, localMemoryTotal"
    declared = ", ".join(f'"{name}" INTEGER' for name in columns.split(", "))
    process = 4242 << 24

    def rows() -> Iterator[tuple[int | None, ...]]:
        for i in range(kernels):
            at, name = 10**9 + i * 9125, i % 500
            yield at, at + 8064, 0, 1, 7, i // 432, process, name, name, i % 432 + 1, 132, 1, 1, 256, 1, 1, 128, 1 << 20

    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
        connection.executemany(
            "INSERT INTO StringIds VALUES (?, ?)", ((i, f"void kernel_{i}<float>()") for i in range(500))
        )
        connection.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
        connection.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({declared})")
        places = ", ".join("?" * len(columns.split(", ")))
        connection.executemany(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({places})", rows())
    folder = path.parent / "parquet"
    folder.mkdir()
    pl.DataFrame(rows(), schema=columns.split(", "), orient="row").write_parquet(
        folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    )
    names = {"id": range(500), "value": [f"void kernel_{i}<float>()" for i in range(500)]}
    pl.DataFrame(names).write_parquet(folder / "StringIds.parquet")


@dataclass(frozen=True)
class Cost:
    """Of a fresh interpreter: CPU seconds with its imports and without ("apart"), wall seconds, peak memory in MB."""

    cpu: float
    apart: float
    wall: float
    peak: float


def measure(way: Way, path: Path, python: str = sys.executable, environment: Mapping[str, str] = os.environ) -> Cost:
    """What the work costs, byte code compiled before. Raises RuntimeError with what it said last."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    program = (
        f"import sys, time\nPATH = {str(path)!r}\n{way.imports}\nBEFORE = time.process_time()\n{way.work}\n"
        # Not ru_maxrss, which counts what this script held when it started the interpreter.
        "PEAK = [line for line in open('/proc/self/status') if line.startswith('VmHWM')][0].split()[1]\n"
        "print(time.process_time() - BEFORE, PEAK, file=sys.stderr)"
    )
    kept = {key: value for key, value in environment.items() if key != "PYTHONDONTWRITEBYTECODE"}
    kept["PYTHONPATH"] = str(ROOT)
    done = subprocess.run([python, "-c", program], env=kept, capture_output=True, text=True, check=False)
    wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    apart, peak = done.stderr.split()[-2:]
    return Cost(cpu, float(apart), wall, int(peak) / 1024)


def usual(times: int, way: Way, path: Path) -> Cost:
    """The median of each of a cost's figures."""
    costs = [measure(way, path) for _ in range(times)]
    return Cost(*(median(getattr(cost, one.name) for cost in costs) for one in fields(Cost)))


def show(title: str, ways: Mapping[str, Way], path: Path, repeat: int) -> None:
    """Measure and print one table; ratios are to "our reader", where the table has it."""
    costs = {name: usual(repeat, way, path) for name, way in ways.items()}
    if "json.load" in ways:
        try:
            costs["HolisticTraceAnalysis, load"] = measure(HTA, path, str(hta_python()), hta_environment())
        except (NotInstalled, RuntimeError) as reason:
            print(f"HolisticTraceAnalysis was left out: {reason}")
    ours = costs.get("our reader")
    load = os.getloadavg()[0]
    print(f"\n{title:30} {'CPU s':>8} {'apart':>8} {'wall s':>8} {'peak MB':>8}" + (f" {'x ours':>8}" if ours else ""))
    for name, cost in costs.items():
        ratio = f" {cost.cpu / ours.cpu:8.2f}" if ours else ""
        apart = f"{cost.apart:8.2f}" if name in ways and ways[name].imports else " " * 8
        print(f"{name:30} {cost.cpu:8.2f} {apart} {cost.wall:8.2f} {cost.peak:8.0f}{ratio}")
    print(f"(medians of {repeat}; load average {load:.1f} on {os.cpu_count()} cores)")


def main() -> None:
    """Parse, write the files, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--file", type=Path, help="a trace to read instead of a generated one")
    parser.add_argument("--repeat", type=int, default=1, help="how often each is measured (HTA: once)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        if options.file is None:
            write_trace(path, options.events)
        else:
            shutil.copyfile(options.file, path)
        with path.open("rb") as plain, gzip.open(f"{path}.gz", "wb", 1) as packed:
            shutil.copyfileobj(plain, packed)
        export = Path(folder) / "export.sqlite"
        write_export(export, options.events)
        measure(TRACE_WAYS["second opening (.profiler)"], path)  # the first opening writes the tables
        measure(COMMAND_WAYS["profiler inspect, second time"], path)  # and this compiles the byte code
        show(f"trace, {path.stat().st_size / 1e6:,.0f} MB", TRACE_WAYS, path, options.repeat)
        show(f"export, {export.stat().st_size / 1e6:,.0f} MB", EXPORT_WAYS, export, options.repeat)
        show("command", COMMAND_WAYS, path, options.repeat)


if __name__ == "__main__":
    main()
