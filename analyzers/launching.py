"""The device's busy time by the framework operator that launched the work; on a CPU the operator itself is the work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from profiler.analyzers.device_view import DeviceView
from profiler.analyzers.timeline import whole_nanoseconds
from profiler.analyzers.trace_steps import is_graph_launch
from profiler.model.inspection import LaunchedBy
from profiler.model.requests import Ints
from profiler.model.trace import EventTable, Kind, Trace

# Operators with a row of their own; the rest share one.
MOST: Final = 100
_KINDS: Final[tuple[LaunchedBy, ...]] = ("graph", "outside", "not known")


@dataclass(frozen=True)
class Launcher:
    """One row; the ``nanoseconds`` of all rows add up to the busy time. ``calls`` are those that launched work, and
    ``host`` the nanoseconds that they took on the host without the operators inside them (None: not known; on a CPU
    they are the work). ``name`` is the operator's, the graph launch's own, or empty; ``names`` is how many operators a
    row holds."""

    kind: LaunchedBy
    name: str
    nanoseconds: int
    calls: int | None
    host: int | None
    names: int = 1


def launchers_of(view: DeviceView) -> tuple[Launcher, ...]:
    """The operators by their time, then all further ones as one row, replayed graphs, launches outside of any operator,
    and what is not known. Empty where the trace holds no operators."""
    if view.operators is not None:
        return _on_cpu(view)
    trace, calls = view.trace, view.links.calls
    operators, around, own = operators_around(trace, calls)
    if not len(operators):
        return ()
    # Of every launch call: a name, or behind all names one of _KINDS. Of an event without a call it is the last.
    width = len(trace.names)
    graph = is_graph_launch(trace, calls)
    by = np.where(around >= 0, trace.events.name[around], width + 1)
    by[graph] = width
    by = np.append(by, width + 2)[view.links.call]
    nanoseconds = np.bincount(by, view.swept.share, minlength=width + 3)
    # A call is one of the operator, however much it launched; where there is none, one of the launch call.
    made = np.unique(view.links.call[view.links.call >= 0])
    inside = (around[made] >= 0) & ~graph[made]
    unit, first = np.unique(np.where(inside, around[made], -1 - made), return_index=True)
    at = made[first]
    kind = np.where(inside[first], trace.events.name[around[at]], np.where(graph[at], width, width + 1))
    number = np.bincount(kind, minlength=width + 3)
    host = np.bincount(kind, np.where(unit >= 0, own[at], calls.duration[at]), minlength=width + 3)
    names = " / ".join(sorted({trace.names[i] for i in calls.name[at[graph[at]]].tolist()}))
    return _rows(trace, nanoseconds, number, host, view.swept.busy, names)


def _on_cpu(view: DeviceView) -> tuple[Launcher, ...]:
    events, width = view.events, len(view.trace.names)
    nanoseconds = np.bincount(events.name, view.swept.share, minlength=width + 3)
    number = np.bincount(events.name[view.called], minlength=width + 3)
    return _rows(view.trace, nanoseconds, number, None, view.swept.busy, "")


def _rows(
    trace: Trace, nanoseconds: NDArray[Any], calls: Ints, host: NDArray[Any] | None, busy: int, graphs: str
) -> tuple[Launcher, ...]:
    width = len(trace.names)
    used = np.flatnonzero((nanoseconds > 0) | (calls > 0)).tolist()
    whole = whole_nanoseconds({str(i): float(nanoseconds[i]) for i in used}, busy)

    def row(index: int) -> Launcher:
        kind: LaunchedBy = "operator" if index < width else _KINDS[index - width]
        name = trace.names[index] if index < width else graphs if kind == "graph" else ""
        known = kind != "not known"
        spent = None if host is None or not known else int(host[index])
        return Launcher(kind, name, whole[str(index)], int(calls[index]) if known else None, spent)

    rows = [row(index) for index in used]
    operators = sorted((r for r in rows if r.kind == "operator"), key=lambda r: (-r.nanoseconds, r.name))
    return (*operators[:MOST], *_together(operators[MOST:]), *(r for r in rows if r.kind != "operator"))


def _together(rows: list[Launcher]) -> tuple[Launcher, ...]:
    if not rows:
        return ()
    host = None if rows[0].host is None else sum(r.host or 0 for r in rows)
    nanoseconds, calls = sum(r.nanoseconds for r in rows), sum(r.calls or 0 for r in rows)
    return (Launcher("others", "", nanoseconds, calls, host, len(rows)),)


def operators_around(trace: Trace, calls: EventTable) -> tuple[Ints, Ints, Ints]:
    """The rows of the trace's operators; for every call the row of the innermost one that its thread was in when the
    call began (-1: none), and that one's nanoseconds outside of the operators inside it."""
    events = trace.events
    # What an engine marks its steps and phases with is no operator, whatever category it is written under.
    marks = np.zeros(len(trace.names), bool)
    marks[[*trace.labels, *trace.phases]] = True
    rows = np.flatnonzero(events.kind == Kind.OPERATOR)
    rows = rows[~marks[events.name[rows]]]
    around, own = np.full(len(calls), -1, np.int64), np.zeros(len(calls), np.int64)
    owner = events.thread[rows]
    for thread in np.unique(calls.thread).tolist():
        mine = rows[owner == thread]
        mine = mine[np.lexsort((-events.duration[mine], events.start[mine]))]
        start, length = events.start[mine], events.duration[mine]
        end = start + length
        outer = np.arange(-1, len(mine) - 1)
        _still_open(outer, outer, end, start)
        inside = outer >= 0
        nested = np.minimum(end[inside], end[outer[inside]]) - start[inside]
        alone = length - np.bincount(outer[inside], nested, minlength=len(mine)).astype(np.int64)
        at = np.flatnonzero(calls.thread == thread)
        found = np.searchsorted(start, calls.start[at], side="right") - 1
        _still_open(found, outer, end, calls.start[at])
        at, found = at[found >= 0], found[found >= 0]
        around[at], own[at] = mine[found], np.maximum(alone[found], 0)
    return rows, around, own


def _still_open(found: NDArray[np.int64], outer: NDArray[np.int64], end: Ints, instant: Ints) -> None:
    """Go from each ``found`` outwards to the one that has not ended at its ``instant``, in place. ``outer`` may be
    ``found`` itself, each one's predecessor at first: chains then get shorter by half each time."""
    rows = np.flatnonzero(found >= 0)
    while len(rows):
        rows = rows[end[found[rows]] <= instant[rows]]
        found[rows] = outer[found[rows]]
        rows = rows[found[rows] >= 0]
