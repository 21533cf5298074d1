"""How far the load client's times are from the truth of a server whose timing is known, and how late it sends.

    python tests/benchmarks/bench_client.py [--rates 1,50,200] [--seconds 10] [--processes 1] [--ceiling]

The server (tests/mock_server.py, in a process of its own) answers after 100 ms and then every 10 ms, 32 tokens, and
notes when it wrote each chunk. Errors are the client's time minus the server's for the same chunk, both on the
machine's monotonic clock; the gaps likewise. ``--ceiling`` instead sends without a pause, for what one process sustains.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
TOKENS = 32


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def serve(port: int, *timing: str) -> subprocess.Popen[bytes]:
    """The server's process, ready to answer."""
    server = subprocess.Popen([sys.executable, str(ROOT / "tests/mock_server.py"), "--port", str(port), *timing])
    for _ in range(200):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models").close()
            return server
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("the server did not start")


def point(rate: float, seconds: float, processes: int) -> str:
    """One row of the table: requests/s, errors in ms (50% / 99%), lag in ms, CPU of the busiest client process."""
    import profiler

    port = free_port()
    server = serve(port)
    try:
        with tempfile.TemporaryDirectory() as folder:
            run = profiler.bench(f"http://127.0.0.1:{port}", folder, rate=[rate], duration=max(seconds, 5 / rate),
                                 output_tokens=str(TOKENS), input_tokens="64", processes=processes)  # fmt: skip
            (file,) = Path(folder).glob("load/00-*.jsonl")
            lines = [json.loads(line) for line in file.read_bytes().splitlines()]
        truth = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/truth"))
    finally:
        server.kill()
        server.wait()
    zero = next(line["epoch"] for line in lines if line["type"] == "zero")
    wall = time.time_ns() - time.monotonic_ns()
    first, gaps, late = [], [], []
    for line in lines:
        if line["type"] != "record" or line["phase"] != "load" or not line["ok"]:
            continue
        wrote = np.array(truth[f"profiler-load-{line['i']}"])
        read = np.array(line["chunks"]) + line["sent"] + zero - wall
        first.append((read[0] - wrote[0]) / 1e6)
        gaps.append(np.abs(np.diff(read) - np.diff(wrote)) / 1e6)
        late.append((line["sent"] - line["due"]) / 1e6)
    (bench,) = run.benches
    pooled = np.concatenate(gaps)
    cells = [f"{np.percentile(values, 50):7.3f} / {np.percentile(values, 99):7.3f}" for values in (first, pooled, late)]
    served = bench.completed / bench.duration
    return f"{rate:6g} {served:9.2f}   {'   '.join(cells)}   {bench.metadata['client_cpu']:>6}"


def ceiling(processes: int) -> str:
    """Chunks/s of one load without pauses, and the CPU of the busiest client process while the server is the limit."""
    import profiler

    port = free_port()
    server = serve(port, "--ttft", "0", "--itl", "0")
    try:
        with tempfile.TemporaryDirectory() as folder:
            run = profiler.bench(f"http://127.0.0.1:{port}", folder, concurrency=[32], requests=4000,
                                 output_tokens=str(TOKENS), input_tokens="64", processes=processes)  # fmt: skip
    finally:
        server.kill()
        server.wait()
    (bench,) = run.benches
    cpu = float(bench.metadata["client_cpu"])
    rate = bench.total_output_tokens / bench.duration
    each = cpu * processes / (bench.completed / bench.duration) * 1e3
    return (
        f"{bench.completed / bench.duration:.0f} requests/s, {rate:,.0f} chunks/s at {cpu:.2f} of a core; "
        f"{each:.2f} ms of CPU for a request of {TOKENS} chunks"
    )


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", default="1,50,200")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--ceiling", action="store_true")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before")
    if options.ceiling:
        print(ceiling(options.processes))
        return
    print("  rate    served   TTFT error 50/99%   |gap error| 50/99%  send lag 50/99%     CPU   (ms)")
    for rate in map(float, options.rates.split(",")):
        print(point(rate, options.seconds, options.processes))


if __name__ == "__main__":
    main()
