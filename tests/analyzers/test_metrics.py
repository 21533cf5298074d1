"""The benchmark's metrics by their definitions, against the tools' own summaries, and goodput."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler import open_run
from profiler.analyzers.goodput import goodput
from profiler.analyzers.metrics import higher_is_better, metrics_of, samples, statistic, tpot, unit_of
from profiler.analyzers.verdict import winner_of
from profiler.model.requests import BenchResult, RequestTable
from tests.strategies import OWN


def bench(rows: list[tuple[float, float, int, bool]], duration: float = 10.0) -> BenchResult:
    """(ttft, e2e, output tokens, ok) of every request."""
    ttft, e2e, tokens, ok = (np.array([r[i] for r in rows]) for i in range(4))
    gaps = [np.full(max(n - 1, 0), (e - t) / max(n - 1, 1)) for t, e, n, _ in rows]
    table = RequestTable(
        start=np.arange(len(rows), dtype=float),
        ttft=ttft.astype(float),
        e2e=e2e.astype(float),
        input_tokens=np.full(len(rows), 100),
        output_tokens=tokens.astype(np.int64),
        ok=ok.astype(bool),
        itl=np.concatenate(gaps) if gaps else np.zeros(0),
        itl_offset=np.cumsum([0, *(len(g) for g in gaps)]),
    )
    good = [r for r in rows if r[3]]
    return BenchResult(
        path="b.json", tool="t", duration=duration, completed=len(good), failed=len(rows) - len(good),
        total_input_tokens=100 * len(good), total_output_tokens=sum(r[2] for r in good), requests=table,
    )  # fmt: skip


THREE = [(0.1, 1.1, 11, True), (0.3, 2.3, 21, True), (0.2, 0.2, 1, True), (9.0, 99.0, 50, False)]


def test_metrics_by_hand() -> None:
    found = metrics_of(bench(THREE))
    assert found["output_throughput"] == pytest.approx(3.3)
    assert found["request_throughput"] == pytest.approx(0.3)
    assert found["total_token_throughput"] == pytest.approx(33.3)
    assert found["mean_ttft"] == pytest.approx(0.2) and found["p50_ttft"] == pytest.approx(0.2)
    assert found["p99_ttft"] == pytest.approx(0.298)
    assert found["mean_tpot"] == pytest.approx(0.1), "a one-token answer has no TPOT"
    assert found["mean_e2e"] == pytest.approx(1.2), "a failed request counts in none"


def test_the_time_per_output_token_of_failed_and_one_token_requests_is_not_known() -> None:
    values = tpot(bench(THREE).requests)  # type: ignore[arg-type]
    assert np.isnan(values).tolist() == [False, False, True, True]


@pytest.mark.parametrize("metric", ["mean_ttft", "p50_tpot", "p99_e2e", "median_ttft", "p99.9_itl", "mean_itl"])
def test_a_statistic_is_what_its_name_says(metric: str) -> None:
    sample, reduce = statistic(metric)
    values = samples(bench(THREE).requests, sample)  # type: ignore[arg-type]
    kind = metric.split("_")[0]
    rank = {"mean": None, "median": 50.0}.get(kind, float(kind[1:]) if kind[0] == "p" else None)
    assert reduce(values) == pytest.approx(np.mean(values) if rank is None else np.percentile(values, rank))


def test_units_and_directions() -> None:
    assert (unit_of("output_throughput"), unit_of("mean_ttft")) == ("tokens/s", "s")
    assert higher_is_better("request_throughput") and higher_is_better("goodput") and not higher_is_better("p99_itl")


@pytest.mark.parametrize("path", sorted(OWN.rglob("bench.json")) if OWN.is_dir() else [], ids=lambda p: str(p)[-40:])
def test_recomputed_metrics_equal_the_tools_own_summary(path: Path) -> None:
    (result,) = open_run(path).benches
    ours = metrics_of(result)
    compared = [name for name in result.summary if name in ours]
    assert {"output_throughput", "mean_ttft", "mean_tpot", "p99_ttft"} <= set(compared)
    for name in compared:
        assert ours[name] == pytest.approx(result.summary[name], rel=1e-6), name


def test_tokens_that_nobody_counted_are_no_throughput_of_zero() -> None:
    told = {"total_token_throughput": 1400.0}
    found = metrics_of(BenchResult("b", "t", 2.0, 4, 0, 0, 0, summary=told))
    assert found == {"request_throughput": 2.0, "total_token_throughput": 1400.0}
    assert metrics_of(BenchResult("b", "t", 2.0, 4, 0, 0, 0)) == {"request_throughput": 2.0}
    assert metrics_of(BenchResult("b", "t", 2.0, 4, 0, 100, 0))["total_token_throughput"] == 50.0
    assert metrics_of(BenchResult("b", "t", 2.0, 0, 4, 0, 0))["output_throughput"] == 0.0, "all failed is zero"


def test_goodput_counts_what_meets_every_bound() -> None:
    result = bench(THREE)
    assert goodput(result, {"ttft": 0.25}) == pytest.approx(0.2)
    assert goodput(result, {"ttft": 0.25, "e2e": 0.5}) == pytest.approx(0.1)
    assert goodput(result, {"tpot": 0.05}) == pytest.approx(0.1), "a one-token answer is judged by the rest"
    assert goodput(result, {"ttft": 100, "tpot": 100, "e2e": 100}) == pytest.approx(0.3), "failed is never good"
    assert goodput(result, {"e2e": 0.0}) == 0.0


def test_goodput_without_records_is_not_known() -> None:
    result = BenchResult("b", "t", 1.0, 1, 0, 1, 1)
    assert goodput(result, {"ttft": 1.0}) is None
    assert metrics_of(result)["output_throughput"] == 1.0


@given(
    rows=st.lists(
        st.tuples(st.floats(0, 10), st.floats(0, 10), st.integers(1, 50), st.booleans()).map(
            lambda r: (r[0], r[0] + r[1], r[2], r[3])
        ),
        min_size=1,
        max_size=20,
    ),
    bounds=st.tuples(st.floats(0, 12), st.floats(0, 12)),
)
def test_a_looser_bound_never_lowers_goodput(rows: list[tuple[float, float, int, bool]], bounds: object) -> None:
    low, high = sorted(bounds)  # type: ignore[call-overload]
    result = bench(rows)
    for metric in ("ttft", "tpot", "e2e"):
        tight, loose = goodput(result, {metric: low}), goodput(result, {metric: high})
        assert tight is not None and loose is not None
        assert tight <= loose <= metrics_of(result)["request_throughput"] + 1e-12


@pytest.mark.parametrize(
    ("gap", "interval", "higher", "winner"),
    [
        (5.0, (1.0, 9.0), True, "b"),
        (-5.0, (-9.0, -1.0), True, "a"),
        (5.0, (1.0, 9.0), False, "a"),
        (-5.0, (-9.0, -1.0), False, "b"),
        (5.0, (-1.0, 9.0), True, None),
        (5.0, (0.0, 9.0), True, None),
        (5.0, None, True, None),
    ],
)
def test_a_winner_needs_an_interval_without_zero(
    gap: float, interval: tuple[float, float] | None, higher: bool, winner: str | None
) -> None:
    assert winner_of(gap, interval, higher) == winner
