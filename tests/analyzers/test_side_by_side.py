"""Runs of several engines behind a router: their steps are shares of the wall clock, and no gauge is added up."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from profiler import diagnose, open_run
from profiler.analyzers.gap.measured import measure
from profiler.analyzers.knobs import NotPredictable
from profiler.analyzers.recommend import whatif
from profiler.errors import MissingEvidence
from profiler.model.diagnosis import Diagnosis
from tests.reports.chinese import untranslated

STEPS, SECONDS, SEQUENCES = 200, 0.010, 4
LINE = (
    "INFO 11-30 06:00:{at:02d} [loggers.py:1] Engine 000: Iteration({n}): 0 context requests, 0 context tokens, "
    "{seqs} generation requests, {seqs} generation tokens, iteration elapsed time: {ms:.2f} ms\n"
)


def served(folder: Path, workers: int, milliseconds: float = 1e3 * SECONDS) -> Path:
    """A load of as many tokens for each worker, which they share: a step of each takes so long. One alone is a run
    without a router."""
    tokens = workers * STEPS * SEQUENCES
    duration = STEPS * milliseconds / 1e3
    bench = {
        "backend": "vllm", "date": datetime(2026, 11, 30, 6, 0, 30, tzinfo=UTC).strftime("%Y%m%d-%H%M%S"),
        "model_id": "m", "num_prompts": 4 * workers, "completed": 4 * workers, "duration": duration,
        "total_input_tokens": 40 * workers, "total_output_tokens": tokens + 4 * workers, "max_concurrency": 4 * workers,
        "request_rate": "inf", "output_throughput": (tokens + 4 * workers) / duration, "request_throughput": 1.0,
        "mean_ttft_ms": 20.0, "mean_tpot_ms": milliseconds, "mean_itl_ms": milliseconds, "median_ttft_ms": 20.0,
        "p99_ttft_ms": 20.0, "median_tpot_ms": milliseconds, "p99_tpot_ms": milliseconds,
    }  # fmt: skip
    folder.mkdir(parents=True)
    (folder / "bench.json").write_text(json.dumps(bench))
    for at in range(workers):
        own = folder / f"worker-{at}" if workers > 1 else folder
        samples = own if workers > 1 else folder / "metrics"
        samples.mkdir(parents=True, exist_ok=True)
        lines = (LINE.format(at=n * 30 // STEPS, n=n, seqs=SEQUENCES, ms=milliseconds) for n in range(STEPS))
        (own / "server.log").write_text(
            "INFO 11-30 06:00:00 [a.py:1] vLLM API server version 0.32.0\n" + "".join(lines)
        )
        for moment, made in ((0, 0), (1, STEPS * SEQUENCES // 2), (2, STEPS * SEQUENCES)):
            text = (
                f"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running {SEQUENCES}\n"
                f"vllm:generation_tokens_total {made}\n"
            )
            (samples / f"{moment * 1000:07d}.prom").write_text(text)
    return folder


def throughput(found: Diagnosis) -> dict[str, float]:
    (gap,) = [one for one in found.gaps if one.metric == "output_throughput"]
    assert sum(cause.gap for cause in gap.causes) + gap.unexplained.gap == pytest.approx(gap.gap, abs=1e-6)
    return {"gap": gap.gap, "unexplained": gap.unexplained.gap} | {cause.cause: cause.gap for cause in gap.causes}


def test_steps_side_by_side_fill_the_wall_clock_once(tmp_path: Path) -> None:
    run = open_run(served(tmp_path / "two", 2))
    measured = measure(run, run.benches[-1])
    steps = measured.steps
    assert steps is not None and steps.parallel == 2 and steps.exact and len(steps.load) == 2 * STEPS
    assert steps.total == pytest.approx(measured.duration) and measured.outside == pytest.approx(0.0, abs=1e-9)
    assert steps.alone.total == pytest.approx(2 * measured.duration)
    assert measured.gauges["running_requests_max"] == SEQUENCES


def test_slower_steps_of_two_engines_are_the_gap_as_those_of_one_are(tmp_path: Path) -> None:
    """Both workers' steps take half as long again: as much of the throughput is lost, relatively, as with one."""
    relative = []
    for workers in (1, 2):
        a = served(tmp_path / f"a{workers}", workers)
        b = served(tmp_path / f"b{workers}", workers, 1.5e3 * SECONDS)
        found = throughput(diagnose(a, b))
        relative.append({name: value / found["gap"] for name, value in found.items()})
    assert relative[0] == pytest.approx(relative[1], abs=0.01)


def test_a_second_engine_is_the_gap_and_the_steps_are_not(tmp_path: Path) -> None:
    """Two engines with the steps of one serve twice as much; the method says how their steps count."""
    found = diagnose(served(tmp_path / "one", 1), served(tmp_path / "two", 2))
    gap = throughput(found)
    assert gap["gap"] > 0 and gap["hardware"] == pytest.approx(gap["gap"], rel=0.02)
    (hardware,) = [cause for cause in found.gaps[0].causes if cause.cause == "hardware"]
    assert hardware.summary == "the load was served by 1 and by 2 engines side by side"
    assert untranslated(found) == set()
    assert any("2 engines served the load side by side" in line for line in found.method)
    tpot = next(one for one in found.gaps if one.metric == "mean_tpot")
    assert tpot.gap == pytest.approx(0.0, abs=1e-9)
    # Equal steps: nothing of a latency is the second engine's doing.
    assert all(abs(cause.gap) < 1e-4 for cause in tpot.causes)


def test_nothing_is_predicted_of_a_load_that_several_engines_shared(tmp_path: Path) -> None:
    run = open_run(served(tmp_path / "two", 2))
    with pytest.raises((NotPredictable, MissingEvidence), match="several engines shared the load"):
        whatif(run, None, {"max_num_seqs": 8})


def test_one_worker_of_two_without_a_log_still_fills_the_wall_clock(tmp_path: Path) -> None:
    folder = served(tmp_path / "two", 2)
    shutil.copytree(
        folder, tmp_path / "part", ignore=lambda where, names: ["server.log"] if where.endswith("-1") else []
    )
    run = open_run(tmp_path / "part")
    measured = measure(run, run.benches[-1])
    assert measured.steps is not None and not measured.steps.exact
    assert measured.steps.total == pytest.approx(measured.duration, rel=0.05)
