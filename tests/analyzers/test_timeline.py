"""Exact accounting against an independent count of every nanosecond."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.analyzers import timeline
from profiler.analyzers.operators import innermost
from profiler.analyzers.timeline import COMMUNICATION, COMPUTE, COPY, sweep, whole_nanoseconds
from profiler.model.trace import EventTable, Kind
from tests.strategies import intervals

Event = tuple[int, int, int]


def by_hand(events: list[Event]) -> tuple[list[Fraction], list[int]]:
    """(share of every event, the instants that nobody owns), one unit of time after the other."""
    shares = [Fraction(0)] * len(events)
    idle = []
    for instant in range(min(e[0] for e in events), max(e[1] for e in events)):
        running = [i for i, (start, end, _) in enumerate(events) if start <= instant < end]
        if not running:
            idle.append(instant)
            continue
        best = min(events[i][2] for i in running)
        owners = [i for i in running if events[i][2] == best]
        for i in owners:
            shares[i] += Fraction(1, len(owners))
    return shares, idle


def columns(events: list[Event]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = np.array(events, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


@given(events=intervals())
def test_every_share_is_what_a_count_by_hand_gives(events: list[Event]) -> None:
    swept = sweep(*columns(events))
    shares, _ = by_hand(events)
    assert swept.share.tolist() == pytest.approx([float(s) for s in shares], abs=1e-9)


@given(events=intervals())
def test_shares_add_up_to_the_union_and_gaps_fill_the_window(events: list[Event]) -> None:
    swept = sweep(*columns(events))
    _, idle = by_hand(events)
    assert swept.window == max(e[1] for e in events) - min(e[0] for e in events)
    assert swept.busy == swept.window - len(idle)
    assert round(float(swept.share.sum()), 9) == swept.busy
    gaps = [
        instant
        for start, end in zip(swept.gap_start.tolist(), swept.gap_end.tolist(), strict=True)
        for instant in range(start, end)
    ]
    assert gaps == idle
    assert swept.busy + int((swept.gap_end - swept.gap_start).sum()) == swept.window


@given(events=intervals())
def test_gaps_are_whole(events: list[Event]) -> None:
    """No gap has length 0, none touches the next: a zero-length event inside an idle stretch does not cut it."""
    swept = sweep(*columns(events))
    assert (swept.gap_end > swept.gap_start).all()
    assert (swept.gap_start[1:] > swept.gap_end[:-1]).all()


@given(events=intervals(), shift=st.integers(-(2**60), 2**60), seed=st.randoms(use_true_random=False))
def test_neither_the_order_nor_the_clock_matters(events: list[Event], shift: int, seed: object) -> None:
    before = sweep(*columns(events))
    order = list(range(len(events)))
    seed.shuffle(order)  # type: ignore[attr-defined]
    after = sweep(*columns([(events[i][0] + shift, events[i][1] + shift, events[i][2]) for i in order]))
    assert (after.busy, after.window) == (before.busy, before.window)
    assert after.share.tolist() == pytest.approx(before.share[order].tolist(), abs=1e-9)
    assert (after.gap_start - shift).tolist() == before.gap_start.tolist()


@given(events=intervals(), block=st.integers(1, 4))
def test_a_window_that_is_gone_through_in_pieces_is_the_same(events: list[Event], block: int) -> None:
    whole = sweep(*columns(sorted(events)))
    with patch.object(timeline, "_BLOCK", block):
        pieces = sweep(*columns(sorted(events)))
    assert (pieces.busy, pieces.window) == (whole.busy, whole.window)
    assert pieces.share.tolist() == pytest.approx(whole.share.tolist(), abs=1e-9)
    assert pieces.gap_start.tolist() == whole.gap_start.tolist()
    assert pieces.gap_end.tolist() == whole.gap_end.tolist()


def test_compute_beats_communication_beats_copies() -> None:
    swept = sweep(*columns([(0, 10, COMPUTE), (5, 20, COMMUNICATION), (0, 30, COPY)]))
    assert swept.share.tolist() == [10, 10, 10] and swept.busy == 30


def test_equal_kernels_share_an_instant_equally() -> None:
    assert sweep(*columns([(0, 9, COMPUTE), (0, 9, COMPUTE), (3, 6, COMPUTE)])).share.tolist() == [4, 4, 1]


def test_zero_length_events_own_nothing() -> None:
    swept = sweep(*columns([(5, 5, COMPUTE)]))
    assert (swept.busy, swept.window, swept.share.tolist(), len(swept.gap_start)) == (0, 0, [0.0], 0)
    swept = sweep(*columns([(0, 2, COMPUTE), (5, 5, COMPUTE), (8, 9, COPY)]))
    assert swept.share.tolist() == [2, 0, 1]
    assert (swept.gap_start.tolist(), swept.gap_end.tolist()) == ([2], [8])


@given(
    parts=st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 1e9), min_size=1),
)
def test_rounded_parts_add_up_and_none_is_off_by_more_than_its_due(parts: dict[str, float]) -> None:
    total = round(sum(parts.values()))
    whole = whole_nanoseconds(parts, total)
    assert sum(whole.values()) == total and whole.keys() == parts.keys()
    assert all(abs(whole[name] - value) <= 1.01 for name, value in parts.items())
    assert all(value >= 0 for value in whole.values())


# ------------------------------------------------------------------------------------------------------------ operators
def operators(events: list[tuple[int, int, int]]) -> EventTable:
    """(start, end, thread) as host operators; the name is the position in the list."""
    n = len(events)
    table = np.array(events, np.int64).reshape(-1, 3)
    none, none32 = np.full(n, -1, np.int64), np.full(n, -1, np.int32)
    return EventTable(
        kind=np.full(n, Kind.OPERATOR, np.uint8),
        name=np.arange(n, dtype=np.int32),
        start=table[:, 0],
        duration=table[:, 1] - table[:, 0],
        process=none32,
        thread=table[:, 2].astype(np.int32),
        correlation=none,
        device=none32,
        stream=none32,
        size=none,
        graph_node=none,
    )


@st.composite
def nested(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Properly nested calls on two threads, all starts different, in any order."""
    found: list[tuple[int, int, int]] = []

    def call(low: int, high: int, thread: int, depth: int) -> int:
        start = draw(st.integers(low, low + 2))
        clock = start + 1
        for _ in range(draw(st.integers(0, 2)) if depth < 3 else 0):
            clock = call(clock, high, thread, depth + 1)
        end = clock + draw(st.integers(0, 3))
        found.append((start, end, thread))
        return end + 1

    for thread in (0, 1):
        clock = draw(st.integers(0, 5))
        for _ in range(draw(st.integers(0 if thread else 1, 3))):
            clock = call(clock, clock + 100, thread, 0)
    return draw(st.permutations(found))


@given(events=nested())
def test_each_instant_belongs_to_the_innermost_operator(events: list[tuple[int, int, int]]) -> None:
    table, first = innermost(operators(events))
    ours: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for name, start, end, thread in zip(
        table.name.tolist(), table.start.tolist(), table.end.tolist(), table.thread.tolist(), strict=True
    ):
        for instant in range(start, end):
            ours[thread, instant].append(name)
    for thread in (0, 1):
        for instant in range(200):
            open_now = [i for i, (s, e, t) in enumerate(events) if t == thread and s <= instant < e]
            inner = [max(open_now, key=lambda i: events[i][0])] if open_now else []
            assert ours.get((thread, instant), []) == inner
    # Every operator that has a piece is one call, which begins with the earliest.
    calls = table.name[first].tolist()
    assert sorted(calls) == sorted(set(table.name.tolist()))
    assert all(table.start[table.name == name].min() == table.start[first & (table.name == name)] for name in calls)


@given(events=st.lists(st.tuples(st.integers(0, 25), st.integers(0, 9), st.integers(0, 1)), max_size=9))
def test_even_where_operators_overlap_no_instant_of_a_thread_is_counted_twice(events: list[Event]) -> None:
    calls = [(s, s + d, t) for s, d, t in events]
    table = innermost(operators(calls)).events
    seen: set[tuple[int, int]] = set()
    for start, end, thread in zip(table.start.tolist(), table.end.tolist(), table.thread.tolist(), strict=True):
        assert end > start
        piece = {(thread, instant) for instant in range(start, end)}
        assert not piece & seen
        seen |= piece
    # What an operator that outlasts the one around it loses may be missing; nothing may be added.
    assert seen <= {(t, instant) for s, e, t in calls for instant in range(s, e)}
