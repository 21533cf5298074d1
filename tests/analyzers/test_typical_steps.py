"""Typical steps beside each other: of equal composition where there is one, bounded, and in the trace where they say."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from profiler.analyzers.device_view import views_of
from profiler.analyzers.step_lanes import JOINED, _in_turn
from profiler.analyzers.typical import steps_of
from profiler.analyzers.typical_steps import typical_steps
from profiler.model.timeline import Lane, TypicalStep
from profiler.model.trace import EventTable
from tests.conftest import Lab
from tests.strategies import OWN

MOST = 502


def lane_of(step: TypicalStep, kind: str) -> Lane:
    return next(lane for lane in step.lanes if lane.kind == kind)


def seconds(lane: Lane, group: str) -> float:
    return lane.seconds[lane.groups.index(group)]


def test_steps_of_one_composition_stand_beside_each_other(lab: Lab) -> None:
    pair = lab("slow-attention")
    pairs, moments = typical_steps(pair.a, pair.b)
    assert [one.kind for one in pairs] == ["decode", "prefill"]
    for one in pairs:
        assert one.equal is True
        assert one.steps[0].composition == one.steps[1].composition
    a, b = pairs[0].steps
    assert seconds(lane_of(b, "device"), "attention") > 1.5 * seconds(lane_of(a, "device"), "attention")
    assert {m.bucket for m in moments if m.cause == "kernel"} == {"attention"}


def test_a_bar_lies_where_its_kernel_is(lab: Lab) -> None:
    run = lab("graphs-off").b
    pairs, _ = typical_steps(run, run)
    step = pairs[0].steps[0]
    view = views_of(run.traces[0])[0]
    since = int(view.trace.events.start.min())
    begins = {round(ns) for ns in view.events.start.tolist()}
    lane = lane_of(step, "device")
    single = [row for row, name in enumerate(lane.name) if name != JOINED]
    assert len(single) > 10
    assert {since + round((step.at + lane.start[row]) * 1e9) for row in single} <= begins
    rows = view.links.step == step.step
    inside = np.unique(view.events.stream[rows])
    kernels = view.events.select(rows)
    shown = [one for one in step.lanes if one.kind == "device"]
    assert sum(sum(one.events) for one in shown) == len(kernels)
    assert sum(sum(one.seconds) for one in shown) == pytest.approx(kernels.duration.sum() / 1e9)
    assert len(shown) == len(inside)


@pytest.mark.parametrize("case", ["graphs-off", "few-sequences", "piecewise"])
def test_rows_are_bounded_ordered_and_do_not_overlap(lab: Lab, case: str) -> None:
    pairs, _ = typical_steps(lab(case).a, lab(case).b)
    for step in (step for pair in pairs for step in pair.steps):
        for lane in step.lanes:
            start, length = np.array(lane.start), np.array(lane.length)
            assert 0 < len(start) <= MOST
            assert (start[1:] >= (start + length)[:-1] - 2e-9).all()
            assert (np.array(lane.busy) <= length + 1e-9).all()
            assert sum(lane.seconds) == pytest.approx(sum(lane.busy), abs=1e-7)
            assert sum(lane.events) == sum(lane.count)


def test_the_wait_before_a_step_and_what_the_host_did_for_it_alone_are_shown(lab: Lab) -> None:
    run = lab("graphs-off").b
    pairs, _ = typical_steps(run, run)
    view = views_of(run.traces[0])[0]
    steps, first = steps_of(view), int(view.trace.events.start.min())
    for step in (pair.steps[0] for pair in pairs):
        row = steps.number.tolist().index(step.step)
        wait = int(steps.start[row]) - int(steps.end[row - 1])
        assert wait > 0
        idle = lane_of(step, "idle")
        assert idle.start[0] == pytest.approx(-wait / 1e9, abs=2e-9)
        assert step.seconds == pytest.approx((int(steps.end[row]) - int(steps.end[row - 1])) / 1e9)
        host, spans = lane_of(step, "host"), view.spans
        begins = first + round((step.at + host.start[0]) * 1e9)
        ends = first + round((step.at + host.start[-1] + host.length[-1]) * 1e9)
        assert begins >= spans.end[step.step - 1] - 2
        assert ends <= max(int(spans.end[step.step]), int(steps.end[row])) + 2


def test_phases_that_overlap_by_rounding_keep_their_length() -> None:
    columns = {field.name: np.zeros(3, np.int64) for field in fields(EventTable)}
    table = EventTable(**columns | {"start": np.array([0, 99, 120]), "duration": np.array([100, 200, 50])})  # type: ignore[arg-type]
    cut = _in_turn(table)
    assert cut.start.tolist() == [0, 99, 120]
    assert cut.end.tolist() == [99, 299, 170]


def test_where_nothing_is_common_the_nearest_are_taken_and_called_so(lab: Lab) -> None:
    pairs, _ = typical_steps(lab("few-sequences").a, lab("few-sequences").b)
    assert pairs[0].equal is False
    a, b = (int(step.composition.split()[0]) for step in pairs[0].steps)
    assert a > b


def test_a_run_without_a_trace_says_so(lab: Lab) -> None:
    pair = lab("graphs-off")
    bare = replace(pair.b, traces=())
    pairs, _ = typical_steps(pair.a, bare)
    assert [step.run for step in pairs[0].steps] == ["a"]
    assert pairs[0].absent == {"b": "no trace recorded"}
    assert pairs[0].equal is None
    neither, moments = typical_steps(bare, bare)
    assert neither[0].steps == ()
    assert neither[0].absent == {"a": "no trace recorded", "b": "no trace recorded"}
    assert moments == ()


def test_the_operators_of_a_cpu_engine(corpus: object) -> None:
    from profiler import open_run

    folder = OWN / "vllm-sequences"
    runs = [open_run(path) for path in sorted(path for path in folder.iterdir() if path.is_dir())[:2]]
    pairs, _ = typical_steps(*runs)
    for step in pairs[0].steps:
        assert step.device == "cpu"
        assert lane_of(step, "device").title == "operators"
