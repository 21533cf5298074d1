"""Knobs that do something else, or nothing, on an engine that runs on the CPU: real vLLM, one flag changed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from profiler import open_run
from profiler.analyzers.gap import spread
from profiler.analyzers.knobs import NotPredictable, Situation
from profiler.analyzers.metrics import metrics_of
from profiler.analyzers.predict import outlook, situation_of
from profiler.analyzers.recommend import recommend, whatif
from profiler.collectors.engines import ENGINES
from profiler.model.run import Run
from tests.conftest import Lab
from tests.strategies import OWN

VLLM = next(engine for engine in ENGINES if engine.name == "vllm")


def run(name: str) -> Run:
    if not OWN.is_dir():
        pytest.skip("the corpus of real files is not on this machine")
    return open_run(OWN / "vllm-compile" / name)


def situation(name: str) -> Situation:
    return situation_of(run(name), engine=VLLM)


@pytest.mark.parametrize("value", [True, False])
def test_a_knob_that_the_engine_sets_itself_changes_nothing_but_by_chance(value: bool) -> None:
    document = whatif(run("eager"), VLLM, {"overlap": value})
    assert any("no effect" in note for note in document.notes)
    for metric in ("output_throughput", "mean_ttft", "mean_tpot"):
        guess = document.predicted[metric]
        starts = spread.NORMAL_95 * spread.of_difference("cpu", "cpu", metric)
        assert guess.change == 0
        assert guess.interval[0] <= np.expm1(-starts) and guess.interval[1] >= np.expm1(starts)


def test_compiling_an_eager_run_has_bounds_that_begin_at_nothing() -> None:
    eager, compiled = run("eager"), run("compiled")
    assert (eager.fact("setting.compile"), compiled.fact("setting.compile")) == (False, True)
    found = outlook(situation_of(eager, engine=VLLM), {"cuda_graph": True})
    assert any("bounds" in note for note in found.notes)
    # The pair's latencies are of another load on the machine; its throughput is not.
    true = metrics_of(compiled.benches[-1])["output_throughput"] / metrics_of(eager.benches[-1])["output_throughput"]
    low, high = found.predicted["output_throughput"].interval
    assert low <= 0 < high and low <= true - 1.0 <= high
    assert found.predicted["output_throughput"].change > 0 > found.predicted["mean_tpot"].change


def test_what_a_compiled_run_can_not_tell_is_refused() -> None:
    compiled = situation("compiled")
    with pytest.raises(NotPredictable, match="compiled run"):
        outlook(compiled, {"cuda_graph": False})
    assert outlook(compiled, {"cuda_graph": True}).predicted["mean_tpot"].change == 0


def test_what_an_eager_run_shows_is_what_a_compiled_one_would_take() -> None:
    eager, compiled = run("eager"), run("compiled")
    found = outlook(situation_of(compiled, eager, engine=VLLM), {"cuda_graph": False})
    before, after = metrics_of(compiled.benches[-1]), metrics_of(eager.benches[-1])
    for metric in ("output_throughput", "mean_tpot"):  # the pair's TTFT is of another load on the machine
        low, high = found.predicted[metric].interval
        assert low <= after[metric] / before[metric] - 1.0 <= high
    assert found.bounded and found.predicted["mean_tpot"].change > 0 > found.predicted["output_throughput"].change


def test_another_run_has_to_be_eager_and_alike() -> None:
    eager, compiled = run("eager"), run("compiled")
    with pytest.raises(NotPredictable, match="the other run's compile is True"):
        outlook(situation_of(compiled, compiled, engine=VLLM), {"cuda_graph": False})
    name = replace(eager.facts["model.name"], value="another")
    other = replace(eager, facts={**eager.facts, "model.name": name})
    with pytest.raises(NotPredictable, match="differ in name"):
        outlook(situation_of(compiled, other, engine=VLLM), {"cuda_graph": False})
    eager = situation("eager")
    unknown = {key: fact for key, fact in eager.measured.run.facts.items() if key != "setting.compile"}
    measured = replace(eager.measured, run=replace(eager.measured.run, facts=unknown))
    with pytest.raises(NotPredictable, match="whether the model was compiled"):
        outlook(replace(eager, measured=measured), {"cuda_graph": True})


def test_the_advice_names_the_flag_with_its_bounds_and_what_is_without_effect() -> None:
    document = recommend(run("eager"), VLLM)
    row = next(row for row in document.recommendations if row.knob == "compile")
    assert row.flag == "--no-enforce-eager"
    assert row.why.startswith("Acts on compilation.") and "Bounds and no estimate" in row.why
    assert set(document.without_effect) == {"overlap"}
    assert not {"compile", "overlap"} & document.not_predicted.keys()


def test_on_a_gpu_both_are_what_they_are(lab: Lab) -> None:
    gpu = situation_of(lab("no-overlap").b, engine=VLLM)
    assert gpu.elsewhere == {}
    assert outlook(gpu, {"overlap": True}).predicted["output_throughput"].change > 0
    with pytest.raises(NotPredictable, match="GPU"):
        outlook(gpu, {"compile": True})
