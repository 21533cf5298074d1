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


def excerpt(view: DeviceView, count: int, like: StepLabel | None = None) -> Excerpt | None:
    """``count`` steps around the typical one; with ``like``, the step whose batch is nearest to that. None where the
    trace has no steps."""
    step = view.links.step
    steps = np.unique(step[step >= 0])
    if not len(steps):
        return None
    starts = np.full(len(view.spans), np.iinfo(np.int64).max)
    ends = np.full(len(view.spans), np.iinfo(np.int64).min)
    owned = step >= 0
    np.minimum.at(starts, step[owned], view.events.start[owned])
    np.maximum.at(ends, step[owned], view.events.end[owned])
    chosen = _chosen(view, steps, (ends - starts)[steps], like)
    last = min(chosen + count - 1, int(steps.max()))
    first = max(min(chosen, last - count + 1), int(steps.min()))
    origin, end = int(starts[first]), int(ends[first : last + 1].max())
    before = view.events.end[(view.events.start < origin)]
    start = int(before[before <= origin].max(initial=origin)) if len(before) else origin
    inside = np.flatnonzero((view.events.start >= start) & (view.events.start < end))
    return Excerpt(view, start, end, origin, first, last - first + 1, inside)


def whole(view: DeviceView) -> Excerpt:
    """Everything that the device did."""
    start, end = int(view.events.start.min()), int(view.events.end.max())
    return Excerpt(view, start, end, start, 0, len(view.spans), np.arange(len(view.events)))


def _chosen(view: DeviceView, steps: Ints, lengths: Ints, like: StepLabel | None) -> int:
    labels = [view.spans.labels[i] for i in steps.tolist()]
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
    order = near[np.argsort(lengths[near], kind="stable")]
    return int(steps[order[len(order) // 2]])
