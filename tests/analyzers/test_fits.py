"""Properties that the step-time model and the choice of the measured window promise, whatever their insides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.analyzers.gap.least_squares import nonnegative
from profiler.analyzers.gap.load import Load
from profiler.analyzers.gap.shape import fit, fit_pair
from profiler.analyzers.gap.window import measured_window
from profiler.model.requests import BenchResult
from profiler.model.steps import StepTable

Rng = np.random.Generator


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10_000), rows=st.integers(1, 30))
def test_nonnegative_least_squares_meets_its_own_conditions(seed: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    features = np.abs(rng.normal(size=(rows, 4))) * rng.choice([0.0, 1.0, 50.0], size=4)
    target = rng.normal(size=rows) * 10
    normal, moment = features.T @ features, features.T @ target
    found = nonnegative(normal, moment)
    assert (found >= 0).all() and np.isfinite(found).all()
    gradient = normal @ found - moment
    scale = np.sqrt(np.maximum(np.diag(normal), 1e-12)) * (np.linalg.norm(target) + 1)
    assert (gradient >= -1e-5 * scale).all(), "some cost could still fall"
    assert (np.abs(gradient[found > 0]) <= 1e-5 * scale[found > 0]).all(), "a positive cost is not at its optimum"


def load(rng: Rng, n: int = 300) -> Load:
    prefill = np.where(rng.random(n) < 0.3, rng.integers(1, 2000, n), 0).astype(float)
    decode = rng.integers(0, 64, n).astype(float)
    return Load(decode, prefill, (prefill > 0).astype(float), np.zeros(n), np.ones(n))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), hinge=st.sampled_from([0.0, 64.0, 256.0, 512.0]))
def test_a_fit_finds_the_costs_that_made_the_steps(seed: int, hinge: float) -> None:
    rng = np.random.default_rng(seed)
    steps = load(rng)
    cost = np.array([5e-3, 1e-3, 20e-6, 50e-6])
    seconds = steps.features(hinge) @ cost
    shape = fit(steps, seconds)
    assert shape.seconds(steps) == pytest.approx(seconds, rel=0.03)
    assert shape.total(steps) == pytest.approx(float(seconds.sum()), rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000))
def test_a_fit_meets_the_measured_total_and_never_charges_less_than_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps = load(rng, 80)
    seconds = rng.gamma(2.0, 5e-3, size=80)
    shape = fit(steps, seconds)
    assert (shape.cost >= 0).all()
    assert shape.total(steps) == pytest.approx(float(seconds.sum()), rel=1e-9)
    assert float(shape.by_work(steps).sum()) == pytest.approx(shape.total(steps), rel=1e-9)
    more = Load(steps.decode + 1, steps.prefill_tokens + 10, steps.prefill_requests, steps.stalled, steps.weight)
    assert (shape.seconds(more) >= shape.seconds(steps) - 1e-15).all(), "more work can't take less time"
    assert shape.covers(steps)


def test_a_scaled_shape_scales_every_prediction() -> None:
    steps = load(np.random.default_rng(1))
    shape = fit(steps, 1e-3 + steps.decode * 1e-5)
    assert shape.scaled(2.0).seconds(steps) == pytest.approx(2 * shape.seconds(steps))


# ------------------------------------------------------------------------------------------------ the measured window
def steps_of(requests: int, tokens: int, clock: float) -> dict[str, list[float]]:
    """A load on an idle engine: one step that prefills all, then one a decoded token."""
    n = tokens
    return {
        "clock": [clock + 0.01 * i for i in range(n)],
        "seconds": [0.01] * n,
        "prefill_requests": [requests] + [0] * (n - 1),
        "prefill_tokens": [100 * requests] + [0] * (n - 1),
        "decode_requests": [0] + [requests] * (n - 1),
        "decode_tokens": [0] + [requests] * (n - 1),
    }


def table(*loads: dict[str, list[float]]) -> StepTable:
    merged: dict[str, list[float]] = {key: [x for one in loads for x in one[key]] for key in loads[0]}
    return StepTable.build(len(merged["clock"]), **merged)


NOON = 1_748_001_600.0  # 2025-05-23 12:00:00 UTC


def result(requests: int, tokens: int, ended: str | None, duration: float) -> BenchResult:
    return BenchResult(
        "b", "t", duration, requests, 0, 100 * requests, requests * tokens, ended=ended, max_concurrency=requests
    )


def test_a_log_that_adds_up_is_the_load() -> None:
    found = measured_window(table(steps_of(8, 50, NOON)), result(8, 50, None, 0.6), True)
    assert found is not None and found.exact and len(found.steps) == 50


def test_warm_up_and_later_loads_are_left_out_by_their_tokens() -> None:
    log = table(steps_of(3, 20, NOON), steps_of(8, 50, NOON + 10), steps_of(5, 33, NOON + 20))
    found = measured_window(log, result(8, 50, "20250523-120010", 0.6), True)
    assert found is not None and found.exact and len(found.steps) == 50
    assert float(found.steps.decode_tokens.sum()) == 8 * 49


def test_of_two_equal_loads_the_one_that_ended_with_the_client_is_taken() -> None:
    log = table(steps_of(8, 50, NOON), steps_of(8, 50, NOON + 60))
    for ended, start in (("20250523-120000", NOON), ("20250523-120100", NOON + 60)):
        found = measured_window(log, result(8, 50, ended, 0.6), True)
        assert found is not None and found.exact
        assert found.steps.clock[0] == start


def test_without_any_tie_nothing_is_claimed() -> None:
    log = table(steps_of(3, 20, NOON))
    assert measured_window(log, result(8, 50, None, 0.6), True) is None
    assert measured_window(log, result(8, 50, "20250523-180000", 0.6), False) is None
    assert measured_window(StepTable.build(0), result(8, 50, None, 0.6), True) is None


def test_a_sampled_log_is_cut_by_the_clock_and_says_it_is_approximate() -> None:
    log = table(steps_of(3, 20, NOON), steps_of(8, 50, NOON + 600))
    found = measured_window(log, result(8, 50, "20250523-121000", 0.6), False)
    assert found is not None and not found.exact and len(found.steps) == 50


@pytest.mark.parametrize("hours", [-11, -5, 0, 3, 8])
def test_client_and_server_may_live_in_different_time_zones_where_the_tokens_tell(hours: int) -> None:
    log = table(steps_of(3, 20, NOON + 3600 * hours), steps_of(8, 50, NOON + 3600 * hours + 10))
    found = measured_window(log, result(8, 50, "20250523-120010", 0.6), True)
    if hours == 0:
        assert found is not None and found.exact
    assert found is None or (found.exact and float(found.steps.decode_tokens.sum()) == 8 * 49)


def prefills(rng: Rng, tokens: tuple[int, ...], n: int = 300) -> Load:
    """Steps of up to four sequences, every third with a prompt of one of these sizes."""
    prompt = np.where(np.arange(n) % 3 == 0, rng.choice(tokens, n), 0).astype(float)
    return Load(rng.integers(1, 5, n).astype(float), prompt, (prompt > 0).astype(float), np.zeros(n), np.ones(n))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), knee=st.floats(0.0, 1e-2), odd=st.integers(0, 2))
def test_steps_that_are_nowhere_alike_differ_by_what_they_carry(seed: int, knee: float, odd: int) -> None:
    """One engine twice, of whose prompts a cache leaves little in one run: no shape of four terms holds both, and
    neither run's own says what the other's steps would take. A prompt or two that the cache did not hold, whose time
    the log gives to the step after, do not say it either."""
    rng = np.random.default_rng(seed)
    short, long = prefills(rng, (32, 64, 97)), prefills(rng, (1024, 1824, 2048))
    seconds = [
        (3e-3 + 3e-4 * load.decode + 5e-5 * load.prefill_tokens + knee * (1.0 - np.exp(-load.prefill_tokens / 100)))
        * rng.normal(1.0, 0.1, len(load))
        for load in (short, long)
    ]
    for at in range(0, 3 * odd, 3):
        short.prefill_tokens[at] = 2048.0
        seconds[0][at + 1] += 2048.0 * 5e-5
    one, two = fit_pair(short, seconds[0], long, seconds[1])
    gap = float(seconds[1].sum() - seconds[0].sum())
    rates = 0.5 * (two.total(long) - one.total(long) + two.total(short) - one.total(short))
    assert abs(rates) < 0.15 * gap
    assert one.total(short) == pytest.approx(float(seconds[0].sum())) and two.total(long) == pytest.approx(
        seconds[1].sum()
    )


def test_a_shape_covers_prefills_of_the_sizes_that_it_saw() -> None:
    """A step that only decodes and a long prefill do not show what a short one takes."""
    rng = np.random.default_rng(0)
    long, short = prefills(rng, (1024, 2048)), prefills(rng, (64,))
    seen = fit(long, 5e-3 + 5e-5 * long.prefill_tokens)
    assert seen.covers(long) and not seen.covers(short)
    assert seen.covers(short.rows(short.prefill_tokens == 0))


def test_bounds_that_several_steps_reach_count_rows_by_their_weight() -> None:
    each = Load(*(np.array(c, float) for c in ([1, 2, 2, 3, 9], [0] * 5, [0] * 5, [0] * 5, [1, 1, 2, 3, 1])))
    low, high = each.reached(3)
    assert (low[0, 3], high[0, 3]) == (2.0, 3.0)
    assert each.bounds[0][0, 3] == 1.0 and each.bounds[1][0, 3] == 9.0
    assert np.isinf(low[1]).all(), "no step prefills"
    assert np.isinf(each.reached(9)[0]).all(), "there are eight steps"
