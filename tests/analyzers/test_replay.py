"""The replay of a scheduler: by hand where that is possible, by law elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.analyzers.gap.replay import Demand, Front, Replayed, Rules, StepCost, replay

# 10 ms a step, 0.1 ms a prompt token, 1 ms a sequence in decode (its token counts as one, too).
STEP = StepCost(0.010, 0.0, 0.0009, ((0.0, 0.0001),))
OPEN = Rules(max_seqs=None, budget=None, chunked=True, mixed=True, kv_tokens=None, lag=False)


def demand(rows: list[tuple[int, int]], concurrency: int | None = None, arrival: list[float] | None = None) -> Demand:
    """(prompt, output) a request."""
    prompt, output = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return Demand(prompt, output, None if arrival is None else np.array(arrival), concurrency, np.ones(len(prompt)))


def changed(rules: Rules, **fields: object) -> Rules:
    return Rules(**{**{f: getattr(rules, f) for f in rules.__dataclass_fields__}, **fields})  # type: ignore[arg-type]


def test_one_request_by_hand() -> None:
    """100 prompt tokens in one step of 10 ms + 10 ms, then 4 steps of 11 ms."""
    found = replay(demand([(100, 5)], 1), OPEN, STEP)
    assert found.ttft.tolist() == pytest.approx([0.020])
    assert found.e2e.tolist() == pytest.approx([0.020 + 4 * 0.011])
    assert found.tpot.tolist() == pytest.approx([0.011])
    assert (found.steps, found.decoded) == (5, 4)


def test_a_budget_splits_a_prompt_over_steps() -> None:
    found = replay(demand([(100, 1)], 1), changed(OPEN, budget=40), STEP)
    assert found.steps == 3
    assert found.ttft.tolist() == pytest.approx([3 * 0.010 + 0.010])


def test_decodes_go_on_beside_a_prefill_where_the_engine_mixes() -> None:
    requests = demand([(10, 20), (1000, 1)], arrival=[0.0, 0.05])
    mixed = replay(requests, OPEN, STEP)
    apart = replay(requests, changed(OPEN, mixed=False), STEP)
    assert mixed.steps == apart.steps - 1
    assert apart.e2e[0] > mixed.e2e[0]


def test_a_sequence_limit_makes_the_second_wait() -> None:
    found = replay(demand([(10, 10), (10, 10)], 2), changed(OPEN, max_seqs=1), STEP)
    assert found.ttft[1] == pytest.approx(found.e2e[0] + 0.011)


def test_an_asynchronous_scheduler_takes_a_new_request_a_step_later() -> None:
    requests = demand([(10, 50), (10, 1)], arrival=[0.0, 0.0301])
    direct, late = replay(requests, OPEN, STEP), replay(requests, changed(OPEN, lag=True), STEP)
    assert late.ttft[1] - direct.ttft[1] == pytest.approx(0.011)


def test_a_full_cache_preempts_and_computes_again() -> None:
    requests = demand([(100, 60), (100, 60)], 2)
    small = replay(requests, changed(OPEN, kv_tokens=250), STEP)
    assert small.preemptions >= 1
    assert small.duration > replay(requests, OPEN, STEP).duration
    assert np.isfinite(small.e2e).all()


def test_a_prompt_that_never_fits_is_said() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        replay(demand([(100, 5)], 1), changed(OPEN, budget=0), STEP)


def test_cached_prompt_tokens_cost_nothing() -> None:
    requests = demand([(1000, 2)] * 10, 1)
    half = replace(requests, computed=np.array([1.0, *[0.5] * 9]))
    assert half.share == pytest.approx(0.55)
    found = replay(half, changed(OPEN, budget=1000), STEP)
    assert found.ttft[0] == pytest.approx(0.110)
    assert found.ttft[1:].tolist() == pytest.approx([0.060] * 9)


requests_drawn = st.lists(st.tuples(st.integers(1, 400), st.integers(1, 40)), min_size=1, max_size=25)
rules_drawn = st.builds(
    Rules,
    max_seqs=st.one_of(st.none(), st.integers(1, 12)),
    budget=st.one_of(st.none(), st.integers(64, 600)),
    chunked=st.booleans(),
    mixed=st.booleans(),
    kv_tokens=st.one_of(st.none(), st.integers(1000, 4000)),
    lag=st.booleans(),
)


def checked(found: Replayed, requests: Demand) -> None:
    assert np.isfinite(found.ttft).all()
    assert (found.ttft > 0).all()
    assert (found.e2e >= found.ttft - 1e-12).all()
    assert found.duration > 0
    if not found.preemptions:
        # Every token after a request's first is decoded once.
        assert found.decoded == int((requests.output - 1).sum())


@given(requests_drawn, rules_drawn, st.one_of(st.none(), st.integers(1, 8)))
def test_every_request_is_served_whatever_the_rules(
    rows: list[tuple[int, int]], rules: Rules, concurrency: int | None
) -> None:
    requests = demand(rows, concurrency)
    found = replay(requests, rules, STEP)
    checked(found, requests)
    # The same again.
    assert replay(requests, rules, STEP).metrics() == found.metrics()


seconds_drawn = st.floats(0.0, 0.5)
fronts_drawn = st.builds(Front, seconds_drawn, seconds_drawn, st.floats(-0.02, 0.2))


@given(requests_drawn, rules_drawn, st.integers(1, 8), fronts_drawn)
def test_no_response_ends_before_it_began_however_late_the_client_is(
    rows: list[tuple[int, int]], rules: Rules, concurrency: int, front: Front
) -> None:
    """As where the client's first tokens were held up for longer than the quicker engine's whole response takes."""
    found = replay(demand(rows, concurrency), rules, STEP, front=front)
    assert (found.ttft > 0).all() and (found.e2e >= found.ttft).all()
    assert all(value >= 0 for value in found.metrics().values())


@given(requests_drawn, rules_drawn, st.floats(0.0, 0.2))
def test_an_open_loop_serves_every_arrival(rows: list[tuple[int, int]], rules: Rules, spacing: float) -> None:
    requests = demand(rows, arrival=[i * spacing for i in range(len(rows))])
    checked(replay(requests, rules, STEP), requests)


@given(requests_drawn, rules_drawn)
def test_twice_the_step_time_is_twice_every_time(rows: list[tuple[int, int]], rules: Rules) -> None:
    requests = demand(rows, 4)
    slow = STEP.plus(STEP)
    one, two = replay(requests, rules, STEP), replay(requests, rules, slow)
    assert two.ttft.tolist() == pytest.approx((2 * one.ttft).tolist())
    assert two.e2e.tolist() == pytest.approx((2 * one.e2e).tolist())


@given(requests_drawn, st.integers(1, 6))
def test_a_stretch_is_the_sum_of_its_steps(rows: list[tuple[int, int]], concurrency: int) -> None:
    """Arrivals that come too late to matter cut stretches short and change nothing else."""
    requests = demand(rows, arrival=[0.0] * len(rows))
    whole = replay(requests, OPEN, STEP)
    late = [whole.duration + 1 + i * 0.001 for i in range(concurrency)]
    cut = demand([*rows, *[(1, 1)] * concurrency], arrival=[*[0.0] * len(rows), *late])
    assert replay(cut, OPEN, STEP).e2e[: len(rows)].tolist() == pytest.approx(whole.e2e.tolist())


def test_the_basis_and_the_cost_agree() -> None:
    both = STEP.plus(STEP, 2.0)
    assert both.seconds(7, 900) == pytest.approx(3 * STEP.seconds(7, 900))
