"""The lines of a report: what they hold is what the files hold, in few points."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from profiler.analyzers.curves import POINTS, curves_of, role_rows
from profiler.analyzers.device_figures import roofs_of
from profiler.analyzers.gap.measured import measure
from profiler.analyzers.metrics import samples
from tests.conftest import Lab


def test_lines_of_a_run(lab: Lab) -> None:
    run = lab("few-sequences").b
    measured = measure(run, run.benches[-1])
    curves = {curve.topic: curve for curve in curves_of(measured, "b")}
    assert {"sequences", "cache", "clock", "ttft", "tpot", "e2e"} <= set(curves)
    for curve in curves.values():
        assert curve.run == "b"
        assert len(curve.x) == len(curve.y) <= POINTS
        assert list(curve.x) == sorted(curve.x)
        assert np.isfinite(curve.y).all()
    # The sequence limit of this run is 16.
    assert max(curves["sequences"].y) <= 16
    assert max(curves["sequences"].y) > 15
    assert run.benches[-1].requests is not None
    ttft = samples(run.benches[-1].requests, "ttft")
    assert curves["ttft"].y[49] == pytest.approx(float(np.median(ttft)))


def test_few_samples_stand_where_they_were_taken(lab: Lab) -> None:
    run = lab("few-sequences").a
    at, clock = np.array([0.0, 0.0, 1.0, 2.0, 3.0]) + 100, np.array([1.0, 3.0, 1.8, 1.7, 1.6]) * 1e9
    (table, *_) = run.counters
    empty = np.full(len(at), np.nan)
    columns = {field.name: empty for field in fields(table) if isinstance(getattr(table, field.name), np.ndarray)}
    few = replace(table, **(columns | {"clock": at, "sm_clock": clock}))
    (curve,) = (
        c for c in curves_of(measure(replace(run, counters=(few,)), run.benches[-1]), "a") if c.topic == "clock"
    )
    # Two devices at one moment are one point.
    assert curve.x == (0.0, 1.0, 2.0, 3.0) and curve.y == pytest.approx((2e9, 1.8e9, 1.7e9, 1.6e9))


def test_roles_of_both_runs(lab: Lab) -> None:
    pair = lab("slow-attention")
    a, b = (measure(run, run.benches[-1]) for run in (pair.a, pair.b))
    rows = {row.role: row for row in role_rows(a, b)}
    attention = rows["attention"]
    assert attention.a_seconds is not None
    assert attention.b_seconds is not None
    assert attention.b_seconds > 1.5 * attention.a_seconds
    assert a.traced is not None and a.traced.layers and attention.a_layer is not None
    assert attention.a_layer * a.traced.layers == pytest.approx(attention.a_seconds)
    assert rows["sampling"].a_layer is None and rows["sampling"].a_seconds is not None
    assert a.traced.steps is not None and attention.a_calls is not None
    calls = sum(total.calls for total in a.traced.totals) / len(a.traced.steps.first)
    assert sum(row.a_calls or 0.0 for row in rows.values()) == pytest.approx(calls)
    assert attention.a_calls * len(a.traced.steps.first) == sum(
        total.calls for total in a.traced.totals if total.category == "attention"
    )
    shares = {roof.role: roof.share for roof in roofs_of(pair.a, a.traced)}
    assert shares and {row.role: row.a_roofline for row in rows.values() if row.a_roofline is not None} == shares
    assert role_rows(None, None) == ()
    assert all(row.a_seconds is None for row in role_rows(None, b))
