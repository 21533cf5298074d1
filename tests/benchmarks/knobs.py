"""Predictions whose outcome is known: for every knob of the lab's simulator, the effect is predicted from run A alone,
and then run. Prints one line a prediction and the scores.

    python tests/benchmarks/knobs.py [--folder DIR]      # about 3 minutes; DIR keeps the simulated runs

Scores: the median error of the predicted change as a part of the change, the right sign where the true change is above
2%, how often the interval holds the truth, and the same by the confidence that a recommendation would state.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
SIMULATOR: Final = ROOT.parent / "shared" / "lab" / "enginesim.py"
METRICS: Final = ("output_throughput", "mean_ttft", "mean_tpot")
CLEAR: Final = 0.02

TINY: Final = (
    "model.name=sim/qwen-0.5b", "model.layers=24", "model.hidden=896", "model.intermediate=4864", "model.kv_heads=2",
    "model.head_dim=64", "model.vocab=151936",
)  # fmt: skip
BUSY: Final = ("workload.concurrency=96",)
LONG: Final = ("workload.concurrency=96", "workload.input_tokens=[512,1536]")
SHARED: Final = ("workload.concurrency=64", "workload.shared_prefix=1536", "workload.input_tokens=[64,256]")
VARIED: Final = (*TINY, "workload.rate=60.0", "workload.requests=300", "workload.input_tokens=[64,256]")
OPEN: Final = ("workload.rate=14.0", "workload.requests=300", "workload.input_tokens=[256,1024]")

# (name, fields of both runs, the simulator's field and value in B, the knob and value to predict)
CASES: Final[tuple[tuple[str, tuple[str, ...], str, str, int | bool], ...]] = (
    ("16 of 96 sequences", BUSY, "max_num_seqs=16", "max_num_seqs", 16),
    ("32 of 96 sequences", BUSY, "max_num_seqs=32", "max_num_seqs", 32),
    ("64 of 96 sequences", BUSY, "max_num_seqs=64", "max_num_seqs", 64),
    ("from 16 to 96", (*BUSY, "max_num_seqs=16"), "max_num_seqs=96", "max_num_seqs", 96),
    ("from 32 to 48", (*BUSY, "max_num_seqs=32"), "max_num_seqs=48", "max_num_seqs", 48),
    ("a budget of 256", LONG, "token_budget=256", "token_budget", 256),
    ("a budget of 1024", LONG, "token_budget=1024", "token_budget", 1024),
    ("from 512 to 4096", (*LONG, "token_budget=512"), "token_budget=4096", "token_budget", 4096),
    ("a small KV cache", BUSY, "kv_tokens=14000", "kv_tokens", 14000),
    ("a larger KV cache", (*BUSY, "kv_tokens=14000"), "kv_tokens=28000", "kv_tokens", 28000),
    ("no prefix cache", SHARED, "prefix_cache=False", "prefix_cache", False),
    ("no overlap", (), "overlap=False", "overlap", False),
    ("overlap", ("overlap=False",), "overlap=True", "overlap", True),
    ("no overlap, small model", TINY, "overlap=False", "overlap", False),
    ("overlap, small model", (*TINY, "overlap=False"), "overlap=True", "overlap", True),
    ("no graphs", (), "cuda_graph=none", "cuda_graph", False),
    ("no graphs, small model", TINY, "cuda_graph=none", "cuda_graph", False),
    ("graphs, small model", (*TINY, "cuda_graph=none"), "cuda_graph=full", "cuda_graph", True),
    ("captured to 512, from 16", (*VARIED, "max_capture=16"), "max_capture=512", "cuda_graph_max_batch", 512),
    (
        "captured to 16, from 10",
        (*VARIED, "workload.rate=40.0", "max_capture=10"),
        "max_capture=16",
        "cuda_graph_max_batch",
        16,
    ),
    ("captured to 8, from 24", (*VARIED, "max_capture=24"), "max_capture=8", "cuda_graph_max_batch", 8),
    ("captured to 16, from 512", VARIED, "max_capture=16", "cuda_graph_max_batch", 16),
    ("captured to 32, 8B model", ("max_capture=512",), "max_capture=32", "cuda_graph_max_batch", 32),
    ("prompts whole, open loop", OPEN, "chunked_prefill=False", "chunked_prefill", False),
    ("half the sequences, open loop", (*OPEN, "workload.rate=30.0"), "max_num_seqs=24", "max_num_seqs", 24),
)


def simulated(folder: Path, name: str, both: tuple[str, ...], change: str) -> Path:
    """The pair's folder; made once."""
    target = folder / name.replace(" ", "-").replace(",", "")
    if not (target / "truth.json").is_file():
        words = [word for field in both for word in ("--a", field)]
        command = [sys.executable, str(SIMULATOR), "pair", str(target), *words, "--b", change]
        subprocess.run(command, check=True, capture_output=True)
    return target


def main() -> int:
    """Predict, compare, print."""
    from profiler import open_run
    from profiler.analyzers.confidence import confidence_of
    from profiler.analyzers.knobs import NotPredictable
    from profiler.analyzers.metrics import metrics_of
    from profiler.analyzers.predict import outlook, situation_of

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    folder = parser.parse_args().folder or Path(tempfile.mkdtemp())
    errors: dict[str, list[float]] = {metric: [] for metric in METRICS}
    signs, held, refused = [0, 0], [0, 0], 0
    confident: dict[str, list[float]] = {"high": [], "medium": [], "low": []}
    for name, both, change, knob, value in CASES:
        pair = simulated(folder, name, both, change)
        a, b = open_run(pair / "run-A"), open_run(pair / "run-B")
        own, truth = metrics_of(a.benches[-1]), metrics_of(b.benches[-1])
        try:
            found = outlook(situation_of(a), {knob: value})
        except NotPredictable as reason:
            refused += 1
            print(f"{name:30} not predicted: {reason}")
            continue
        for metric in METRICS:
            true, guess = truth[metric] / own[metric] - 1.0, found.predicted[metric]
            inside = guess.interval[0] <= true <= guess.interval[1]
            held[0] += inside
            held[1] += 1
            error = abs(guess.change - true) / abs(true) if true else 0.0
            mark = ""
            if abs(true) > CLEAR:
                errors[metric].append(error)
                confident[confidence_of(found, metric)[0]].append(error)
                right = guess.change * true > 0
                signs[0] += right
                signs[1] += 1
                mark = f"error {error:4.0%}{'' if right else ', WRONG SIGN'}"
            low, high = guess.interval
            print(f"{name:30} {metric:18} true {true:+8.1%} predicted {guess.change:+8.1%} ({low:+.1%} to {high:+.1%})"
                  f"{'' if inside else ' OUTSIDE'} {mark}")  # fmt: skip
    for metric, values in errors.items():
        values.sort()
        print(
            f"{metric}: median error {values[len(values) // 2]:.0%} of the change over {len(values)} changes above 2%"
        )
    for word, values in confident.items():
        if values:
            values.sort()
            print(f"confidence {word}: median error {values[len(values) // 2]:.0%}, worst {values[-1]:.0%} of "
                  f"{len(values)} changes above 2%")  # fmt: skip
    print(
        f"right sign: {signs[0]} of {signs[1]}; truth inside the interval: {held[0]} of {held[1]}; refused: {refused}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
