"""What engines' annotations in a trace mean, whichever profiler wrote it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from profiler.model.extension import Engine
from profiler.model.steps import StepLabel
from profiler.model.trace import Kind, Trace
from profiler.store.growing import in_blocks


def label(trace: Trace, engines: Sequence[Engine]) -> Trace:
    """The trace with every annotation that an engine's grammar understands. Names decide, so it is done once a name."""
    annotations, frames = _names(trace)
    labels, phases = {}, {}
    for index in annotations:
        for engine in engines:
            found = engine.step_label(trace.names[index])
            if found is not None:
                labels[index] = found
                break
        for engine in engines:
            phase = engine.host_phases.get(trace.names[index])
            if phase is not None:
                phases[index] = phase
                break
    patterns = [re.compile(engine.step_frame) for engine in engines if engine.step_frame is not None]
    for index in frames:
        if any(pattern.search(trace.names[index]) for pattern in patterns):
            # A frame marks a step and says nothing of its batch.
            labels[index] = StepLabel()
    return replace(trace, labels=labels, phases=phases)


def _names(trace: Trace) -> tuple[list[int], list[int]]:
    """The names that annotations and operators have, and those of Python frames, in order."""
    marks = np.array((Kind.ANNOTATION, Kind.DEVICE_ANNOTATION, Kind.OPERATOR), np.uint8)
    annotations, frames = np.zeros((2, len(trace.names)), bool)
    for events in in_blocks(trace.events):
        annotations[events.name[np.isin(events.kind, marks)]] = True
        frames[events.name[events.kind == Kind.PYTHON]] = True
    return np.flatnonzero(annotations).tolist(), np.flatnonzero(frames).tolist()
