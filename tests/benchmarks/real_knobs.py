"""Predictions for real engines whose outcome was recorded: one flag changed between two runs, both directions.

python tests/benchmarks/real_knobs.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
OWN: Final = ROOT.parent / "shared" / "corpus" / "own"
METRICS: Final = ("output_throughput", "mean_ttft", "mean_tpot")

# (from, to, the knob and its value in "to")
CASES: Final[tuple[tuple[str, str, str, int | bool], ...]] = (
    ("vllm-sequences/max-num-seqs-2", "vllm-sequences/max-num-seqs-16", "max_num_seqs", 16),
    ("vllm-sequences/max-num-seqs-16", "vllm-sequences/max-num-seqs-2", "max_num_seqs", 2),
    ("vllm-budget/max-num-batched-tokens-64", "vllm-budget/max-num-batched-tokens-2048", "token_budget", 2048),
    ("vllm-budget/max-num-batched-tokens-2048", "vllm-budget/max-num-batched-tokens-64", "token_budget", 64),
    ("vllm-prefix-cache-70m/on", "vllm-prefix-cache-70m/off", "prefix_cache", False),
    ("vllm-vs-sglang/vllm-1/c16", "vllm-vs-sglang/vllm-seqs4", "max_num_seqs", 4),
    ("vllm-vs-sglang/vllm-seqs4", "vllm-vs-sglang/vllm-1/c16", "max_num_seqs", 16),
)


def main() -> int:
    """Predict from the first run alone, and compare with the second."""
    from profiler import open_run
    from profiler.analyzers.knobs import NotPredictable
    from profiler.analyzers.metrics import metrics_of
    from profiler.analyzers.predict import outlook, situation_of
    from profiler.cli.settings import engine_in

    held = [0, 0]
    for before, after, knob, value in CASES:
        a, b = open_run(OWN / before), open_run(OWN / after)
        own, truth = metrics_of(a.benches[-1]), metrics_of(b.benches[-1])
        print(f"{before} with {knob}={value}")
        try:
            found = outlook(situation_of(a, engine=engine_in(a)), {knob: value})
        except NotPredictable as reason:
            print(f"  not predicted: {reason}")
            continue
        for metric in METRICS:
            true, guess = truth[metric] / own[metric] - 1.0, found.predicted[metric]
            low, high = guess.interval
            inside = low <= true <= high
            held[0] += inside
            held[1] += 1
            print(f"  {metric:18} measured {true:+7.0%}, predicted {guess.change:+7.0%} ({low:+.0%} to {high:+.0%})"
                  f"{'' if inside else ' outside'}; replay off by {found.error[metric]:+.0%}")  # fmt: skip
    print(f"inside the interval: {held[0]} of {held[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
