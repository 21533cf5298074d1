"""What engines' annotations in a trace mean, whichever profiler wrote it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from profiler.model.extension import Engine
from profiler.model.steps import StepLabel
from profiler.model.trace import GARBAGE, Kind, Trace

# How the torch profiler spells a call of gc.collect(); collections that start by themselves have no frame.
_COLLECT: Final = "<built-in function collect>"


def label(trace: Trace, engines: Sequence[Engine]) -> Trace:
    """The trace with every annotation that an engine's grammar understands. Names decide, so it is done once a name."""
    events = trace.events
    marked = np.isin(events.kind, np.array((Kind.ANNOTATION, Kind.DEVICE_ANNOTATION, Kind.OPERATOR), np.uint8))
    labels, phases = {}, {}
    for index in np.unique(events.name[marked]).tolist():
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
    for index in np.unique(events.name[events.kind == Kind.PYTHON]).tolist():
        if trace.names[index] == _COLLECT:
            phases[index] = GARBAGE
    frames = [re.compile(engine.step_frame) for engine in engines if engine.step_frame is not None]
    for index in np.unique(events.name[events.kind == Kind.PYTHON]).tolist():
        if any(frame.search(trace.names[index]) for frame in frames):
            # A frame marks a step and says nothing of its batch.
            labels[index] = StepLabel()
    return replace(
        trace,
        labels=labels,
        phases=phases,
        micro_batches=_micro_batches(trace, engines),
        handovers=_handovers(trace, engines),
    )


def _micro_batches(trace: Trace, engines: Sequence[Engine]) -> dict[int, str]:
    kinds = np.array((Kind.ANNOTATION, Kind.PYTHON), np.uint8)
    used = np.unique(trace.events.name[np.isin(trace.events.kind, kinds)]).tolist()
    for engine in engines:
        if engine.micro_batch is not None:
            pattern = re.compile(engine.micro_batch)
            matches = ((index, pattern.search(trace.names[index])) for index in used)
            found = {index: "".join(match.groups()) for index, match in matches if match is not None}
            if found:
                return found
    return {}


def _handovers(trace: Trace, engines: Sequence[Engine]) -> dict[int, tuple[str, bool]]:
    patterns = [
        (re.compile(pattern), (handover.link, sends))
        for engine in engines
        for handover in engine.handovers
        for pattern, sends in ((handover.waits, False), (handover.sends, True))
    ]
    kinds = np.array((Kind.ANNOTATION, Kind.PYTHON), np.uint8)
    found = {}
    for index in np.unique(trace.events.name[np.isin(trace.events.kind, kinds)]).tolist():
        for pattern, meaning in patterns:
            if pattern.search(trace.names[index]):
                found[index] = meaning
                break
    return found
