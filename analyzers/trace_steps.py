"""The steps of a trace: which span each step has on the host, and which step each device event belongs to."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from profiler.analyzers.kernels import category_of
from profiler.model.requests import Ints
from profiler.model.steps import StepLabel
from profiler.model.trace import NO_ID, EventTable, Kind, Trace

_PROFILER_STEP: Final = re.compile(r"^ProfilerStep#\d+$")
_GRAPH_LAUNCH: Final = re.compile(r"GraphLaunch")
# A graph that is a step holds a whole model; the pieces of a piecewise graph hold a few kernels each.
_KERNELS_OF_A_STEP: Final = 100
DRAFT: Final = "draft"  # the host phase
# Device annotations start up to this much before their kernels (pytorch/kineto#914).
SLACK_NS: Final = 1_000


@dataclass(frozen=True)
class Spans:
    """Steps in order: ``start``/``end`` in ns on the host's timeline (``on_device`` False) or the device's.

    ``source`` says how they were found; ``inferred`` is True unless an engine's own annotation names them.
    """

    start: Ints
    end: Ints
    labels: tuple[StepLabel, ...]
    source: str
    inferred: bool
    on_device: bool = False
    thread: Ints | None = None

    def __len__(self) -> int:
        return len(self.start)

    def owner(self, instant: Ints) -> Ints:
        """The step that each instant falls to: a step owns all until the next begins; -1 before the first."""
        return np.searchsorted(self.start, instant, side="right").astype(np.int64) - 1


def spans_of(trace: Trace) -> Spans:
    """The best steps that the trace offers, possibly none."""
    events = trace.events
    labelled = np.array(sorted(trace.labels), np.int32)
    for kind, on_device in ((Kind.ANNOTATION, False), (Kind.OPERATOR, False), (Kind.DEVICE_ANNOTATION, True)):
        marked = events.select((events.kind == kind) & np.isin(events.name, labelled))
        if len(marked):
            found = _outermost(trace, marked, "step annotations", inferred=False, on_device=on_device)
            return found if on_device else _with_drafts(trace, found)
    steps = np.array([i for i, name in enumerate(trace.names) if _PROFILER_STEP.match(name)], np.int32)
    for kind, on_device in ((Kind.ANNOTATION, False), (Kind.DEVICE_ANNOTATION, True)):
        marked = events.select((events.kind == kind) & np.isin(events.name, steps))
        if len(marked):
            return _outermost(trace, marked, "ProfilerStep annotations", inferred=True, on_device=on_device)
    frames = events.select((events.kind == Kind.PYTHON) & np.isin(events.name, labelled))
    if len(frames):
        return _outermost(trace, frames, "Python frames", inferred=True, on_device=False)
    # The order of the kernels also shows the steps that ran eagerly, or replayed pieces.
    launches, order = _graph_launches(trace), _kernel_order(trace)
    return order if len(order) > len(launches) else launches


def _with_drafts(trace: Trace, spans: Spans) -> Spans:
    """Steps inside a range that marks the drafting are the draft model's, whatever their own annotation calls them."""
    if spans.thread is None:
        return spans
    drafted = inside(ranges_of(trace, DRAFT), spans.thread, spans.start)
    labels = (
        StepLabel(label.phase, requests=label.requests, draft=True) if yes else label
        for label, yes in zip(spans.labels, drafted.tolist(), strict=True)
    )
    return replace(spans, labels=tuple(labels))


def ranges_of(trace: Trace, phase: str) -> EventTable:
    """The host ranges that mark a phase."""
    names = np.array([i for i, name in trace.phases.items() if name == phase], np.int32)
    host = trace.events.are(Kind.ANNOTATION, Kind.OPERATOR)
    return trace.events.select(host & np.isin(trace.events.name, names))


def inside(ranges: EventTable, thread: NDArray[Any], instant: Ints) -> NDArray[np.bool_]:
    """Whether each thread was in one of its ranges at that instant."""
    found = np.zeros(len(instant), bool)
    for one in np.unique(ranges.thread).tolist():
        rows = ranges.select(ranges.thread == one)
        rows = rows.select(np.argsort(rows.start, kind="stable"))
        ends = np.maximum.accumulate(rows.end)
        at = np.searchsorted(rows.start, instant, side="right") - 1
        found |= (thread == one) & (at >= 0) & (instant < ends[np.maximum(at, 0)])
    return found


def is_graph_launch(trace: Trace, launches: EventTable) -> np.ndarray:
    """Which launch calls replay a CUDA or HIP graph, whatever their prefix (cuda, cu, hip)."""
    graph = np.array([bool(_GRAPH_LAUNCH.search(name)) for name in trace.names], bool)
    return graph[launches.name] if len(launches) else np.zeros(0, bool)


def _graph_launches(trace: Trace) -> Spans:
    launches = trace.events.of(Kind.LAUNCH)
    launches = launches.select(is_graph_launch(trace, launches))
    kernels = trace.events.of(Kind.KERNEL)
    ids, counts = np.unique(kernels.correlation, return_counts=True)
    position = np.searchsorted(ids, launches.correlation)
    position[position >= len(ids)] = 0
    sizes = np.where(len(ids) and ids[position] == launches.correlation, counts[position], 0) if len(ids) else 0
    whole = launches.select(np.asarray(sizes >= _KERNELS_OF_A_STEP)) if len(ids) else launches.select(slice(0, 0))
    order = np.argsort(whole.start, kind="stable")
    whole = whole.select(order)
    labels = tuple(StepLabel() for _ in range(len(whole)))
    return Spans(whole.start, whole.end, labels, "graph launches", True, thread=whole.thread.astype(np.int64))


def _kernel_order(trace: Trace) -> Spans:
    """A step begins with the first kernel behind the sampling of the one before, where attention follows."""
    kernels = trace.events.of(Kind.KERNEL)
    kernels = kernels.select(np.argsort(kernels.start, kind="stable"))
    category = {int(name): category_of(trace.names[name]) for name in np.unique(kernels.name).tolist()}
    sampling = np.array([category[name] == "sampling" for name in kernels.name.tolist()], bool)
    attention = np.array([category[name] == "attention" for name in kernels.name.tolist()], bool)
    if not sampling.any() or not attention.any():
        empty = np.zeros(0, np.int64)
        return Spans(empty, empty, (), "kernel order", True, on_device=True)
    after = np.concatenate([[True], sampling[:-1]]) & ~sampling
    begins = np.flatnonzero(after)
    attended = np.add.reduceat(attention, begins) > 0
    begins = begins[attended]
    ends = np.append(begins[1:], len(kernels)) - 1
    return Spans(
        kernels.start[begins],
        kernels.end[ends],
        tuple(StepLabel() for _ in begins),
        "kernel order",
        True,
        on_device=True,
    )


def _outermost(trace: Trace, marked: EventTable, source: str, *, inferred: bool, on_device: bool) -> Spans:
    """Spans in order; one that lies inside another (two grammars mark the same step) only adds what it knows."""
    marked = marked.select(np.lexsort((-marked.duration, marked.start)))
    starts: list[int] = []
    ends: list[int] = []
    threads: list[int] = []
    labels: list[StepLabel] = []
    for name, start, end, thread in zip(
        marked.name.tolist(), marked.start.tolist(), marked.end.tolist(), marked.thread.tolist(), strict=True
    ):
        label = trace.labels.get(name, StepLabel())
        if starts and start >= starts[-1] - SLACK_NS and end <= ends[-1] + SLACK_NS and start < ends[-1]:
            labels[-1] = _joined(labels[-1], label)
            continue
        starts.append(start)
        ends.append(end)
        threads.append(thread)
        labels.append(label)
    return Spans(
        np.array(starts, np.int64), np.array(ends, np.int64), tuple(labels), source, inferred, on_device,
        np.array(threads, np.int64),
    )  # fmt: skip


def _joined(first: StepLabel, second: StepLabel) -> StepLabel:
    known = {
        field: getattr(second, field)
        for field in StepLabel.__dataclass_fields__
        if getattr(first, field) is None and getattr(second, field) is not None
    }
    return replace(first, **known)


@dataclass(frozen=True)
class Launched:
    """For each device event: the index of its launch call in ``calls`` (-1: none in the trace), and its step (-1)."""

    calls: EventTable
    call: Ints
    step: Ints


def launched(trace: Trace, device_events: EventTable, spans: Spans) -> Launched:
    """Join device events to their launch calls by correlation, and both to the steps.

    An event whose launch is not in the trace belongs to the step of the device event before it.
    """
    calls = trace.events.of(Kind.LAUNCH)
    calls = calls.select(calls.correlation != NO_ID)
    order = np.argsort(calls.correlation, kind="stable")
    calls = calls.select(order)
    at = np.searchsorted(calls.correlation, device_events.correlation)
    at[at >= len(calls)] = 0
    if len(calls):
        call = np.where(calls.correlation[at] == device_events.correlation, at, -1).astype(np.int64)
        call[device_events.correlation == NO_ID] = -1
    else:
        call = np.full(len(device_events), -1, np.int64)
    if not len(spans):
        return Launched(calls, call, np.full(len(device_events), -1, np.int64))
    if spans.on_device:
        return Launched(calls, call, spans.owner(device_events.start + SLACK_NS))
    # Those without a call get the step of the last one before them that has one; the first ones none.
    known = np.where(call >= 0, np.arange(len(call)), 0)
    np.maximum.accumulate(known, out=known)
    step = np.append(spans.owner(calls.start), -1)[call[known]]
    return Launched(calls, call, step)
