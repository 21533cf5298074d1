"""How long traces take to read and to analyse, and the memory of each apart.

    python tests/benchmarks/analysing.py [--events 1000000,2000000] [--file TRACE]

Prints, for traces that this script writes (see reading.py) or for the one that is named: the events that are kept, and
CPU seconds and peak memory of reading the file for the first time and of what ``profiler inspect`` makes of it
afterwards, the import of the analyses included. Each trace in a process of its own, which starts without anything kept.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.benchmarks.reading import write_trace  # noqa: E402

BOTH = """
import json, os, sys
import profiler

def peak():
    (line,) = (line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024

def cpu():
    return sum(os.times()[:2])

run = profiler.open_run(sys.argv[1])
read, held = cpu(), peak()
with open("/proc/self/clear_refs", "w") as marks:
    marks.write("5")  # the peak begins anew
from profiler.analyzers.inspection import inspect
inspect(run)
print(json.dumps([sum(len(t.events) for t in run.traces), read, held, cpu() - read, peak()]))
"""


def show(path: Path) -> None:
    """Measure one trace and print its line."""
    done = subprocess.run(
        [sys.executable, "-c", BOTH, str(path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr.strip().splitlines()[-1])
    kept, read, held, analysed, peak = json.loads(done.stdout)
    size = path.stat().st_size / 1e6
    print(f"{size:8,.0f} {kept:11,} {read:11.2f} {held:10.0f} {analysed:14.2f} {peak:12.0f}")


def main() -> None:
    """Parse, write the files, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", default="1000000,2000000", help="of the traces to write, with flow events")
    parser.add_argument("--file", type=Path, help="a trace to analyse instead")
    options = parser.parse_args()
    print(f"{'MB':>8} {'kept events':>11} {'read, CPU s':>11} {'peak MB':>10} {'analysis, CPU s':>14} {'peak MB':>11}")
    with tempfile.TemporaryDirectory() as folder:
        if options.file is not None:
            path = Path(folder) / options.file.name
            path.symlink_to(options.file.resolve())
            show(path)
        for events in () if options.file is not None else map(int, options.events.split(",")):
            path = Path(folder) / f"{events}.json"
            write_trace(path, events)
            show(path)


if __name__ == "__main__":
    main()
