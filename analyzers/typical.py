"""The steps that stand for a run: of the commonest kind and batch, and of middling length."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from profiler.analyzers.device_view import DeviceView
from profiler.model.requests import Ints
from profiler.model.steps import StepLabel


@dataclass(frozen=True)
class Excerpt:
    """Some consecutive steps of one device: from the end of the device's work before them to the end of their own, ns
    on the trace's clock. ``origin`` is where the first of them begins on the device; ``rows`` are its events."""

    view: DeviceView
    start: int
    end: int
    origin: int
    first: int
    count: int
    rows: Ints

    @property
    def label(self) -> StepLabel:
        """What the first of the steps carried."""
        return self.view.spans.labels[self.first]


def excerpt(view: DeviceView, count: int, like: StepLabel | None = None, at: float | None = None) -> Excerpt | None:
    """``count`` steps around the typical one; with ``like``, the step whose batch is nearest to that; with ``at``, the
    one that the device is in so many seconds after the trace's first event. None where the trace has no steps."""
    steps = steps_of(view)
    if not len(steps):
        return None
    if at is not None:
        return around(view, steps, steps.at(int(view.trace.events.start.min()) + round(at * 1e9)), count)
    return around(view, steps, _chosen(view, steps, like), count)


@dataclass(frozen=True)
class DeviceSteps:
    """The steps that have work on the device, in order: their numbers, and where that work begins and ends, ns."""

    number: Ints
    start: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.number)

    def at(self, instant: int) -> int:
        """The step that the device is in at ``instant``, or waits for; the last one after all of them."""
        row = int(np.searchsorted(np.maximum.accumulate(self.end), instant, side="right"))
        return int(self.number[min(row, len(self) - 1)])


def steps_of(view: DeviceView) -> DeviceSteps:
    """Every step of the trace that has an event on this device."""
    step = view.links.step
    starts = np.full(len(view.spans), np.iinfo(np.int64).max)
    ends = np.full(len(view.spans), np.iinfo(np.int64).min)
    owned = step >= 0
    np.minimum.at(starts, step[owned], view.events.start[owned])
    np.maximum.at(ends, step[owned], view.events.end[owned])
    number = np.unique(step[owned])
    return DeviceSteps(number, starts[number], ends[number])


def around(view: DeviceView, steps: DeviceSteps, chosen: int, count: int) -> Excerpt:
    """``count`` steps from ``chosen`` on; the last ones where the trace ends before."""
    last = min(chosen + count - 1, int(steps.number[-1]))
    first = max(min(chosen, last - count + 1), int(steps.number[0]))
    mine = (steps.number >= first) & (steps.number <= last)
    origin, end = int(steps.start[mine][0]), int(steps.end[mine].max())
    before = view.events.end[view.events.start < origin]
    start = min(int(before.max()), origin) if len(before) else origin
    inside = np.flatnonzero((view.events.start >= start) & (view.events.start < end))
    return Excerpt(view, start, end, origin, first, last - first + 1, inside)


def whole(view: DeviceView) -> Excerpt:
    """Everything that the device did."""
    start, end = int(view.events.start.min()), int(view.events.end.max())
    return Excerpt(view, start, end, start, 0, len(view.spans), np.arange(len(view.events)))


def _chosen(view: DeviceView, steps: DeviceSteps, like: StepLabel | None) -> int:
    labels = [view.spans.labels[i] for i in steps.number.tolist()]
    if like is not None and like.decode_requests is not None:
        distance = [abs((label.decode_requests or 0) - like.decode_requests) + 1e6 * (label.phase != like.phase)
                    for label in labels]  # fmt: skip
        near = np.flatnonzero(np.array(distance) == min(distance))
    else:
        kinds = Counter((label.phase, label.decode_requests, label.requests) for label in labels)
        # Pure decode steps, where there are any, are what a server does most.
        decoding = {kind: n for kind, n in kinds.items() if kind[0] == "decode"} or kinds
        usual = max(decoding, key=lambda kind: (decoding[kind], str(kind)))
        near = np.array([i for i, x in enumerate(labels) if (x.phase, x.decode_requests, x.requests) == usual])
    return middling(steps, near)


def middling(steps: DeviceSteps, rows: Ints) -> int:
    """The number of the step of median length among ``rows`` of ``steps``."""
    order = rows[np.argsort((steps.end - steps.start)[rows], kind="stable")]
    return int(steps.number[order[len(order) // 2]])
