"""The report of a pair with large traces: what it takes to make, how large it is, and how a browser takes it.

    .venv/bin/python tests/benchmarks/report_page.py --events 1000000

The lab beside the checkout simulates the pair and writes the traces. Times are medians of several openings in a headless
Chromium: until the document's scripts ran and what the window shows is drawn (domContentLoadedEventEnd), and its own
metrics (DevTools Performance.getMetrics).
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.browser import chromium  # noqa: E402
from tests.strategies import LAB  # noqa: E402

COMMAND = """import atexit, resource, sys
from profiler.cli.main import main

def own():
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(used.ru_utime + used.ru_stime, file=sys.stderr)

atexit.register(own)
main()"""
READY = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
METRICS = ("ScriptDuration", "LayoutDuration", "JSHeapUsedSize", "Nodes")


def write_pair(folder: Path, events: int, requests: int) -> tuple[Path, Path]:
    """Two runs of the lab of so many requests, the traces replaced by ones of so many events; B's attention is slower."""
    differing = ["--a", f"workload.requests={requests}", "--b", "attention_slowdown=2.2"]
    subprocess.run([sys.executable, str(LAB), "pair", str(folder), *differing], check=True, capture_output=True)
    runs = folder / "run-A", folder / "run-B"
    for run, extra in zip(runs, ([], ["--slow", "attn=1.5"]), strict=True):
        shutil.rmtree(run / "trace")
        (run / "trace").mkdir()
        trace = run / "trace" / "rank0.pt.trace.json"
        words = [sys.executable, str(LAB.parent / "gen_trace.py"), str(trace), "--events", str(events), *extra]
        subprocess.run(words, check=True, capture_output=True)
    return runs


def make(runs: tuple[Path, Path], page: Path) -> None:
    """Diagnose twice (the second time what was made of the traces is there already), and print what it took."""
    for name in ("first time", "again"):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        words = [sys.executable, "-c", COMMAND, "-q", "diagnose", *map(str, runs), "--html", str(page)]
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(words, check=False, capture_output=True, text=True, cwd=ROOT, env=env)
        after, took = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - began
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        first = float(done.stderr.split()[-1])
        print(f"diagnose, {name}: {took:.1f} s; {spent:.1f} CPU s, {first:.1f} of them in the process that was started")
        print(f"at most {after.ru_maxrss / 1024:,.0f} MB in one process")
    print(f"page: {page.stat().st_size / 1e6:.2f} MB")


def show(page: Path, openings: int) -> None:
    """Open it several times, and print the medians."""
    found: dict[str, list[float]] = {name: [] for name in ("ready", *METRICS)}
    with tempfile.TemporaryDirectory() as profile, chromium.browser(Path(profile)) as tab:
        tab.call("Performance.enable")
        for _ in range(openings):
            tab.call("Page.navigate", url="about:blank")
            before = _metrics(tab)
            tab.open(page)
            after = _metrics(tab)
            found["ready"].append(float(tab.evaluate(READY)) / 1e3)
            for name in METRICS:
                kept = name in ("JSHeapUsedSize", "Nodes")
                found[name].append(after[name] if kept else after[name] - min(before[name], after[name]))
        assert tab.complaints == []
    middle = {name: statistics.median(values) for name, values in found.items()}
    print(
        f"ready: {middle['ready']:.2f} s ({min(found['ready']):.2f} to {max(found['ready']):.2f}, {openings} openings)"
    )
    print(f"of it scripts {middle['ScriptDuration']:.2f} s, layout {middle['LayoutDuration']:.2f} s")
    print(f"JavaScript memory: {middle['JSHeapUsedSize'] / 1e6:.1f} MB; {middle['Nodes']:,.0f} nodes")


def _metrics(tab: chromium.Page) -> dict[str, float]:
    return {metric["name"]: metric["value"] for metric in tab.call("Performance.getMetrics")["metrics"]}


def main() -> None:
    """Parse, write the pair, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--requests", type=int, default=160)
    parser.add_argument("--openings", type=int, default=7)
    options = parser.parse_args()
    if not LAB.is_file() or chromium.executable() is None:
        parser.error("the lab beside the checkout and Chromium are needed")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        page = Path(folder) / "report.html"
        make(write_pair(Path(folder) / "pair", options.events, options.requests), page)
        show(page, options.openings)


if __name__ == "__main__":
    main()
