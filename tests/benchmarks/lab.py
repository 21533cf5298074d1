"""How well the diagnosis finds causes that were put there: pairs from a simulator with known shares.

    python tests/benchmarks/lab.py [--seeds 1] [--nulls 0] [--simulator ../shared/lab/enginesim.py] [CASE ...]

For every case, seed and metric: the true relative change, the cause that is largest in truth and in the diagnosis, the
attribution error (the sum over causes of |reported - true| over |gap|), whether the 95% interval of the largest true
cause holds the truth, and whether the right winner (above 2%), or none (null pairs), was named. ``drift`` is how far the
gap that the pair itself shows lies from the true one, of which no attribution can know: the simulated runs differ by
chance as two starts do. Totals at the end, with and without the rows whose drift alone is above 0.1. ``--nulls`` also
runs so many null pairs, each with a seed of its own, and counts the winners that were named.

Beside the simulator's cases there are our own (OWN): other models, tensor parallelism, open loops at 70% and 95% of
what the engine can do, and causes that come together or oppose each other.
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
DRIFTED = 0.1

_SMALL_MODEL = (
    "model.layers=24", "model.hidden=896", "model.intermediate=4864",
    "model.kv_heads=2", "model.head_dim=64", "model.vocab=151936",
)  # fmt: skip
_LARGE_MODEL = ("model.layers=80", "model.hidden=8192", "model.intermediate=28672", "tensor_parallel=8")
_CROWDED = ("workload.concurrency=96",)
_OPEN_70 = ("workload.rate=29", "workload.requests=300")
_OPEN_95 = ("workload.rate=38", "workload.requests=300")
# Name: fields of both runs, and what run B changes.
OWN: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "open-70-gemm": (_OPEN_70, ("gemm_slowdown=1.3",)),
    "open-95-attention": (_OPEN_95, ("attention_slowdown=2.0",)),
    "open-95-few-sequences": (_OPEN_95, ("max_num_seqs=24",)),
    "tp4-graphs-off": (("tensor_parallel=4",), ('cuda_graph="none"',)),
    "tp4-comm-and-gemm": (("tensor_parallel=4",), ("comm_slowdown=2.5", "gemm_slowdown=1.15")),
    "large-tp8-attention": (_LARGE_MODEL, ("attention_slowdown=2.0",)),
    "large-tp8-comm": (_LARGE_MODEL, ("comm_slowdown=2.0",)),
    "kv-and-attention": (_CROWDED, ("kv_tokens=14000", "attention_slowdown=1.8")),
    "overlap-gemm-budget": (_CROWDED, ("overlap=false", "gemm_slowdown=1.2", "token_budget=512")),
    "opposing-batch": (_CROWDED, ("max_num_seqs=32", "attention_slowdown=0.5")),
    "sglang-gemm": (('skin="sglang"',), ("gemm_slowdown=1.25",)),
    "small-model-scheduler": ((*_SMALL_MODEL, "overlap=false"), ("schedule_cost_per_seq=2e-5",)),
    "small-model-piecewise-few": (_SMALL_MODEL, ('cuda_graph="piecewise"', "max_num_seqs=16")),
    "frontend-token": ((), ("frontend_token=3e-3",)),
}


@dataclass(frozen=True)
class Score:
    """One metric of one pair. ``error``, ``drift`` and ``held`` are None where the true change is too small to have
    causes."""

    case: str
    metric: str
    change: float
    true_cause: str | None
    found: str
    error: float | None
    drift: float | None
    held: bool | None
    winner_right: bool


def cases(simulator: Path) -> list[str]:
    """The simulator's ready-made pairs."""
    listed = subprocess.run([sys.executable, str(simulator), "list"], capture_output=True, text=True, check=True)
    return [line.split()[0] for line in listed.stdout.splitlines() if line.strip()]


def simulated(simulator: Path, case: str, folder: str, seed: int) -> dict[str, dict[str, dict[str, float]]]:
    """A pair in ``folder``, and its truth."""
    command = [sys.executable, str(simulator)]
    if case in OWN:
        both, changed = OWN[case]
        fields = [word for value in both for word in ("--a", value)]
        command += ["pair", folder, *fields, *(word for value in changed for word in ("--b", value))]
    else:
        command += ["case", case, folder]
    subprocess.run([*command, "--seed", str(seed)], check=True, capture_output=True)
    truth: dict[str, dict[str, dict[str, float]]] = json.loads((Path(folder) / "truth.json").read_text())
    return truth


def score(case: str, metric: str, truth: dict[str, dict[str, dict[str, float]]], document: Diagnosis) -> Score:
    """Compare one gap with the truth; changes of the same cause are added up. Shares of a throughput are those of its
    inverse, seconds per output token, by one factor: that is what the document explains."""
    gap = next(g for g in document.gaps if g.metric == metric)
    before, after = truth["a"][metric], truth["b"][metric]
    change = (after - before) / before  # type: ignore[operator]
    shares: defaultdict[str, float] = defaultdict(float)
    inverse = metric == "output_throughput"
    explained = "seconds_per_output_token" if inverse else metric
    whole = truth["b"][explained] - truth["a"][explained]  # type: ignore[operator]
    factor = (after - before) / whole if inverse and whole else 1.0  # type: ignore[operator]
    for knob, value in truth["shapley"][explained].items():
        shares[str(truth["causes"][knob])] += value * factor
    shares.pop("none", None)
    found = max(gap.causes, key=lambda row: abs(row.gap)).cause
    if not shares or abs(change) < SMALL:
        return Score(case, metric, change, None, found, None, None, None, _winner_right(case, change, gap))
    largest = max(shares, key=lambda name: abs(shares[name]))
    reported = {row.cause: row.gap for row in gap.causes}
    names = set(shares) | set(reported)
    error = sum(abs(reported.get(name, 0.0) - shares.get(name, 0.0)) for name in names) / abs(after - before)  # type: ignore[operator]
    row = next((r for r in gap.causes if r.cause == largest), None)
    held = None
    if row is not None and row.interval is not None:
        held = row.interval[0] <= shares[largest] <= row.interval[1]
    drift = abs(gap.gap - (after - before)) / abs(after - before)  # type: ignore[operator]
    return Score(case, metric, change, largest, found, error, drift, held, _winner_right(case, change, gap))


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
    parser.add_argument("--nulls", type=int, default=0)
    parser.add_argument("--simulator", type=Path, default=SIMULATOR)
    options = parser.parse_args()
    scores: list[Score] = []
    print(f"{'case':30} {'metric':18} {'change':>8} {'true':>13} {'found':>13} {'error':>6} {'drift':>6} held winner")
    for case in options.case or [*cases(options.simulator), *OWN]:
        for seed in range(options.seeds):
            for one in scored(options.simulator, case, seed):
                scores.append(one)
                print(
                    f"{case:30} {one.metric:18} {one.change:+8.1%} {one.true_cause or '-':>13} {one.found:>13} "
                    f"{_number(one.error):>6} {_number(one.drift):>6} {_said(one.held):4} "
                    f"{'right' if one.winner_right else 'WRONG'}",
                    flush=True,
                )
    for metric in METRICS:
        board = [s for s in scores if s.metric == metric]
        print(f"{metric}: {totals(board)}")
        print(f"{metric}, drift up to {DRIFTED}: {totals([s for s in board if (s.drift or 0.0) <= DRIFTED])}")
    if options.nulls:
        named = [s for seed in range(options.nulls) for s in scored(options.simulator, "null", seed)]
        wrong = sum(not s.winner_right for s in named)
        print(f"{options.nulls} null pairs: a winner was named for {wrong} of {len(named)} metrics")
    return 0


def scored(simulator: Path, case: str, seed: int) -> list[Score]:
    """Simulate a pair, diagnose it, compare."""
    with tempfile.TemporaryDirectory() as folder:
        truth = simulated(simulator, case, folder, seed)
        document = diagnose(profiler.open_run(Path(folder) / "run-A"), profiler.open_run(Path(folder) / "run-B"))
    return [score(case, metric, truth, document) for metric in METRICS]


def totals(board: list[Score]) -> str:
    """The four scores of a metric's rows."""
    with_causes = [s for s in board if s.true_cause is not None]
    errors = [s.error for s in with_causes if s.error is not None]
    held = [s.held for s in with_causes if s.held is not None]
    if not errors:
        return "no case with causes"
    return (
        f"largest cause right in {sum(s.found == s.true_cause for s in with_causes)} of {len(with_causes)}; attribution "
        f"error median {median(errors):.2f}, worst {max(errors):.2f}, above 0.25 in {sum(e > 0.25 for e in errors)}; the "
        f"interval of the largest cause holds the truth in {sum(held)} of {len(held)}; winner right in "
        f"{sum(s.winner_right for s in board)} of {len(board)}"
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _said(value: bool | None) -> str:
    return "" if value is None else "yes" if value else "no"


if __name__ == "__main__":
    sys.exit(main())
