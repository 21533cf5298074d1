"""Long, coverage-guided fuzzing of the readers: ``make fuzz`` or ``python -m tests.fuzz --seconds 600 [NAME ...]``.

Each target runs in a process of its own from the samples of its format, for the given time. A target that raises
anything but our own error, reads two things of one input, or takes more than 20 seconds for a few kilobytes leaves its
input in fuzz/ and makes the command fail.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tests.fuzz.targets import TARGETS, seeds

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "fuzz"


def main() -> int:
    """Run the targets one after the other; 1 where one found something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TARGETS)}; all where none is given")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(TARGETS))
    if unknown:
        parser.error(f"no such target: {', '.join(unknown)}")
    failed = []
    for name in given.names or TARGETS:
        corpus = KEPT / name.replace(" ", "-")
        corpus.mkdir(parents=True, exist_ok=True)
        for at, data in enumerate(seeds(name)):
            (corpus / f"seed-{at}").write_bytes(data)
        command = [
            sys.executable, "-m", "tests.fuzz.one", name, str(corpus), f"-max_total_time={given.seconds}", "-max_len=20000",
            "-timeout=20", "-rss_limit_mb=4096", f"-artifact_prefix={KEPT}/{corpus.name}-", "-verbosity=0",
            "-print_final_stats=1",
        ]  # fmt: skip
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        runs = next((x.split()[-1] for x in done.stderr.splitlines() if "number_of_executed_units" in x), "?")
        sys.stdout.write(f"{name}: {'ok' if done.returncode == 0 else 'FAILED'}, {runs} inputs\n")
        sys.stdout.flush()
        if done.returncode:
            failed.append(name)
            sys.stdout.write(f"{(done.stdout + done.stderr)[-3000:]}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
