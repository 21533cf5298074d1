"""How well the diagnosis finds causes that were put there: pairs from a simulator with known shares.

    python tests/benchmarks/lab.py [--seeds 1] [--simulator ../shared/lab/enginesim.py] [CASE ...]

For every case, seed and metric: the true relative change, the cause that is largest in truth and in the diagnosis, the
attribution error (the sum over causes of |reported - true| over |gap|), whether the 95% interval of the largest true
cause holds the truth, and whether the right winner (above 2%), or none (null pairs), was named. Totals at the end.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import profiler
from profiler.analyzers.diagnosis import diagnose
from profiler.model.diagnosis import Diagnosis, Gap

METRICS = ("output_throughput", "mean_ttft", "mean_tpot")
SIMULATOR = Path(__file__).parents[2].parent / "shared" / "lab" / "enginesim.py"
CLEAR = 0.02  # true changes above this must have a winner
SMALL = 0.005  # true changes below this have no largest cause worth naming


@dataclass(frozen=True)
class Score:
    """One metric of one pair. ``error`` and ``held`` are None where the true change is too small to have causes."""

    case: str
    metric: str
    change: float
    true_cause: str | None
    found: str
    error: float | None
    held: bool | None
    winner_right: bool


def cases(simulator: Path) -> list[str]:
    """The simulator's ready-made pairs."""
    listed = subprocess.run([sys.executable, str(simulator), "list"], capture_output=True, text=True, check=True)
    return [line.split()[0] for line in listed.stdout.splitlines() if line.strip()]


def score(case: str, metric: str, truth: dict[str, dict[str, dict[str, float]]], document: Diagnosis) -> Score:
    """Compare one gap with the truth; changes of the same cause are added up."""
    gap = next(g for g in document.gaps if g.metric == metric)
    before, after = truth["a"][metric], truth["b"][metric]
    change = (after - before) / before  # type: ignore[operator]
    shares: defaultdict[str, float] = defaultdict(float)
    for knob, value in truth["shapley"][metric].items():
        shares[str(truth["causes"][knob])] += value
    shares.pop("none", None)
    found = max(gap.causes, key=lambda row: abs(row.gap)).cause
    if not shares or abs(change) < SMALL:
        return Score(case, metric, change, None, found, None, None, _winner_right(case, change, gap))
    largest = max(shares, key=lambda name: abs(shares[name]))
    reported = {row.cause: row.gap for row in gap.causes}
    names = set(shares) | set(reported)
    error = sum(abs(reported.get(name, 0.0) - shares.get(name, 0.0)) for name in names) / abs(after - before)  # type: ignore[operator]
    row = next((r for r in gap.causes if r.cause == largest), None)
    held = None
    if row is not None and row.interval is not None:
        held = row.interval[0] <= shares[largest] <= row.interval[1]
    return Score(case, metric, change, largest, found, error, held, _winner_right(case, change, gap))


def _winner_right(case: str, change: float, gap: Gap) -> bool:
    if case.startswith("null"):
        return gap.winner is None
    if abs(change) <= CLEAR:
        return True
    return gap.winner == ("b" if (change > 0) == gap.higher_is_better else "a")


def main() -> int:
    """Run the cases and print the board."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="*")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--simulator", type=Path, default=SIMULATOR)
    options = parser.parse_args()
    scores: list[Score] = []
    print(f"{'case':30} {'metric':18} {'change':>8} {'true':>13} {'found':>13} {'error':>6} held winner")
    for case in options.case or cases(options.simulator):
        for seed in range(options.seeds):
            with tempfile.TemporaryDirectory() as folder:
                command = [sys.executable, str(options.simulator), "case", case, folder, "--seed", str(seed)]
                subprocess.run(command, check=True, capture_output=True)
                truth = json.loads((Path(folder) / "truth.json").read_text())
                document = diagnose(
                    profiler.open_run(Path(folder) / "run-A"), profiler.open_run(Path(folder) / "run-B")
                )
            for metric in METRICS:
                one = score(case, metric, truth, document)
                scores.append(one)
                error = "" if one.error is None else f"{one.error:.2f}"
                held = "" if one.held is None else "yes" if one.held else "no"
                print(
                    f"{case:30} {metric:18} {one.change:+8.1%} {one.true_cause or '-':>13} {one.found:>13} {error:>6} "
                    f"{held:4} {'right' if one.winner_right else 'WRONG'}"
                )
    for metric in METRICS:
        board = [s for s in scores if s.metric == metric]
        with_causes = [s for s in board if s.true_cause is not None]
        errors = [s.error for s in with_causes if s.error is not None]
        held_known = [s.held for s in with_causes if s.held is not None]
        right = sum(s.found == s.true_cause for s in with_causes)
        print(
            f"{metric}: largest cause right in {right} of {len(with_causes)}; attribution error median "
            f"{median(errors):.2f}, worst {max(errors):.2f}; the interval of the largest cause holds the truth in "
            f"{sum(held_known)} of {len(held_known)}; winner right in {sum(s.winner_right for s in board)} of {len(board)}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
