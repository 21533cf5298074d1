"""Records vLLM on this machine's CPU with one flag changed, predicts each change from the first run alone, and compares.

    PYTHONPATH=. .venv/bin/python tests/benchmarks/record_knobs.py FOLDER

Installs vLLM for CPUs where ``make engines`` has not (3.5 GB). Runs that FOLDER already holds are not recorded again.
The first setting is started twice: what lies between these two starts is no effect of a flag. Under each run stand its
own ``run.json``, samples, steps, trace and result, as ``profiler record --profile -- profiler bench …`` leaves them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
PROFILER: Final = [sys.executable, "-c", "from profiler.cli.main import main; main()"]
METRICS: Final = ("output_throughput", "mean_ttft", "mean_tpot")

# Run -> the flags that it is started with.
RUNS: Final[dict[str, tuple[str, ...]]] = {
    "eager-1": ("--enforce-eager", "--no-async-scheduling"),
    "async": ("--enforce-eager", "--async-scheduling"),
    "compiled": ("--no-async-scheduling",),
    "eager-2": ("--enforce-eager", "--no-async-scheduling"),
}
# (from, to, what is predicted; nothing for a second start of the same)
CASES: Final[tuple[tuple[str, str, dict[str, bool]], ...]] = (
    ("eager-1", "eager-2", {}),
    ("eager-1", "async", {"overlap": True}),
    ("async", "eager-1", {"overlap": False}),
    ("eager-1", "compiled", {"cuda_graph": True}),
    ("compiled", "eager-1", {"cuda_graph": False}),
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


def main() -> int:
    """Record what is missing, then print each case."""
    from profiler import open_run
    from profiler.analyzers.knobs import NotPredictable
    from profiler.analyzers.metrics import metrics_of
    from profiler.analyzers.predict import outlook, situation_of

    folder = Path(sys.argv[1]).absolute()
    for name, flags in RUNS.items():
        if not (folder / name).exists():
            record(folder / name, flags)
    for before, after, knob in CASES:
        a, b = open_run(folder / before), open_run(folder / after)
        own, truth = metrics_of(a.benches[-1]), metrics_of(b.benches[-1])
        measured = ", ".join(f"{name} {truth[name] / own[name] - 1.0:+.0%}" for name in METRICS)
        print(f"{before} -> {after}: measured {measured}")
        if not knob:
            continue
        try:
            found = outlook(situation_of(a), knob)
        except NotPredictable as reason:
            print(f"  {knob}: not predicted: {reason}")
            continue
        for name in METRICS:
            low, high = found.predicted[name].interval
            print(f"  {name:18} predicted {found.predicted[name].change:+.0%} ({low:+.0%} to {high:+.0%})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
