"""Records vLLM on this machine's CPU with one flag changed, predicts each change from the first run alone, and compares.

    PYTHONPATH=. .venv/bin/python tests/benchmarks/record_knobs.py FOLDER

Installs vLLM for CPUs where ``make engines`` has not (3.5 GB). Runs that FOLDER already holds are not recorded again.
Settings are started in turns, several times each: what lies between starts of one setting is no effect of a flag. Under
each run stand its own ``run.json``, samples, steps, trace and result, as ``profiler record --profile -- profiler bench
…`` leaves them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from profiler.model.run import Run

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
PROFILER: Final = [sys.executable, "-c", "from profiler.cli.main import main; main()"]
METRICS: Final = ("output_throughput", "mean_ttft", "mean_tpot")

FLAGS: Final[dict[str, tuple[str, ...]]] = {
    "eager": ("--enforce-eager", "--no-async-scheduling"),
    "async": ("--enforce-eager", "--async-scheduling"),
    "compiled": ("--no-async-scheduling",),
}
TURNS: Final = ("eager", "async", "compiled", "eager", "compiled", "eager", "async")
# (from, to, what is predicted, whether beside a start of the other setting, as ``whatif --against`` does)
CASES: Final[tuple[tuple[str, str, dict[str, bool], bool], ...]] = (
    ("eager", "async", {"overlap": True}, False),
    ("async", "eager", {"overlap": False}, False),
    ("eager", "compiled", {"cuda_graph": True}, False),
    ("compiled", "eager", {"cuda_graph": False}, True),
)


def record(out: Path, flags: tuple[str, ...]) -> None:
    """One start of the engine, one recording of it."""
    from tests.engines import installed
    from tests.engines.servers import free_port, serving

    python = installed.vllm()
    model, port = installed.tiny_model(python), free_port()
    url, log = f"http://127.0.0.1:{port}", out.with_name(f"{out.name}.server.txt")
    config = {
        "profiler": "torch", "torch_profiler_dir": str(out.with_name(f"{out.name}.traces")),
        "torch_profiler_with_stack": False, "ignore_frontend": True,
    }  # fmt: skip
    command = [
        str(python.with_name("vllm")), "serve", str(model), "--served-model-name", "tiny", "--host", "127.0.0.1",
        "--port", str(port), "--max-model-len", "2048", "--max-num-seqs", "16", "--enable-logging-iteration-details",
        "--profiler-config", json.dumps(config), *flags,
    ]  # fmt: skip
    environment = {
        "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "VLLM_HOST_IP": "127.0.0.1", "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_SERVER_DEV_MODE": "1",
    }  # fmt: skip
    bench = [
        *PROFILER, "-q", "bench", "--url", url, "--out", "{run}", "--concurrency", "16", "--requests", "300",
        "--input-tokens", "64", "--output-tokens", "32", "--vocabulary", "300",
    ]  # fmt: skip
    out.parent.mkdir(parents=True, exist_ok=True)
    with serving(command, url, "/health", log, environment):
        words = ["record", "--url", url, "--out", str(out), "--profile", "--", *bench]
        subprocess.run([*PROFILER, *words], cwd=ROOT, check=True, timeout=600)


def predict(run: Run, other: Run | None, knob: dict[str, bool], outcomes: list[Run]) -> tuple[str, ...]:
    """Print what is predicted from a start, beside ``other`` where one is given, and how many outcomes the intervals
    hold; the notes of the prediction."""
    from profiler.analyzers.knobs import NotPredictable
    from profiler.analyzers.metrics import metrics_of
    from profiler.analyzers.predict import outlook, situation_of
    from profiler.cli.settings import engine_in

    source = f"{knob} from {run.name}" + ("" if other is None else f" against {other.name}")
    try:
        found = outlook(situation_of(run, other, engine=engine_in(run)), knob)
    except NotPredictable as reason:
        print(f"  {source}: not predicted: {reason}")
        return ()
    own, truths = metrics_of(run.benches[-1]), [metrics_of(one.benches[-1]) for one in outcomes]
    for name in METRICS:
        low, high = found.predicted[name].interval
        held = sum(low <= truth[name] / own[name] - 1.0 <= high for truth in truths)
        print(f"  {source}: {name} predicted {found.predicted[name].change:+.0%} ({low:+.0%} to {high:+.0%}), holds "
              f"{held} of {len(truths)}")  # fmt: skip
    return found.notes


def main() -> int:
    """Record what is missing, then print each case. The start that stands beside a prediction is none of its outcomes."""
    from profiler import open_run
    from profiler.analyzers.metrics import metrics_of

    folder = Path(sys.argv[1]).absolute()
    starts: dict[str, list[Run]] = {}
    for setting in TURNS:
        at = folder / f"{setting}-{len(starts.get(setting, [])) + 1}"
        if not at.exists():
            record(at, FLAGS[setting])
        starts.setdefault(setting, []).append(open_run(at))
    values = {
        setting: {name: np.array([metrics_of(run.benches[-1])[name] for run in runs]) for name in METRICS}
        for setting, runs in starts.items()
    }
    for setting, own in values.items():
        spread = ", ".join(f"{name} {own[name].max() / own[name].min() - 1.0:+.0%}" for name in METRICS)
        print(f"{setting}: {len(starts[setting])} starts, the highest over the lowest: {spread}")
    for before, after, knob, beside in CASES:
        print(f"{before} -> {after}, means of the starts (and every start over every other):")
        for name in METRICS:
            one, two = values[before][name], values[after][name]
            change, ratios = two.mean() / one.mean() - 1.0, two[:, None] / one[None, :] - 1.0
            print(f"  {name:18} {change:+.0%} ({ratios.min():+.0%} to {ratios.max():+.0%})")
        notes: dict[str, None] = {}
        for run in starts[before]:
            for other in starts[after] if beside else [None]:
                outcomes = [one for one in starts[after] if one is not other]
                notes |= dict.fromkeys(predict(run, other, knob, outcomes))
        for note in notes:
            print(f"  {note}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
