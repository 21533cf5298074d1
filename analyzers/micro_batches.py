"""Micro-batches: a step cut in two so that one half's collectives run under the other's compute.

Told where the trace names the halves (an engine's ranges, or the threads that it runs them on); kernels follow their
launches. A replayed graph does not say which half a kernel belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiler.analyzers.figure_rows import FigureRows
from profiler.analyzers.kernels import COMMUNICATION, Classified
from profiler.analyzers.timeline import sweep
from profiler.analyzers.trace_steps import Launched
from profiler.model.inspection import Figure
from profiler.model.requests import Ints
from profiler.model.trace import EventTable, Trace


@dataclass(frozen=True)
class MicroBatches:
    """Seconds of the device: ``busy`` by micro-batch, ``together`` with work of several at once, ``communication`` of
    all their collectives, of which ``covered`` ran under another's compute. ``steps`` of ``of`` were cut (None: the
    trace has no steps)."""

    busy: Mapping[str, float]
    together: float
    communication: float
    covered: float
    steps: int
    of: int | None


def micro_batches_of(trace: Trace, events: EventTable, links: Launched, classes: Classified) -> MicroBatches | None:
    """``events`` are the device's, sorted by start. None where no launch lies in one of several micro-batches."""
    marked = trace.events.select(np.isin(trace.events.name, np.array(sorted(trace.micro_batches), np.int32)))
    if not len(marked) or not len(links.calls):
        return None
    names = [
        trace.micro_batches[name] or f"micro-batch {number}"
        for name, number in zip(marked.name.tolist(), _numbered(marked), strict=True)
    ]
    order = sorted(set(names))
    code = np.array([order.index(name) for name in names], np.int64)
    half = np.full(len(events), -1, np.int64)
    known = links.call >= 0
    half[known] = _halves(marked, code, links.calls)[links.call[known]]
    used = np.unique(half[half >= 0])
    if len(used) < 2:
        return None
    talking = np.array([name == COMMUNICATION for name in classes.categories], bool)[classes.code[events.name]]
    busy = {order[i]: _union(events, half == i) for i in used.tolist()}
    together = covered = communication = 0.0
    for i in used.tolist():
        sent, computed = (half == i) & talking, (half >= 0) & (half != i) & ~talking
        spent = _union(events, sent)
        communication += spent
        covered += spent + _union(events, computed) - _union(events, sent | computed)
        rest = _union(events, (half >= 0) & (half != i))
        together += busy[order[i]] + rest - _union(events, half >= 0)
    step = links.step[half >= 0]
    pairs = np.unique(np.stack([step, half[half >= 0]]), axis=1)
    cut = np.unique(pairs[0], return_counts=True)
    steps = int(((cut[1] > 1) & (cut[0] >= 0)).sum())
    all_steps = len(np.unique(links.step[links.step >= 0]))
    return MicroBatches(busy, together / len(used), communication, covered, steps, all_steps or None)


def _numbered(marked: EventTable) -> list[int]:
    """Which of those beside it each range is, told by their threads in the order in which they began. An engine may
    start new threads for every step, so that a thread alone says nothing of another step's."""
    numbers = [0] * len(marked)
    beside: dict[int, int] = {}
    until = 0
    ends, threads = marked.end.tolist(), marked.thread.tolist()
    for row in np.lexsort((marked.thread, marked.start)).tolist():
        if int(marked.start[row]) >= until:
            beside.clear()
        numbers[row] = beside.setdefault(threads[row], len(beside) + 1)
        until = max(until, ends[row])
    return numbers


def _halves(marked: EventTable, code: Ints, calls: EventTable) -> Ints:
    """The micro-batch of each launch call: that of the range which its thread is in, -1 for none."""
    found = np.full(len(calls), -1, np.int64)
    for thread in np.unique(marked.thread).tolist():
        rows = np.flatnonzero(marked.thread == thread)
        rows = rows[np.argsort(marked.start[rows], kind="stable")]
        mine = np.flatnonzero(calls.thread == thread)
        at = np.searchsorted(marked.start[rows], calls.start[mine], side="right") - 1
        inside = (at >= 0) & (calls.start[mine] < marked.end[rows][np.maximum(at, 0)])
        found[mine[inside]] = code[rows[at[inside]]]
    return found


def _union(events: EventTable, rows: NDArray[np.bool_]) -> float:
    """Seconds in which at least one of the events ran."""
    if not rows.any():
        return 0.0
    start, end = events.start[rows], events.end[rows]
    return float(sweep(start, end, np.zeros(len(start), np.int8)).busy) / 1e9


def micro_batch_figures(found: MicroBatches, source: str) -> list[Figure]:
    """How the steps were cut, and what that hid."""
    rows = FigureRows("micro-batches", source)
    if found.of:
        rows.add("steps cut in micro-batches", found.steps / found.of, "fraction", f"{found.steps:,} of {found.of:,}")
    for name, seconds in found.busy.items():
        rows.add(f"busy: {name}", seconds, "s")
    rows.add("several at once", found.together, "s")
    if found.communication:
        rows.add("collectives under another's compute", found.covered / found.communication, "fraction",
                 f"of {found.communication:.3g} s")  # fmt: skip
    return rows.rows
