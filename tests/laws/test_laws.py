"""The product's laws: parts add up, nothing is found in nothing, a swap changes signs, what can't matter doesn't."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profiler import open_run
from profiler.analyzers.device import DeviceAccount, accounts_of
from profiler.analyzers.diagnosis import diagnose
from profiler.analyzers.inspection import inspect
from profiler.analyzers.kernels import families, family_of
from profiler.model.diagnosis import ALWAYS_SHOWN, Diagnosis, Gap
from profiler.model.run import Run
from profiler.model.trace import Kind, Trace
from profiler.store import opening
from tests.conftest import Lab
from tests.strategies import (
    ATTENTION,
    GEMM,
    NORM,
    Built,
    each_trace,
    reading_of,
    small_trace,
    stretched,
    written,
)

# Lab cases that between them have every kind of evidence. A diagnosis takes seconds, so each is made once a session.
CASES = ("graphs-off", "few-sequences", "three-at-once", "null-other-engine")
SERVING = ("hf", "vllm", "sglang", "lightllm", "no corpus")
SOME = ("graphs-off", "few-sequences", "three-at-once")
NULLS = (("null", 0), ("null", 1), ("null-other-engine", 0), ("null-other-engine", 2))


def assert_adds_up(gap: Gap) -> None:
    """causes + unexplained = gap, parts = their cause, in the gap's own unit; shares are of the gap."""
    scale = max(abs(gap.gap), abs(gap.a), abs(gap.b), 1e-12)
    assert sum(c.gap for c in gap.causes) + gap.unexplained.gap == pytest.approx(gap.gap, abs=1e-9 * scale)
    assert gap.b - gap.a == pytest.approx(gap.gap, abs=1e-9 * scale)
    assert {c.cause for c in gap.causes} >= set(ALWAYS_SHOWN)
    assert len({c.cause for c in gap.causes}) == len(gap.causes)
    for cause in gap.causes:
        if cause.parts:
            assert sum(p.gap for p in cause.parts) == pytest.approx(cause.gap, abs=1e-9 * scale)
        if cause.share is not None and gap.gap:
            assert cause.share * gap.gap == pytest.approx(cause.gap, abs=1e-9 * scale)
        if cause.interval is not None:
            assert cause.interval[0] - 1e-9 * scale <= cause.gap <= cause.interval[1] + 1e-9 * scale
    if gap.interval is not None:
        assert gap.interval[0] - 1e-9 * scale <= gap.gap <= gap.interval[1] + 1e-9 * scale
    if gap.relative is not None:
        assert gap.relative * gap.a == pytest.approx(gap.gap, abs=1e-9 * scale)
    additive = gap.seconds_per_output_token
    if additive is not None:
        assert additive.b - additive.a == pytest.approx(additive.gap, rel=1e-9)
        assert additive.gap * additive.factor == pytest.approx(gap.gap, abs=1e-9 * scale)


def amounts(gap: Gap) -> dict[str, float]:
    return {c.cause: c.gap for c in gap.causes} | {"unexplained": gap.unexplained.gap, "gap": gap.gap}


# ---------------------------------------------------------------------------------------------- pairs of the lab
@pytest.mark.parametrize("case", CASES)
def test_the_parts_of_every_gap_add_up(case: str, lab: Lab) -> None:
    document = lab(case).forward
    assert len(document.gaps) >= 4
    for gap in document.gaps:
        assert_adds_up(gap)


def test_all_other_metrics_add_up_too(lab: Lab) -> None:
    pair = lab("three-at-once")
    wanted = ("request_throughput", "p99_ttft", "p50_tpot", "mean_itl", "p99_e2e")
    document = diagnose(pair.a, pair.b, wanted, {"ttft": 0.5, "tpot": 0.05})
    assert [g.metric for g in document.gaps] == [*wanted, "goodput"]
    for gap in document.gaps:
        assert_adds_up(gap)


def test_total_token_throughput_can_be_explained(lab: Lab) -> None:
    pair = lab("null")
    lean = [replace(run, logs=(), traces=()) for run in (pair.a, pair.b)]
    (gap,) = diagnose(lean[0], lean[1], ("total_token_throughput",)).gaps
    assert_adds_up(gap)


@pytest.mark.parametrize("case", SOME)
def test_a_run_against_itself_has_no_gap_and_no_cause(case: str, lab: Lab) -> None:
    run = lab(case).b
    document = diagnose(run, run)
    assert document.verdict.winner is None and document.verdict.status == "no difference"
    for gap in document.gaps:
        assert gap.gap == 0 and gap.winner is None
        assert all(abs(c.gap) <= 1e-9 * abs(gap.a) for c in gap.causes), amounts(gap)
        assert all(c.share is None or abs(c.share) < 1e-9 for c in gap.causes)
        assert abs(gap.unexplained.gap) <= 1e-9 * abs(gap.a)
    for row in document.kernels:
        assert (row.a_seconds, row.a_calls) == (row.b_seconds, row.b_calls)


@pytest.mark.parametrize("case", SOME)
def test_a_swap_of_the_runs_changes_every_sign_and_nothing_else(case: str, lab: Lab) -> None:
    forward, backward = lab(case).forward, lab(case).backward
    other = {"a": "b", "b": "a", None: None}
    assert backward.verdict.status == forward.verdict.status
    assert backward.verdict.winner == other[forward.verdict.winner]
    for one, two in zip(forward.gaps, backward.gaps, strict=True):
        assert (one.metric, one.a, one.b, two.winner) == (two.metric, two.b, two.a, other[one.winner])
        scale = max(abs(one.a), abs(one.b))
        mirrored = {name: -value for name, value in amounts(two).items()}
        ours = amounts(one)
        for name in ours.keys() | mirrored.keys():
            assert ours.get(name, 0.0) == pytest.approx(mirrored.get(name, 0.0), rel=1e-6, abs=1e-9 * scale), name
        assert (one.interval is None) == (two.interval is None)
    rows = {(r.category, r.name): (r.a_seconds, r.b_seconds) for r in forward.kernels}
    assert {(r.category, r.name): (r.b_seconds, r.a_seconds) for r in backward.kernels} == rows


@pytest.mark.parametrize(("case", "seed"), NULLS)
def test_no_winner_is_named_between_equal_engines(case: str, seed: int, lab: Lab) -> None:
    document = lab(case, seed).forward
    assert document.verdict.winner is None and document.verdict.status == "no difference"
    assert all(gap.winner is None for gap in document.gaps if gap.metric == "output_throughput")


@pytest.mark.parametrize(
    ("case", "cause", "winner"),
    [("graphs-off", "cuda_graph", "a"), ("few-sequences", "batching", "a")],
)
def test_the_planted_cause_comes_first(case: str, cause: str, winner: str, lab: Lab) -> None:
    document = lab(case).forward
    assert document.verdict.winner == winner
    assert document.gaps[0].causes[0].cause == cause


def retraced(run: Run, change: Callable[[Trace], Trace]) -> Run:
    return replace(run, traces=tuple(change(t) for t in run.traces))


def shifted(trace: Trace, by: int) -> Trace:
    return replace(trace, events=replace(trace.events, start=trace.events.start + by))


def shuffled(trace: Trace, seed: int) -> Trace:
    order = np.random.default_rng(seed).permutation(len(trace.events))
    return replace(trace, events=trace.events.select(order))


def renamed(trace: Trace) -> Trace:
    """Every kernel that a family knows under a name that the same row knows too, one for one."""
    kernels = np.unique(trace.events.of(Kind.KERNEL).name).tolist()
    names = list(trace.names)
    for index in kernels:
        if index in trace.labels or (family := family_of(names[index])) is None:
            continue
        row = families().index(family)
        for candidate in (f"{names[index]}_another_build", f"{names[index]} "):
            found = family_of(candidate)
            if found is not None and families().index(found) == row:
                names[index] = candidate
                break
    assert names != list(trace.names)
    return replace(trace, names=tuple(names))


CHANGES: dict[str, Callable[[Trace], Trace]] = {
    "shifted": lambda t: shifted(t, 7_000_000_000_123),
    "shifted back": lambda t: shifted(t, -3_000_000_123),
    "reordered": lambda t: shuffled(t, 1),
    "renamed": renamed,
}


@pytest.mark.parametrize("change", ["shifted", "reordered", "renamed"])
def test_neither_clock_nor_order_nor_build_names_change_a_diagnosis(change: str, lab: Lab) -> None:
    pair = lab("graphs-off")
    before = pair.forward
    after = diagnose(pair.a, retraced(pair.b, CHANGES[change]))
    for one, two in zip(before.gaps, after.gaps, strict=True):
        scale = max(abs(one.a), abs(one.b))
        assert amounts(one) == pytest.approx(amounts(two), rel=1e-6, abs=1e-8 * scale)
        assert one.winner == two.winner
    categories = [{r.category: r.b_seconds for r in d.kernels if r.name is None} for d in (before, after)]
    assert categories[0] == pytest.approx(categories[1], rel=1e-9)


# ------------------------------------------------------------------------------------------------- single traces
def account_key(account: DeviceAccount) -> tuple[object, ...]:
    steps = account.steps
    counts = None if steps is None else (steps.kernels.tolist(), steps.replayed.tolist())
    return (account.device, account.kernels, account.kernel_ns, account.busy_ns, account.window_ns, counts)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("path", [p for p in each_trace() if str(p.id).split("-")[0] in SERVING])
def test_neither_clock_nor_order_nor_build_names_change_a_devices_account(path: Path, change: str) -> None:
    if not path.is_file():
        pytest.skip("the corpus of real files is not on this machine")
    trace = reading_of(path).traces[0]
    before, after = accounts_of(trace), accounts_of(CHANGES[change](trace))
    assert [account_key(a) for a in before] == [account_key(a) for a in after]
    for one, two in zip(before, after, strict=True):
        assert dict(one.busy) == pytest.approx(dict(two.busy), abs=1)
        assert dict(one.idle) == pytest.approx(dict(two.idle), abs=1)


def trace_pair(a: tuple[Built, ...], b: tuple[Built, ...], folder: Path) -> Diagnosis:
    one, two = (written(events, folder / name / "x.pt.trace.json.gz") for name, events in (("a", a), ("b", b)))
    return diagnose(open_run(one), open_run(two))


@pytest.mark.parametrize(("name", "family"), [(GEMM, "gemm"), (ATTENTION, "attention"), (NORM, "norm")])
@pytest.mark.parametrize("factor", [2, 5])
def test_doubling_every_kernel_of_a_family_names_that_family_first(
    name: str, family: str, factor: int, tmp_path: Path
) -> None:
    events = small_trace(steps=10, layers=6)
    document = trace_pair(events, stretched(events, [name], factor), tmp_path)
    (gap,) = document.gaps
    assert_adds_up(gap)
    assert document.verdict.winner is None and document.verdict.status == "insufficient evidence"
    assert gap.causes[0].cause == "kernel" and gap.causes[0].parts[0].name == family
    longer = (factor - 1) * sum(e.duration for e in events if e.name == name and e.on_device) / 1e9 / 10
    assert gap.causes[0].parts[0].gap == pytest.approx(longer, rel=1e-6)


def test_doubling_a_family_of_a_real_trace_names_it_first(tmp_path: Path) -> None:
    path = next((p.values[0] for p in each_trace() if "vllm-decode-fullgraph" in p.id), None)
    if path is None:
        pytest.skip("the corpus of real files is not on this machine")
    run = open_run(path)
    trace = run.traces[0]
    for family in ("gemm", "attention"):
        chosen = np.array([(f.category if (f := family_of(n)) else "") == family for n in trace.names])
        events = trace.events
        long = chosen[events.name] & (events.kind == Kind.KERNEL)
        duration = np.where(long, 2 * events.duration, events.duration)
        # Kernels of a replayed graph follow each other on one stream: each moves by what was added before it.
        order = np.argsort(events.start, kind="stable")
        added = np.zeros(len(events), np.int64)
        added[order] = np.concatenate([[0], np.cumsum((duration - events.duration)[order])[:-1]])
        slower = replace(trace, events=replace(events, start=events.start + added, duration=duration), kept=None)
        document = diagnose(run, replace(run, name="slower", traces=(slower,)))
        (gap,) = document.gaps
        assert_adds_up(gap)
        assert gap.causes[0].cause == "kernel" and gap.causes[0].parts[0].name == family


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shift=st.integers(-(10**15), 10**18), seed=st.integers(0, 9), steps=st.integers(1, 12), layers=st.integers(1, 3))
def test_a_file_shifted_and_reordered_is_the_same_trace(
    shift: int, seed: int, steps: int, layers: int, tmp_path: Path
) -> None:
    events = small_trace(steps, layers)
    moved = [replace(e, start=e.start + shift) for e in events]
    random.Random(seed).shuffle(moved)
    document = trace_pair(events, tuple(moved), tmp_path)
    (gap,) = document.gaps
    assert gap.gap == pytest.approx(0.0, abs=1e-12) and all(abs(c.gap) < 1e-12 for c in gap.causes)
    for row in document.kernels:
        assert (row.a_seconds, row.a_calls) == (pytest.approx(row.b_seconds), row.b_calls)


def test_the_ranks_of_a_trace_may_be_in_any_files(tmp_path: Path) -> None:
    """One file a rank or one folder a rank: the accounts are the same."""
    events = small_trace(4)
    written(events, tmp_path / "one/rank0.pt.trace.json")
    written(events, tmp_path / "one/rank1.pt.trace.json")
    written(events, tmp_path / "two/r/a/rank0.pt.trace.json.gz")
    written(events, tmp_path / "two/s/rank1.pt.trace.json.gz")
    keys = [
        sorted(str(account_key(a)) for t in open_run(tmp_path / name).traces for a in accounts_of(t))
        for name in ("one", "two")
    ]
    assert keys[0] == keys[1] and len(keys[0]) == 2


def test_a_written_and_reopened_run_is_the_same_run(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "CACHED_FROM", 0)
    pair = lab("three-at-once")
    first, second = open_run(pair.b.path), open_run(pair.b.path)
    assert list(Path(pair.b.path).glob(".profiler/*.columns"))
    assert inspect(first) == inspect(second) == inspect(pair.b)
    assert diagnose(pair.a, second) == pair.forward


def test_a_split_does_not_depend_on_what_else_is_asked(lab: Lab) -> None:
    pair = lab("opposing")
    alone = diagnose(pair.a, pair.b, ("output_throughput",)).gaps[0]
    whole = next(gap for gap in pair.forward.gaps if gap.metric == "output_throughput")
    assert amounts(alone) == pytest.approx(amounts(whole), rel=1e-9)
