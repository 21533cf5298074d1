"""Captured sizes and padding on the lab's runs, where the truth is the other run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler import open_run
from profiler.analyzers.gap.replay import StepCost
from profiler.analyzers.knobs import NotPredictable
from profiler.analyzers.knobs_captured import Captures, Lanes, Line, sizes_of
from profiler.analyzers.metrics import metrics_of
from profiler.analyzers.predict import outlook, situation_of
from profiler.model.fact import Fact
from profiler.model.run import Run
from tests.conftest import Lab
from tests.strategies import LAB

# A small model whose launches take longer than its kernels, under a load that comes and goes.
VARIED = (
    "model.name=sim/qwen-0.5b", "model.layers=24", "model.hidden=896", "model.intermediate=4864", "model.kv_heads=2",
    "model.head_dim=64", "workload.requests=300", "workload.input_tokens=[64,256]",
)  # fmt: skip
Simulated = Callable[[int, int, float], tuple[Run, Run]]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """(run A captured up to a size, run B up to another) at a rate of requests."""
    if not LAB.is_file():
        pytest.skip("the lab is not on this machine")

    @cache
    def pair(a: int, b: int, rate: float) -> tuple[Run, Run]:
        out = tmp_path_factory.mktemp("captured")
        words = [w for field in (*VARIED, f"workload.rate={rate}", f"max_capture={a}") for w in ("--a", field)]
        command = [sys.executable, str(LAB), "pair", str(out), *words, "--b", f"max_capture={b}"]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        return open_run(out / "run-A"), open_run(out / "run-B")

    return pair


def stating(run: Run, **settings: object) -> Run:
    return replace(run, facts={**run.facts, **{f"setting.{k}": Fact(v, "run.json") for k, v in settings.items()}})


# Both kinds of steps in the trace; beyond the size in the log alone; replayed steps alone.
@pytest.mark.parametrize(("a", "b", "rate"), [(16, 512, 60.0), (10, 16, 40.0), (24, 8, 60.0)])
def test_another_largest_size_is_predicted(a: int, b: int, rate: float, simulated: Simulated) -> None:
    before, after = simulated(a, b, rate)
    found = outlook(situation_of(before), {"cuda_graph_max_batch": b})
    assert found.bounded
    for metric in ("output_throughput", "mean_ttft", "mean_tpot"):
        true = metrics_of(after.benches[-1])[metric] / metrics_of(before.benches[-1])[metric] - 1.0
        guess = found.predicted[metric]
        assert guess.change * true > 0
        assert guess.interval[0] <= true <= guess.interval[1]
    true = metrics_of(after.benches[-1])["mean_tpot"] / metrics_of(before.benches[-1])["mean_tpot"] - 1.0
    assert found.predicted["mean_tpot"].change == pytest.approx(true, rel=0.15)


def test_the_largest_size_of_a_list_counts_like_one_alone(simulated: Simulated) -> None:
    situation = situation_of(simulated(16, 512, 60.0)[0])
    alone = outlook(situation, {"cuda_graph_max_batch": 64}).predicted["mean_tpot"].change
    dense = outlook(situation, {"cuda_graph_batches": ",".join(map(str, range(1, 65)))}).predicted["mean_tpot"].change
    coarse = outlook(situation, {"cuda_graph_batches": "1,64"}).predicted["mean_tpot"].change
    assert alone == pytest.approx(dense)
    assert alone <= coarse < 0.0  # rows that only pad cost something, and less than launches


def test_the_size_as_it_is_changes_nothing(simulated: Simulated) -> None:
    situation = situation_of(simulated(16, 512, 60.0)[0])
    assert outlook(situation, {"cuda_graph_max_batch": 16}).predicted["mean_tpot"].change == pytest.approx(0.0)


def test_padding_needs_the_sizes(simulated: Simulated) -> None:
    run = simulated(16, 512, 60.0)[0]
    with pytest.raises(NotPredictable, match="which sizes were captured"):
        outlook(situation_of(run), {"cuda_graph_padding": False})
    sparse = situation_of(stating(run, cuda_graph_batches=[1, 2, 4, 8, 16]))
    assert outlook(sparse, {"cuda_graph_padding": False}).predicted["mean_tpot"].change > 0.1
    with pytest.raises(NotPredictable, match="only one"):
        outlook(sparse, {"cuda_graph_padding": False, "cuda_graph_max_batch": 8})


def test_a_run_that_shows_too_little_is_refused(simulated: Simulated) -> None:
    # All traced steps are beyond the size, and nothing says where it lies.
    with pytest.raises(NotPredictable, match="no traced step replays a graph"):
        outlook(situation_of(simulated(24, 8, 60.0)[1]), {"cuda_graph_max_batch": 24})
    # Some steps replay: graphs are on.
    with pytest.raises(NotPredictable, match="replay graphs already"):
        outlook(situation_of(simulated(16, 512, 60.0)[0]), {"cuda_graph": True})


def test_a_stated_size_tells_steps_apart_without_a_traced_replay(simulated: Simulated) -> None:
    after, before = simulated(24, 8, 60.0)
    found = outlook(situation_of(stating(before, cuda_graph_max_batch=8)), {"cuda_graph_max_batch": 24})
    true = metrics_of(after.benches[-1])["mean_tpot"] / metrics_of(before.benches[-1])["mean_tpot"] - 1.0
    assert found.predicted["mean_tpot"].change == pytest.approx(true, rel=0.15)


@pytest.mark.parametrize(
    ("value", "sizes"),
    [
        ([4, 1, 2], (1, 2, 4)),
        ("1, 2,4", (1, 2, 4)),
        ("[8, 16]", (8, 16)),
        (8, (8,)),
        (True, ()),
        ("all", ()),
        (None, ()),
    ],
)
def test_sizes_are_read_as_they_are_stated(value: object, sizes: tuple[int, ...]) -> None:
    assert sizes_of(value) == sizes


@given(st.lists(st.integers(1, 64), min_size=1, unique=True).map(sorted), st.integers(1, 80), st.booleans())
def test_a_step_is_replayed_at_the_next_size_or_not_at_all(sizes: list[int], decode: int, padded: bool) -> None:
    captures = Captures(float(max(sizes)), tuple(sizes), padded)
    assert captures.replays(decode) == (decode <= max(sizes) and (padded or decode in sizes))
    lanes = Lanes(Line(1.0, 0.0), lambda _: 5.0, 0.01, StepCost())
    every = Captures(float("inf"))
    took = lanes.apart(captures, every, StepCost()).decodes(decode)
    if not captures.replays(decode):
        assert took == 5.0
    else:
        assert took == pytest.approx(1.0 + 0.01 * (min(s for s in sizes if s >= decode) - decode))


def test_a_mode_is_graphs_on_or_off_and_pieces_are_refused(lab: Lab) -> None:
    """Decode steps of A are one graph each, those of the other pairs' B run eagerly or in pieces."""
    pair = lab("graphs-off-small-model")
    for run, mode, on in ((pair.a, "NONE", False), (pair.b, "FULL_AND_PIECEWISE", True)):
        situation = situation_of(run)
        found, same = (outlook(situation, s).predicted for s in ({"cuda_graph_mode": mode}, {"cuda_graph": on}))
        assert found == same
    pieces = lab("piecewise").b
    for run, mode, reason in (
        (pair.a, "FULL_DECODE_ONLY", "run so already"), (pair.a, "PIECEWISE", "in pieces"),
        (pair.a, "breakable", "in pieces"), (pieces, "FULL", "in pieces"), (pair.a, "other", "nothing is known"),
    ):  # fmt: skip
        with pytest.raises(NotPredictable, match=reason):
            outlook(situation_of(run), {"cuda_graph_mode": mode})
