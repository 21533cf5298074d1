"""Busy time by launching operator: all of it on every real trace, as counted by hand, and named as what it is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.analyzers.device import accounts_of
from profiler.analyzers.device_view import DeviceView, views_of
from profiler.analyzers.launching import MOST, Launcher, launchers_of, operators_around
from profiler.model.trace import EventTable, Kind, Trace
from tests.analyzers.test_critical_path import call, kernel
from tests.strategies import STEP, Built, document, each_trace, event_texts, read_bytes, reading_of


def launchers(events: list[Built], folder: Path) -> tuple[Launcher, ...]:
    (account,) = accounts_of(read_bytes(document(event_texts(events)), folder).traces[0])
    return account.launchers


def by_hand(view: DeviceView) -> dict[tuple[str, str], tuple[float, int]]:
    """(kind, name) -> nanoseconds and calls, one event after the other."""
    trace, table = view.trace, view.trace.events
    marks = trace.labels.keys() | trace.phases.keys()
    operators = [i for i in np.flatnonzero(table.kind == Kind.OPERATOR).tolist() if int(table.name[i]) not in marks]
    spent, calls = Counter[tuple[str, str]](), dict[tuple[str, str], set[int]]()
    for event, number in enumerate(view.links.call.tolist()):
        key, unit = ("not known", ""), -1
        if number >= 0:
            name, at = trace.names[view.links.calls.name[number]], int(view.links.calls.start[number])
            mine = [i for i in operators if table.thread[i] == view.links.calls.thread[number]]
            around = [i for i in mine if table.start[i] <= at < table.end[i]]
            inner = max(around, key=lambda i: (table.start[i], -table.duration[i], i), default=-1)
            key, unit = ("outside", ""), -2 - number
            if "GraphLaunch" in name:
                key = ("graph", name)
            elif inner >= 0:
                key, unit = ("operator", trace.names[table.name[inner]]), inner
        spent[key] += view.swept.share[event]
        calls.setdefault(key, set()).add(unit)
    return {key: (float(ns), len(calls[key])) for key, ns in spent.items()}


@pytest.mark.parametrize("path", each_trace())
def test_the_rows_are_all_of_the_busy_time(path: Path) -> None:
    trace = reading_of(path).traces[0]
    for account in accounts_of(trace):
        assert bool(account.launchers) == bool((trace.events.kind == Kind.OPERATOR).any())
        if account.launchers:
            assert sum(row.nanoseconds for row in account.launchers) == account.busy_ns
        assert len(account.launchers) <= MOST + 4
        operators = [row.nanoseconds for row in account.launchers if row.kind == "operator"]
        assert operators == sorted(operators, reverse=True)


def small_gpu_traces() -> list[object]:
    large = ("training-a100", "hf-qwen", "sglang-mixed", "vllm-prefill")
    return [p for p in each_trace() if not str(getattr(p, "id", "")).startswith(large)]


@pytest.mark.parametrize("path", small_gpu_traces())
def test_time_and_calls_are_those_of_a_count_by_hand(path: Path) -> None:
    for view in views_of(reading_of(path).traces[0]):
        if view.operators is not None:
            continue
        rows = launchers_of(view)
        found = {(row.kind, row.name): (row.nanoseconds, row.calls) for row in rows}
        expected = by_hand(view) if rows else {}
        assert found.keys() == expected.keys()
        for key, (nanoseconds, calls) in expected.items():
            assert found[key][0] == pytest.approx(nanoseconds, abs=1)
            assert found[key][1] == (None if key[0] == "not known" else calls)


@pytest.mark.parametrize("path", each_trace())
def test_on_a_cpu_the_operator_is_the_work(path: Path) -> None:
    for view in views_of(reading_of(path).traces[0]):
        if view.operators is None:
            continue
        spent = Counter[str]()
        for name, nanoseconds in zip(view.events.name.tolist(), view.events.duration.tolist(), strict=True):
            spent[view.trace.names[name]] += nanoseconds
        rows = launchers_of(view)
        assert {row.kind for row in rows} <= {"operator", "others"}
        assert all(row.host is None for row in rows)
        named = [row for row in rows if row.kind == "operator"]
        assert {row.name: row.nanoseconds for row in named} == {row.name: spent[row.name] for row in named}


def test_what_is_no_operator_is_named_as_what_it_is(tmp_path: Path) -> None:
    operator, inner = Built("cpu_op", "vllm::all", 10_000, 50_000), Built("cpu_op", "aten::mm", 20_000, 8_000)
    mark = Built("cpu_op", STEP, 5_000, 100_000)
    events = [
        mark, operator, inner,
        call("cudaLaunchKernel", 21_000, 500, 1), kernel(200_000, 7_000, 1), kernel(210_000, 1_000, 1),
        call("cuLaunchKernel", 30_000, 500, 2), kernel(220_000, 5_000, 2),
        call("hipGraphLaunch", 40_000, 3_000, 3), kernel(230_000, 4_000, 3), kernel(240_000, 4_000, 3),
        call("cudaLaunchKernel", 70_000, 600, 4), kernel(250_000, 2_000, 4),
        kernel(260_000, 900, 5),
    ]  # fmt: skip
    assert launchers(events, tmp_path) == (
        Launcher("operator", "aten::mm", 8_000, 1, 8_000),
        Launcher("operator", "vllm::all", 5_000, 1, 42_000),
        Launcher("graph", "hipGraphLaunch", 8_000, 1, 3_000),
        Launcher("outside", "", 2_000, 1, 600),
        Launcher("not known", "", 900, None, None),
    )


def test_without_operators_nothing_is_claimed(tmp_path: Path) -> None:
    assert launchers([call("cudaLaunchKernel", 1_000, 500, 1), kernel(5_000, 7_000, 1)], tmp_path) == ()


def test_a_thread_s_operators_are_not_another_s(tmp_path: Path) -> None:
    other = Built("cpu_op", "aten::mm", 0, 90_000, tid=7)
    events = [other, call("cudaLaunchKernel", 1_000, 500, 1), kernel(5_000, 7_000, 1)]
    assert [row.kind for row in launchers(events, tmp_path)] == ["outside"]


def test_operators_without_a_row_of_their_own_share_one(tmp_path: Path) -> None:
    events: list[Built] = []
    for i in range(MOST + 30):
        events.append(Built("cpu_op", f"aten::op{i}", 1_000 * i, 900))
        events += [call("cudaLaunchKernel", 1_000 * i + 100, 300, i), kernel(10_000_000 + 10_000 * i, 5_000 - i, i)]
    rows = launchers(events, tmp_path)
    assert [row.kind for row in rows] == ["operator"] * MOST + ["others"]
    assert rows[-1] == Launcher("others", "", sum(5_000 - i for i in range(MOST, MOST + 30)), 30, 30 * 900, 30)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, 1)), max_size=14),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 1)), min_size=1, max_size=8),
)
def test_the_innermost_operator_is_the_last_to_begin_of_those_that_run(
    operators: list[tuple[int, int, int]], calls: list[tuple[int, int]]
) -> None:
    rows = [(Kind.OPERATOR, *operator) for operator in operators] + [(Kind.LAUNCH, at, 0, t) for at, t in calls]
    kind, start, duration, thread = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    none = np.full(len(rows), -1, np.int64)
    table = EventTable(kind.astype(np.uint8), np.zeros(len(rows), np.int32), start, duration, thread.astype(np.int32),
                       thread.astype(np.int32), none, none.astype(np.int32), none.astype(np.int32), none, none)  # fmt: skip
    trace = Trace("trace", table, ("one",), (), ("0", "1"))
    found, around, own = operators_around(trace, table.of(Kind.LAUNCH))
    assert found.tolist() == list(range(len(operators)))
    for row, alone, (at, where) in zip(around.tolist(), own.tolist(), calls, strict=True):
        running = [(s, -d, i) for i, (s, d, t) in enumerate(operators) if t == where and s <= at < s + d]
        assert row == max(running, default=(0, 0, -1))[2]
        assert row < 0 or 0 <= alone <= operators[row][1]
