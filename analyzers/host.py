"""What the host did: its phases, what a launch costs, what the profiler itself took, and where sampled stacks were."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from profiler.analyzers.device import DeviceAccount
from profiler.analyzers.device_view import CPU
from profiler.analyzers.trace_steps import is_graph_launch
from profiler.model.inspection import Figure
from profiler.model.stacks import StackTable
from profiler.model.trace import GARBAGE, EventTable, Kind, Trace

_TOP: Final = 5
# Threads that only wait for work show these as their innermost frame.
_WAITING: Final = (
    "wait (",
    "_worker (concurrent/futures/",
    "select (",
    "poll (",
    "epoll",
    "_recv_bytes (",
    "futex",
    "sleep",
    "acquire (",
    "accept (",
)


def host_figures(trace: Trace, accounts: Sequence[DeviceAccount]) -> tuple[Figure, ...]:
    """Host seconds of one trace: by annotated phase a step, a launch call's cost, and the profiler's own."""
    figures: list[Figure] = []

    def add(name: str, value: float | None, unit: str, detail: str = "") -> None:
        figures.append(Figure(section="host", name=name, value=value, unit=unit, detail=detail, source=trace.path))

    steps = next((len(a.steps.first) for a in accounts if a.steps is not None), 0)
    for phase, seconds, calls in _phases(trace):
        if steps:
            add(f"{phase}, a step", seconds / steps, "s", f"{calls:,} annotated ranges, {seconds:.3g} s in all")
        else:
            add(phase, seconds, "s", f"{calls:,} annotated ranges")
    launches = trace.events.of(Kind.LAUNCH)
    if len(launches):
        graph = is_graph_launch(trace, launches)
        named = np.array(["LaunchKernel" in name for name in trace.names], bool)
        single = launches.select(named[launches.name] & ~graph)
        if len(single):
            text = f"{len(single):,} calls, {single.duration.sum() / 1e9:.3g} s in all"
            add("a kernel's launch call", float(single.duration.mean()) / 1e9, "s", text)
    hidden = _hidden(accounts)
    if hidden is not None:
        add("host phases that device work hides", hidden, "fraction", "of the annotated phases' time")
    overhead = trace.events.of(Kind.OVERHEAD)
    if len(overhead):
        add("the profiler's own work", float(_busy(overhead)) / 1e9, "s", "overhead events of the trace")
    return tuple(figures)


def _phases(trace: Trace) -> list[tuple[str, float, int]]:
    """(phase, seconds, ranges), the longest first. Ranges of one phase that overlap count once."""
    events = trace.events
    marked = np.isin(events.kind, np.array((Kind.ANNOTATION, Kind.OPERATOR, Kind.PYTHON), np.uint8))
    rows = events.select(marked & np.isin(events.name, np.array(sorted(trace.phases), np.int32)))
    names = sorted(set(trace.phases.values()))
    found = []
    for phase in names:
        ids = np.array([i for i, name in trace.phases.items() if name == phase], np.int32)
        ranges = rows.select(np.isin(rows.name, ids))
        if len(ranges):
            found.append((phase, _busy(ranges) / 1e9, len(ranges)))
    return sorted(found, key=lambda row: (-row[1], row[0]))


def _busy(events: EventTable) -> int:
    """Nanoseconds in which at least one of the events ran, each thread for itself."""
    total = 0
    for thread in np.unique(events.thread).tolist():
        rows = events.select(events.thread == thread)
        order = np.argsort(rows.start, kind="stable")
        start, end = rows.start[order], np.maximum.accumulate(rows.end[order])
        before = np.concatenate([[start[0]], end[:-1]])
        total += int(np.maximum(end - np.maximum(start, before), 0).sum())
    return total


def _hidden(accounts: Iterable[DeviceAccount]) -> float | None:
    """The share of the annotated host time that no device waits for."""
    for account in accounts:
        costs = account.steps
        if account.device != CPU and costs is not None and costs.phases > 0:
            waited = sum(float(v.sum()) for name, v in costs.idle.items() if name.startswith("between steps"))
            return max(0.0, 1.0 - waited / (costs.phases * len(costs.first)))
    return None


def stack_figures(tables: Sequence[StackTable]) -> tuple[Figure, ...]:
    """The innermost functions that sampled stacks show most, by thread; threads that wait are left out."""
    figures = []
    for table in tables:
        figures += _interpreter(table)
        total = float(table.weight.sum())
        shares: dict[tuple[str, str], float] = {}
        waiting = 0.0
        for row in range(len(table)):
            stack = table.stacks[table.stack[row]]
            leaf = table.frames[stack[-1]] if stack else "(no frames)"
            if any(word in leaf for word in _WAITING):
                waiting += float(table.weight[row])
                continue
            thread = table.threads[table.thread[row]] if table.thread[row] >= 0 else ""
            shares[thread, leaf] = shares.get((thread, leaf), 0.0) + float(table.weight[row])
        if total <= 0:
            continue
        source = table.path
        figures.append(
            Figure(section="stacks", name="threads that wait", value=waiting / total, unit="fraction", source=source)
        )
        top = sorted(shares.items(), key=lambda item: (-item[1], item[0]))[:_TOP]
        figures += [
            Figure(section="stacks", name=leaf, value=weight / total, unit="fraction", detail=thread, source=source)
            for (thread, leaf), weight in top
        ]
    return tuple(figures)


_PYTHON_FRAME: Final = re.compile(r"\.py:\d+\)$")
_NATIVE_FRAME: Final = re.compile(r"\(.*\.so[.\d]*\)$")
_COLLECTING: Final = re.compile(r"^(?:gc_collect_\w+|_?PyGC_Collect\w*|_Py_RunGC)\b")
_TAKING: Final = re.compile(r"^(?:take_gil|PyEval_RestoreThread|PyEval_AcquireThread|_PyThreadState_Attach)\b")
# Waiting for a condition straight from Python code: only the interpreter does that itself, for its lock. A library that
# waits has frames of its own in between, and Python's own locks wait on semaphores.
_CONDITION: Final = re.compile(r"^_*pthread_cond_(?:timed)?wait")


def _interpreter(table: StackTable) -> list[Figure]:
    """How much of each thread's samples were garbage collections and waits for the interpreter's lock (GIL)."""
    python = [bool(_PYTHON_FRAME.search(frame)) for frame in table.frames]
    if not any(python):
        return []
    both = f"{GARBAGE} and waiting for the GIL"
    if not any(_NATIVE_FRAME.search(frame) for frame in table.frames):
        detail = "needs native frames (py-spy record --native)"
        return [Figure(section="stacks", name=both, value=None, unit="fraction", detail=detail, source=table.path)]
    collecting = [bool(_COLLECTING.search(frame)) for frame in table.frames]
    taking = [bool(_TAKING.search(frame)) for frame in table.frames]
    condition = [bool(_CONDITION.search(frame)) for frame in table.frames]
    totals: dict[str, list[float]] = {}
    for row in range(len(table)):
        stack = table.stacks[table.stack[row]]
        thread = table.threads[table.thread[row]] if table.thread[row] >= 0 else ""
        spent = totals.setdefault(thread, [0.0, 0.0, 0.0])
        weight = float(table.weight[row])
        spent[0] += weight
        waits = any(taking[f] for f in stack) or any(
            condition[inner] and python[outer] for outer, inner in pairwise(stack)
        )
        spent[1] += weight if any(collecting[f] for f in stack) else 0.0
        spent[2] += weight if waits else 0.0
    found = []
    for place, name in ((1, GARBAGE), (2, "waiting for the GIL")):
        rows = sorted(((s[place] / s[0], thread) for thread, s in totals.items() if s[place] > 0), reverse=True)
        for share, thread in rows[:_TOP]:
            detail = f"of the samples of {thread or 'all threads'}"
            figure = Figure(section="stacks", name=name, value=share, unit="fraction", detail=detail, source=table.path)
            found.append(figure)
    return found
