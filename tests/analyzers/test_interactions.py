"""A knob beside the row of its cause."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from profiler.analyzers.causes import CAUSES
from profiler.analyzers.interactions import beside_rows, worth_of
from profiler.analyzers.knobs import EFFECTS
from profiler.analyzers.knobs_captured import CAPTURED
from profiler.analyzers.knobs_on_cpu import COMPILER
from profiler.model.diagnosis import Cause, Gap, Prediction, Recommendation
from tests.conftest import Lab


def primary(lab: Lab, case: str) -> tuple[Gap, Cause]:
    gap = lab(case).forward.gaps[0]
    return gap, next(row for row in gap.causes if row.cause == "batching")


def knob(change: float, low: float, high: float) -> Recommendation:
    prediction = Prediction(change=change, interval=(low, high))
    return Recommendation(
        run="run-B",
        knob="max_num_seqs",
        flag="--max-num-seqs",
        current="16",
        to="96",
        predicted={"output_throughput": prediction},
        why="",
        check="",
    )


def test_a_row_that_is_all_of_the_gap_is_worth_all_of_it(lab: Lab) -> None:
    gap, row = primary(lab, "few-sequences")
    for whole, loser in ((gap, gap.b), (lab("few-sequences").backward.gaps[0], gap.b)):
        rows = {one.cause: one for one in whole.causes}
        winner = whole.a if whole.winner == "a" else whole.b
        alone = replace(rows["batching"], gap=whole.gap)
        assert worth_of(alone, whole) == pytest.approx(winner / loser - 1.0)
    latency = next(one for one in lab("few-sequences").forward.gaps if one.metric == "mean_ttft")
    assert worth_of(replace(row, gap=latency.gap), latency) == pytest.approx(latency.a / latency.b - 1.0)


def test_a_prediction_that_is_not_the_row_says_so(lab: Lab) -> None:
    gap, row = primary(lab, "few-sequences")
    worth = worth_of(row, gap)
    assert worth is not None and worth > 0.5
    for guess, said in (
        (knob(0.95 * worth, 0.9 * worth, 1.1 * worth), None),
        (knob(0.7 * worth, 0.5 * worth, 1.1 * worth), "batching's row of the gap (+"),
        (knob(0.1, 0.05, 0.15), "less than batching's row of the gap (+"),
        (knob(3 * worth, 2.9 * worth, 3.1 * worth), "not batching's row of the gap (+"),
        (knob(-0.1, -0.15, -0.05), "not batching's row of the gap (+"),
    ):
        (found,) = beside_rows((guess,), gap)
        assert found.beside.get("output_throughput", "").startswith(said or "") and bool(found.beside) == bool(said)
    assert beside_rows((replace(knob(0.1, 0.05, 0.15), knob="tensor_parallel"),), gap)[0].beside == {}


def test_every_knob_of_a_cause_has_an_effect() -> None:
    named = [name for kind in CAUSES for name in kind.knobs]
    assert len(named) == len(set(named)) and set(named) <= {*EFFECTS, *CAPTURED, COMPILER.knob}
