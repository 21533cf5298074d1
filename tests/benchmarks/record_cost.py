"""What sampling costs the engine: the same load without and with ``profiler record`` around it, in turns.

``python tests/benchmarks/record_cost.py --url http://127.0.0.1:8000 [--pairs 8] [--every 1s]``, beside a server whose
model is called "tiny". The order within a pair changes from pair to pair. Prints each pair, the mean change of requests a
second with a 95% interval (bootstrap over the pairs), and the CPU seconds that the recording used itself.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
LOAD = ROOT / "tests" / "engines" / "load.py"
PROGRAM = [sys.executable, "-c", "from profiler.cli.main import main; main()", "-q", "record"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--every", default="1s")
    parser.add_argument("--requests", type=int, default=300)
    given = parser.parse_args()
    load = [sys.executable, str(LOAD), given.url, "tiny", "8", str(given.requests), "32"]
    rate(load)
    alone: list[float] = []
    recorded: list[float] = []
    cpu: list[float] = []
    for pair in range(given.pairs):
        for measured in (pair % 2 == 0, pair % 2 == 1):
            if measured:
                folder = Path(tempfile.mkdtemp()) / "run"
                recorded.append(
                    rate([*PROGRAM, "--url", given.url, "--every", given.every, "--out", str(folder), "--", *load])
                )
                costs = json.loads((folder / "run.json").read_text())["recording"]["costs"]
                cpu.append(sum(cost["cpu_seconds"] for cost in costs) / (given.requests / recorded[-1]))
                shutil.rmtree(folder.parent)
            else:
                alone.append(rate(load))
        print(f"pair {pair}: {alone[-1]:.2f} alone, {recorded[-1]:.2f} recorded, requests a second", flush=True)
    change = np.array(recorded) / np.array(alone) - 1
    means = np.random.default_rng(0).choice(change, (10_000, len(change))).mean(axis=1)
    low, high = np.percentile(means, (2.5, 97.5))
    print(f"change of the rate: {change.mean():+.2%}, 95% {low:+.2%} to {high:+.2%}, {len(change)} pairs")
    print(f"collectors: {np.mean(cpu):.2%} of a core")


def rate(command: list[str]) -> float:
    # Sessions share the cores by turns on Linux, and ``record`` gives the load one of its own: so does this.
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, start_new_session=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return float(done.stdout.strip().splitlines()[-1])


if __name__ == "__main__":
    main()
