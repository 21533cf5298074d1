"""One step as rows of a timeline: host phases, launches, device streams, and why the device waited.

A row has at most some hundred bars: what is shorter than the eye can see is joined with its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profiler.analyzers.device_view import CPU
from profiler.analyzers.idle import synchronising
from profiler.analyzers.operators import innermost
from profiler.analyzers.typical import Excerpt
from profiler.analyzers.waits import waits
from profiler.model.requests import Ints
from profiler.model.timeline import Lane, LaneKind
from profiler.model.trace import EventTable, Kind

# A bar shorter than this part of the row is joined with its neighbours: at most two times as many bars.
_FINEST: Final = 1 / 250
_STREAMS: Final = 3
_NAME: Final = 200
_OPERATORS: Final = "operators"
_WAITING: Final = "synchronise"
# Phases that lie around what the row is to show.
_AROUND: Final = frozenset({"idle", "forward"})
JOINED: Final = -1


@dataclass
class Names:
    """The names of a step's bars, each once."""

    index: dict[str, int]

    def of(self, name: str) -> int:
        """The place of a name, cut to a length that a page can hold."""
        short = name if len(name) <= _NAME else name[: _NAME - 1] + "…"
        return self.index.setdefault(short, len(self.index))


def lanes_of(part: Excerpt, names: Names) -> tuple[Lane, ...]:
    """Every row that the trace has evidence for."""
    since = _since(part)
    rows = [_host(part, since, names), _launches(part, since, names), *_device(part, since, names), _idle(part, names)]
    return tuple(row for row in rows if row is not None)


def _since(part: Excerpt) -> int:
    """Where the picture begins: with what led to the step's first work, at most one length of the step before it."""
    calls = part.view.links.call[part.rows]
    calls = calls[(calls >= 0) & (part.view.links.step[part.rows] == part.first)]
    launched = part.view.links.calls.start[calls] if len(calls) else np.zeros(0, np.int64)
    begins = [part.start, *launched.tolist()]
    if not part.view.spans.on_device:
        begins.append(_hosted(part)[0])
    return int(max(min(begins), 2 * part.start - part.end))


def _hosted(part: Excerpt) -> tuple[int, int]:
    """From when to when the host worked for the step: what comes between two steps is done for the second of them. An
    engine that runs ahead of the device is then at the next one while the device is at this."""
    spans, last = part.view.spans, part.first + part.count - 1
    begin, before = int(spans.start[part.first]), spans.end[: part.first]
    if spans.thread is not None:
        before = before[spans.thread[: part.first] == spans.thread[part.first]]
    before = before[before <= begin]
    return int(before.max()) if len(before) else begin, int(spans.end[last])


def _host(part: Excerpt, since: int, names: Names) -> Lane | None:
    """What the thread that ran the step did for it: its annotated phases, where it waited for the device, and the
    operators outside of both."""
    if part.view.device == CPU:
        return None  # its operators are the device's row
    thread = _thread(part)
    if thread is None:
        return None
    trace = part.view.trace
    events = trace.events
    own = (events.thread == thread) & (events.start < part.end) & (events.end > since)
    if not part.view.spans.on_device:
        begin, end = _hosted(part)
        own &= (events.start >= begin) & (events.start < end)
    near = events.select(own)
    phased, waiting = np.zeros(len(trace.names), bool), np.zeros(len(trace.names), bool)
    phased[sorted(name for name, phase in trace.phases.items() if phase not in _AROUND)] = True
    waiting[np.unique(synchronising(trace).name)] = True
    host = np.isin(near.kind, np.array((Kind.ANNOTATION, Kind.OPERATOR), np.uint8))
    named = (host & phased[near.name]) | ((near.kind == Kind.LAUNCH) & waiting[near.name])
    operators = (near.kind == Kind.OPERATOR) & ~named & ~_inside(near, named)
    table = innermost(_in_turn(near.select(named | operators))).events
    found = [_WAITING if waiting[name] else trace.phases[name] if phased[name] else _OPERATORS
             for name in table.name.tolist()]  # fmt: skip
    return _lane("host", "host phases" if phased.any() else "host operators", part, since, table, found, names)


def _in_turn(table: EventTable) -> EventTable:
    """Events in order of start, each ended where the next one begins that outlasts it: clocks are rounded, and a phase
    that overlaps the one before by some ns is not inside of it."""
    table = table.select(np.lexsort((-table.duration, table.start)))
    end, start = table.end.copy(), table.start
    over = np.flatnonzero((start[1:] < end[:-1]) & (end[1:] > end[:-1]))
    end[over] = start[over + 1]
    return replace(table, duration=end - start)


def _inside(table: EventTable, outer: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which events begin within one of ``outer``."""
    around = table.select(outer)
    around = around.select(np.argsort(around.start, kind="stable"))
    if not len(around):
        return np.zeros(len(table), bool)
    row = np.searchsorted(around.start, table.start, side="right") - 1
    found: NDArray[np.bool_] = (row >= 0) & (np.maximum.accumulate(around.end)[np.maximum(row, 0)] > table.start)
    return found


def _thread(part: Excerpt) -> int | None:
    spans = part.view.spans
    if spans.thread is not None and not spans.on_device:
        return int(spans.thread[part.first])
    calls = part.view.links.call[part.rows]
    calls = calls[calls >= 0]
    thread = np.bincount(part.view.links.calls.thread[calls])
    return int(np.argmax(thread)) if len(thread) else None


def _launches(part: Excerpt, since: int, names: Names) -> Lane | None:
    calls = np.unique(part.view.links.call[part.rows])
    table = part.view.links.calls.select(calls[calls >= 0])
    found = [part.view.trace.names[name] for name in table.name.tolist()]
    return _lane("launch", "launches", part, since, table, found, names)


def _device(part: Excerpt, since: int, names: Names) -> list[Lane | None]:
    """A row a stream, the busiest first; the others together."""
    view = part.view
    events = view.events.select(part.rows)
    categories = np.array(view.classes.categories, object)[view.classes.code[events.name]]
    if view.device == CPU:
        return [_lane("device", "operators", part, since, events, categories.tolist(), names)]
    streams, place = np.unique(events.stream, return_inverse=True)
    busiest = np.argsort(-np.bincount(place, events.duration), kind="stable").tolist()
    groups: list[tuple[str, NDArray[np.bool_]]] = [
        (f"{view.device}, stream {int(streams[index])}", place == index) for index in busiest[:_STREAMS]
    ]
    rest = busiest[_STREAMS:]
    if rest:
        groups.append((f"{view.device}, {len(rest)} more streams", np.isin(place, rest)))
    return [
        _lane("device", title, part, since, events.select(mine), categories[mine].tolist(), names)
        for title, mine in groups
    ]


def _idle(part: Excerpt, names: Names) -> Lane | None:
    gaps = waits(part.view, part.start, part.end)
    starts = np.array([gap.start for gap in gaps], np.int64)
    ends = np.array([gap.end for gap in gaps], np.int64)
    found = [gap.told for gap in gaps]
    title = "between operators" if part.view.device == CPU else "why the device waited"
    return _bars("idle", title, part, part.start, starts, ends, found, found, names)


def _lane(
    kind: LaneKind, title: str, part: Excerpt, since: int, table: EventTable, groups: Sequence[str], names: Names
) -> Lane | None:
    called = [part.view.trace.names[name] for name in table.name.tolist()]
    return _bars(kind, title, part, since, table.start, table.end, groups, called, names)


def _bars(
    kind: LaneKind, title: str, part: Excerpt, since: int, start: Ints, end: Ints, groups: Sequence[str],
    called: Sequence[str], names: Names,
) -> Lane | None:  # fmt: skip
    """Bars within [since, the step's end), from events that may overlap; None where there is none."""
    begin, stop = np.clip(start, since, part.end), np.clip(end, since, part.end)
    known: dict[str, int] = {}
    bars: list[list[int]] = []
    totals: list[list[int]] = []  # [ns, events] of each group
    joined: dict[str, int] = {}  # the busy time of the open bar by group, while it is one of several events
    least = (part.end - since) * _FINEST
    for row in np.lexsort((stop, begin)).tolist():
        since_row = max(int(begin[row]), bars[-1][0] + bars[-1][1] if bars else since)
        length = int(stop[row]) - since_row
        if length <= 0:
            continue
        group = known.setdefault(groups[row], len(known))
        if group == len(totals):
            totals.append([0, 0])
        totals[group][0] += length
        totals[group][1] += 1
        last = bars[-1] if bars else None
        ends = 0 if last is None else last[0] + last[1]
        if last is not None and length < least and last[1] < least and since_row - ends < least:
            joined[groups[row]] = joined.get(groups[row], 0) + length
            last[1], last[4], last[5] = since_row + length - last[0], last[4] + 1, last[5] + length
            last[2], last[3] = known[max(joined, key=lambda name: joined[name])], JOINED
        else:
            joined = {groups[row]: length}
            bars.append([since_row, length, group, names.of(called[row]), 1, length])
    if not bars:
        return None
    columns = list(zip(*bars, strict=True))
    return Lane(
        kind=kind,
        title=title,
        groups=tuple(known),
        seconds=tuple(round(ns / 1e9, 9) for ns, _ in totals),
        events=tuple(events for _, events in totals),
        start=tuple(round((ns - part.origin) / 1e9, 9) for ns in columns[0]),
        length=tuple(round(ns / 1e9, 9) for ns in columns[1]),
        group=tuple(columns[2]),
        name=tuple(columns[3]),
        count=tuple(columns[4]),
        busy=tuple(round(ns / 1e9, 9) for ns in columns[5]),
    )
