"""Goodput against load: counted by hand, over requests sent, with ranges where curves cross."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler import open_run
from profiler.analyzers.compared_loads import curves
from profiler.analyzers.gap import spread
from profiler.analyzers.goodput import attainment_interval, good, goodput
from profiler.analyzers.load_curve import points_of, reached
from profiler.model.fact import Fact
from profiler.model.requests import BenchResult, RequestTable
from profiler.model.run import Run
from tests.strategies import CORPUS

SLO = {"ttft": 0.1, "tpot": 0.02}


def bench(ttft: float, tpot: float, n: int = 100, slow: int = 0, **fields: Any) -> BenchResult:
    """``n`` requests of 11 tokens, the last ``slow`` of them with ten times the TTFT."""
    firsts = np.where(np.arange(n) >= n - slow, 10 * ttft, ttft)
    table = RequestTable(
        start=np.arange(n, dtype=np.float64), ttft=firsts, e2e=firsts + 10 * tpot, input_tokens=np.full(n, 5),
        output_tokens=np.full(n, 11), ok=np.ones(n, np.bool_), itl=np.full(10 * n, tpot),
        itl_offset=np.arange(n + 1) * 10,
    )  # fmt: skip
    one = BenchResult(path="b.json", tool="t", duration=50.0, completed=n, failed=0, total_input_tokens=5 * n,
                      total_output_tokens=11 * n, max_concurrency=4, requests=table)  # fmt: skip
    return replace(one, **fields)


def run(name: str, *benches: BenchResult, **facts: object) -> Run:
    stated: dict[str, Fact[object]] = {k.replace("__", "."): Fact(v, "run.json", False) for k, v in facts.items()}
    return Run(name=name, path=name, files=(), facts=stated, benches=benches)


def test_a_request_is_good_within_every_bound_and_a_failed_one_never() -> None:
    one = bench(0.05, 0.01, slow=25)
    assert goodput(one, SLO) == 75 / 50
    assert goodput(one, {"tpot": 0.005}) == 0.0
    assert one.requests is not None
    failed = replace(one, requests=replace(one.requests, ok=np.arange(100) >= 10))
    assert goodput(failed, SLO) == 65 / 50


def test_failures_without_a_record_count_among_those_sent() -> None:
    met = good(bench(0.05, 0.01, failed=20, completed=100), SLO)
    assert met is not None and (len(met), int(met.sum())) == (120, 100)
    point = points_of(run("a", bench(0.05, 0.01, failed=20)), SLO, None)[0].shown
    assert point.attainment == pytest.approx(100 / 120)
    assert point.sent == 120 and point.goodput == pytest.approx(100 / 50)


@given(st.integers(1, 400), st.data())
def test_the_interval_of_a_share_holds_it_and_stays_a_share(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    met = np.arange(n) < k
    low, high = attainment_interval([met])
    assert 0.0 <= low <= k / n <= high <= 1.0
    assert high > low or 0 < k < n


def test_the_highest_rate_lies_between_the_loads_that_meet_and_miss() -> None:
    light = bench(0.05, 0.01, slow=0, max_concurrency=1, duration=100.0)  # 1 request/s, all good
    heavy = bench(0.05, 0.01, slow=40, max_concurrency=8, duration=50.0)  # 2 requests/s, 60% good
    points = points_of(run("a", heavy, light), SLO, None)
    assert [p.shown.load for p in points] == [1.0, 8.0]
    found = reached(points, 0.9)
    assert (found.kind, found.rate) == ("interpolated", pytest.approx(1.25))
    assert found.interval is not None and found.interval[0] <= 1.25 <= found.interval[1]
    assert reached(points[:1], 0.9).kind == "at least"
    assert reached(points[1:], 0.9).kind == "below the lowest load"
    assert reached((), 0.9).kind == "not known"


def test_open_and_closed_loops_are_no_one_curve() -> None:
    mixed = run("a", bench(0.05, 0.01), bench(0.05, 0.01, request_rate=2.0, max_concurrency=None))
    document = curves([mixed], SLO)
    assert {p.axis for p in document.runs[0].points} == {"requests in flight", "requests/s"}
    assert any("two curves" in note for note in document.notes)
    assert any("named by the rate asked for" in note for note in document.notes)


def test_one_load_is_not_everywhere() -> None:
    one, two = sweep("a", {8: 10.0}), sweep("b", {8: 20.0})
    assert "at equal load, at the only one that was measured" in curves([one, two], {}).headline


def sweep(name: str, seconds: dict[int, float]) -> Run:
    return run(name, *(bench(0.05, 0.01, max_concurrency=c, duration=s) for c, s in seconds.items()), hardware__gpu="g")


def test_curves_that_cross_give_ranges_and_no_winner() -> None:
    document = curves([sweep("x", {1: 100.0, 2: 50.0, 4: 40.0}), sweep("y", {1: 120.0, 2: 50.0, 4: 20.0})], {})
    assert [s.leader for s in document.equal_load] == ["x", None, "y"]
    assert document.headline.startswith("No single winner: the curves cross at equal load: x leads at 1, y leads at 4")
    assert [(r.low, r.high, r.leader) for r in document.ranges if r.axis == "requests in flight"] == [
        (1.0, 1.0, "x"), (2.0, 2.0, None), (4.0, 4.0, "y"),
    ]  # fmt: skip
    assert any("No SLO was given" in note for note in document.notes)


def test_equal_interactivity_is_read_between_measured_points() -> None:
    ours = run(
        "x",
        bench(0.05, 0.010, duration=100.0, max_concurrency=1),
        bench(0.05, 0.020, duration=20.0, max_concurrency=9),
        hardware__gpu="g",
    )
    theirs = run(
        "y",
        bench(0.05, 0.010, duration=200.0, max_concurrency=1),
        bench(0.05, 0.020, duration=40.0, max_concurrency=9),
        hardware__gpu="g",
    )
    document = curves([ours, theirs], {})
    assert [round(s.at) for s in document.equal_interactivity] == [50, 100]
    assert {s.leader for s in document.equal_interactivity} == {"x"}
    assert [p.run for p in document.front] == ["x", "x"]


def test_throughput_is_per_device_where_every_run_says_how_many() -> None:
    ours = run("x", bench(0.05, 0.01), setting__tensor_parallel=2)
    assert curves([ours], {}).runs[0].points[0].per_device == pytest.approx(1100 / 50 / 2)
    both = curves([ours, run("y", bench(0.05, 0.01))], {})
    assert both.runs[0].points[0].per_device == pytest.approx(1100 / 50)
    assert both.throughput_unit == "tokens/s"


# -------------------------------------------------------------------------------------------------------------- repeats
def test_the_spread_is_assumed_only_where_nothing_was_repeated() -> None:
    assert spread.between([1.0], [2.0], "gpu", "gpu").deviation == spread.of_difference("gpu", "gpu")
    assert "assumed" in spread.between([], [], None, None).told
    measured = spread.between([0.0, 0.01, 0.02], [1.0, 1.01, 1.02])
    assert "3 and 3 repeats" in measured.told
    # pooled deviation 1%, t of 4 degrees of freedom, the value is the mean of three on both sides
    assert measured.deviation == pytest.approx(0.01 * 2.776 / 1.96 * (2 / 3) ** 0.5, rel=1e-6)


@given(st.lists(st.floats(-0.2, 0.2), min_size=2, max_size=9), st.lists(st.floats(-0.2, 0.2), min_size=1, max_size=9))
def test_a_gap_below_the_distance_of_two_repeats_is_never_called(ours: list[float], theirs: list[float]) -> None:
    found = spread.between(ours, theirs, "gpu", "gpu")
    assert spread.NORMAL_95 * found.deviation >= max(np.ptp(ours), np.ptp(theirs)) - 1e-12


def test_student_is_that_of_the_tables() -> None:
    for freedom, expected in ((1, 12.706), (4, 2.776), (12, 2.179), (30, 2.042), (120, 1.980)):
        assert spread.student(freedom) == pytest.approx(expected, rel=2e-3)


SIDE = CORPUS / "own" / "vllm-vs-sglang"


@pytest.fixture
def repeated(tmp_path: Path) -> tuple[Path, Path]:
    """Both engines' starts as repeats of one run each."""
    if not SIDE.is_dir():
        pytest.skip("the corpus of real files is not on this machine")
    for engine in ("vllm", "sglang"):
        for start in (1, 2):
            target = tmp_path / engine / f"start-{start}"
            target.mkdir(parents=True)
            for load in (SIDE / f"{engine}-{start}").iterdir():
                (target / load.name).mkdir()
                for file in load.iterdir():
                    (target / load.name / file.name).symlink_to(file)
    return tmp_path / "vllm", tmp_path / "sglang"


def test_real_repeats_widen_the_interval_and_still_name_the_engine_that_leads(repeated: tuple[Path, Path]) -> None:
    from profiler.analyzers.diagnosis import diagnose

    document = diagnose(open_run(repeated[0]), open_run(repeated[1]), ("output_throughput",))
    assert (document.verdict.status, document.verdict.winner) == ("winner", "a")
    assert any("measured on 2 and 2 repeats, up to 21.3% apart on one side" in line for line in document.method)
    single = diagnose(
        open_run(repeated[0] / "start-2" / "c16"), open_run(repeated[1] / "start-2" / "c16"), ("output_throughput",)
    )
    (ours, alone) = (d.gaps[0].interval for d in (document, single))
    assert ours is not None and alone is not None and ours[1] - ours[0] > alone[1] - alone[0]
    assert ours[1] < 0.0


def test_a_real_sweep_is_compared_load_by_load(repeated: tuple[Path, Path]) -> None:
    document = curves([open_run(path) for path in repeated], {"ttft": 0.3, "tpot": 0.02})
    assert [(s.at, s.leader) for s in document.equal_load] == [(1.0, "vllm"), (16.0, "vllm")]
    c16 = document.runs[0].points[-1]
    assert (c16.sent, c16.repeats) == (224, 2) and c16.attainment == pytest.approx(193 / 224)


def test_one_rate_in_common_is_no_winner_and_curves_over_one_user_are_ranges() -> None:
    folder = CORPUS / "bench" / "inference-perf"
    if not folder.is_dir():
        pytest.skip("the corpus of real files is not on this machine")
    document = curves([open_run(folder / name) for name in ("vllm", "vllm+quantization")], {})
    assert [(s.at, s.leader) for s in document.equal_load] == [(1.0, None)]
    assert {r.leader for r in document.ranges if r.axis == "tokens/s of one user"} == {"vllm+quantization", None}


def test_a_repeat_is_explained_without_what_was_recorded_of_the_others() -> None:
    from profiler.analyzers.repeats import focused, repeats_of, typical
    from profiler.model.metrics import MetricsSnapshot

    results = [bench(0.05, 0.01, duration=50.0 + i, path=f"start-{i}/bench.json") for i in range(3)]
    scrapes = tuple(
        MetricsSnapshot(path=path, engine="e", order=0, seconds=None, values={})
        for path in ("start-0/a.prom", "start-1/a.prom", "start-1/deep/b.prom", "start-2/a.prom", "shared.prom")
    )
    whole = replace(run("a", *results), snapshots=scrapes)
    repeats = repeats_of(whole.benches, results[0])
    assert list(repeats) == results
    chosen = typical(repeats, results[0])
    assert chosen is results[1]
    kept = focused(whole, chosen, repeats)
    assert [s.path for s in kept.snapshots] == ["start-1/a.prom", "start-1/deep/b.prom", "shared.prom"]
    assert focused(whole, chosen, (chosen,)) is whole
    assert repeats_of(whole.benches, bench(0.05, 0.01, max_concurrency=5)) == ()


def test_runs_called_alike_are_told_apart() -> None:
    from profiler.analyzers.run_names import told_apart

    runs = [replace(run("c1"), path=path) for path in ("/x/one/c1", "/x/two/c1")] + [run("b")]
    assert [one.name for one in told_apart(runs)] == ["one/c1", "two/c1", "b"]
    assert [one.name for one in told_apart([runs[0], runs[0]])] == ["c1 (A)", "c1 (B)"]
