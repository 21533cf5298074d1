"""Shapley shares: they add up, they swap their sign, and the replay reproduces the runs that it stands for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.analyzers.gap.accounting import per_output_token, split
from profiler.analyzers.gap.ledger import COVERED, UNEXPLAINED, Context, Ledger, cover
from profiler.analyzers.gap.load import SEQUENCE
from profiler.analyzers.gap.measured import Measured, measure
from profiler.analyzers.gap.model import RunModel, models_of
from profiler.analyzers.gap.played import Player, player_of
from profiler.analyzers.gap.shares import Shares, booked, shares_of
from profiler.analyzers.metrics import metrics_of
from tests.conftest import Lab, Pair

CASES = ["slow-attention", "few-sequences", "opposing", "small-kv", "three-at-once", "slow-kernels-near-saturation"]


def sides(pair: Pair) -> tuple[Measured, Measured, RunModel, RunModel]:
    a, b = measure(pair.a, pair.a.benches[-1]), measure(pair.b, pair.b.benches[-1])
    models = models_of(a, b, split=True)
    assert models is not None
    return a, b, *models


def shared(a: Measured, b: Measured, model_a: RunModel, model_b: RunModel) -> tuple[Player, Player, Shares]:
    one, two = player_of(a, model_a), player_of(b, model_b)
    assert one is not None
    assert two is not None
    assert a.steps is not None
    assert b.steps is not None
    part = split(model_a, per_output_token(a.steps.load, a.tokens), model_b, per_output_token(b.steps.load, b.tokens))
    found = shares_of(one, two, Context(a, b, None), part)
    assert found is not None
    return one, two, found


@pytest.mark.parametrize("case", CASES)
def test_shares_add_up_and_swap(case: str, lab: Lab) -> None:
    a, b, model_a, model_b = sides(lab(case))
    one, two, forward = shared(a, b, model_a, model_b)
    _, _, backward = shared(b, a, model_b, model_a)
    for metric, row in forward.amounts.items():
        gap = forward.b[metric] - forward.a[metric]
        assert sum(row.values()) == pytest.approx(gap, abs=1e-9 * max(abs(forward.a[metric]), 1e-3))
        assert forward.a[metric] == pytest.approx(backward.b[metric])
        for cause, amount in row.items():
            assert backward.amounts[metric].get(cause, 0.0) == pytest.approx(-amount, abs=0.02 * abs(gap) + 1e-12)
    ledger = booked(forward, "mean_ttft", one, two, 0.123, None)
    assert sum(ledger.amounts.values()) == pytest.approx(0.123)


def test_a_run_against_itself_has_no_shares(lab: Lab) -> None:
    a, _, model_a, _ = sides(lab("slow-attention"))
    _, _, found = shared(a, a, model_a, model_a)
    assert all(amount == 0.0 for row in found.amounts.values() for amount in row.values())


@pytest.mark.parametrize("case", ["few-sequences", "slow-attention", "small-kv", "throttled"])
def test_the_replay_reproduces_the_run(case: str, lab: Lab) -> None:
    a, b, model_a, model_b = sides(lab(case))
    for measured, model in ((a, model_a), (b, model_b)):
        player = player_of(measured, model)
        assert player is not None
        played, own = player.play().metrics(), metrics_of(measured.bench)
        errors = {name: played[name] / own[name] - 1.0 for name in ("output_throughput", "mean_ttft", "mean_tpot")}
        assert max(abs(error) for error in errors.values()) < 0.05, errors


def test_a_run_without_single_requests_is_not_replayed(lab: Lab) -> None:
    a, _, model_a, _ = sides(lab("slow-attention"))
    bench = a.bench.__class__(**{**a.bench.__dict__, "requests": None})
    bare = a.__class__(**{**a.__dict__, "bench": bench})
    assert player_of(bare, model_a) is None


def test_what_a_sequence_costs_the_host_is_taken_from_steps_that_wait_for_it(lab: Lab) -> None:
    _, b, model_a, model_b = sides(lab("graphs-and-batch"))
    assert b.steps is not None
    assert model_a.period is not None
    assert model_b.period is not None
    # Scheduling and output processing of the simulator take 2 and 3 µs a sequence; its trace has steps of 24 alone.
    kept = float(np.mean(model_b.kept.of(b.steps.load)))
    assert kept * model_b.period.cost[SEQUENCE] == pytest.approx(5e-6, rel=0.1)
    # A's larger steps wait for the device.
    assert model_a.period.cost[SEQUENCE] == 0.0


def test_the_parts_of_a_step_are_the_step(lab: Lab) -> None:
    a, _, model_a, _ = sides(lab("piecewise"))
    player = player_of(a, model_a)
    assert player is not None
    assert a.steps is not None
    load = a.steps.load
    whole = model_a.step.seconds(load)
    costs = [
        player.cost.seconds(int(decode), int(prefill))
        for decode, prefill in zip(load.decode.tolist(), load.prefill_tokens.tolist(), strict=True)
    ]
    assert np.allclose(costs, whole, rtol=1e-6, atol=1e-9)


def ledger(kernel: float, communication: float, late: float, schedule: float) -> Ledger:
    found = Ledger()
    rows = {"kernel": kernel, "communication": communication, "cuda_graph": late, "scheduling": schedule}
    for cause, amount in rows.items():
        found.add(cause, "a part", amount, abs(amount))
    found.add(UNEXPLAINED, "the rest", 0.5)
    return found


@pytest.mark.parametrize(
    ("kernel", "late", "schedule", "launching", "moved"),
    [
        (3.0, -0.3, 0.0, 0.4, True),  # longer kernels, and more launches of them: what covers them is the kernels'
        (-3.0, 0.3, 0.0, -0.4, True),
        (3.0, -0.3, 0.0, -0.4, False),  # the launches themselves take less
        (3.0, -0.3, -0.2, 0.0, False),  # they come earlier
        (3.0, 0.3, 0.0, 0.0, False),  # both grew
        (0.2, -0.3, 0.0, 0.0, False),  # too little to cover it
    ],
)
def test_longer_kernels_cover_the_time_until_launches(
    kernel: float, late: float, schedule: float, launching: float, moved: bool
) -> None:
    found = ledger(kernel, 0.0, late, schedule)
    cover(found, launching)
    causes = found.by_cause()
    assert causes["cuda_graph"] == (0.0 if moved else late)
    assert causes["kernel"] == pytest.approx(kernel + (late if moved else 0.0))
    assert found.amounts["kernel", COVERED] == (late if moved else 0.0)


amounts_drawn = st.floats(-10.0, 10.0)


@given(amounts_drawn, amounts_drawn, amounts_drawn, amounts_drawn, amounts_drawn)
def test_what_is_covered_changes_no_sum(
    kernel: float, communication: float, late: float, schedule: float, launching: float
) -> None:
    found = ledger(kernel, communication, late, schedule)
    before = sum(found.amounts.values())
    cover(found, launching)
    assert sum(found.amounts.values()) == pytest.approx(before, abs=1e-9)
    assert found.by_cause()["scheduling"] == schedule


def test_kernels_that_are_not_fused_hold_what_their_length_hides(lab: Lab) -> None:
    """More kernels in eager prefills are launched while the longer ones run."""
    pair = lab("unfused", seed=2)
    gaps = {gap.metric: gap for gap in pair.forward.gaps}
    rows = {row.cause: row for row in gaps["mean_ttft"].causes}
    assert rows["cuda_graph"].gap == 0.0 and COVERED in {part.name for part in rows["kernel"].parts}
    assert "counted as theirs" in rows["cuda_graph"].summary
