"""Why a device waited: each idle gap gets the cause that its ending shows.

The launch of the kernel that ends a gap tells: if it took effect after the gap began, the host was late (inside a step
that is the launch itself, between steps whatever the host did until then); if the call had long been made, the device
waited for another stream or for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from profiler.analyzers.timeline import Sweep, sweep
from profiler.analyzers.trace_steps import Launched, Spans
from profiler.model.requests import Floats, Ints
from profiler.model.trace import EventTable, Kind, Trace

# Idle causes. The part before the colon says where the gap lies; the part after it what filled it.
IN_STEP_LAUNCH: Final = "in step: launch"
IN_STEP_DEVICE: Final = "in step: device"
IN_STEP_HOST: Final = "in step: host"
IN_STEP_UNKNOWN: Final = "in step: not known"
BETWEEN_PREFIX: Final = "between steps: "
BETWEEN_HOST: Final = BETWEEN_PREFIX + "host"
BETWEEN_DEVICE: Final = BETWEEN_PREFIX + "device"
BETWEEN_UNKNOWN: Final = BETWEEN_PREFIX + "not known"
OUTSIDE: Final = "outside the steps"
NO_WORK: Final = "no work"


@dataclass(frozen=True)
class Gaps:
    """Idle pieces as columns of one length: nanoseconds, the cause, and the step that ends the gap (-1: none)."""

    nanoseconds: Floats
    cause: tuple[str, ...]
    step: Ints

    def by_cause(self) -> dict[str, float]:
        """Nanoseconds by cause, in alphabetical order of the causes."""
        codes: dict[str, int] = {}
        code = np.array([codes.setdefault(cause, len(codes)) for cause in self.cause] or [0], np.int64)
        totals = np.bincount(code[: len(self.cause)], self.nanoseconds, minlength=len(codes))
        return dict(sorted((cause, float(totals[index])) for cause, index in codes.items()))


def gaps_on_device(trace: Trace, events: EventTable, links: Launched, swept: Sweep, spans: Spans) -> Gaps:
    """The gaps of a GPU. ``events`` are the device's, sorted by start; ``links`` joins them to launches and steps."""
    after = np.searchsorted(events.start, swept.gap_end)
    before = np.searchsorted(events.start, swept.gap_start, side="right") - 1
    owner, call = links.step[after], links.call[after]
    known = call >= 0
    launch = links.calls.start[call] if len(links.calls) else np.zeros(len(call), np.int64)
    late = known & (_effective(events, links)[after] >= swept.gap_start)
    inside = np.full(len(owner), True) if not len(spans) else owner == links.step[before]
    outside = np.full(len(owner), False) if not len(spans) else owner < 0
    cause = np.where(inside, np.where(late, _LAUNCH, np.where(known, _DEVICE, _UNKNOWN)), 0)
    cause = np.where(~inside, np.where(known, np.where(late, _HOST, _BETWEEN_DEVICE), _BETWEEN_UNKNOWN), cause)
    cause = np.where(outside, _OUTSIDE, cause)
    owner = owner if len(spans) else np.full(len(owner), -1, np.int64)
    phases = _Phases(trace)
    pieces = _Pieces()
    # Only a gap that the host made between two steps is looked at one by one: its phases fill it.
    for i in np.flatnonzero(cause == _HOST).tolist():
        start, end = int(swept.gap_start[i]), int(swept.gap_end[i])
        thread = int(links.calls.thread[call[i]])
        pieces.between(phases, thread, start, min(int(launch[i]), end), end, int(owner[i]))
    whole = cause != _HOST
    return pieces.done(
        (swept.gap_end - swept.gap_start)[whole].astype(np.float64),
        [_CAUSES[code] for code in cause[whole].tolist()],
        np.where(cause == _OUTSIDE, -1, owner)[whole],
    )


def _effective(events: EventTable, links: Launched) -> Ints:
    """The earliest instant at which each event's launch could have started it: the end of the call plus the shortest
    delay seen in this trace, but not before the call began.

    Eager launches follow each other without a break: the call that ends a gap has often begun just before the gap did,
    and is what the device waits for all the same.
    """
    known = links.call >= 0
    if not known.any():
        return np.zeros(len(events), np.int64)
    begin, end = links.calls.start[links.call], links.calls.end[links.call]
    delay = int(np.percentile((events.start - end)[known], 1))
    return np.maximum(begin, end + delay)


# Codes of the causes that a whole gap can have.
_LAUNCH, _DEVICE, _UNKNOWN, _BETWEEN_DEVICE, _BETWEEN_UNKNOWN, _OUTSIDE, _HOST = range(7)
_CAUSES: Final = (IN_STEP_LAUNCH, IN_STEP_DEVICE, IN_STEP_UNKNOWN, BETWEEN_DEVICE, BETWEEN_UNKNOWN, OUTSIDE)


def gaps_on_cpu(trace: Trace, events: EventTable, swept: Sweep, spans: Spans) -> Gaps:
    """The gaps of a CPU engine's worker: inside a step's span the host, outside it whatever phase is annotated."""
    phases = _Phases(trace)
    pieces = _Pieces()
    for gap_start, gap_end in zip(swept.gap_start.tolist(), swept.gap_end.tolist(), strict=True):
        if not len(spans):
            pieces.add(gap_end - gap_start, IN_STEP_HOST, -1)
            continue
        first = int(np.searchsorted(spans.start, gap_start, side="right")) - 1
        last = int(np.searchsorted(spans.start, gap_end, side="left")) - 1
        cursor = gap_start
        for owner in range(first, last + 1):
            inside = min(int(spans.end[owner]), gap_end) if owner >= 0 else gap_start
            until = min(int(spans.start[owner + 1]), gap_end) if owner + 1 < len(spans) else gap_end
            if inside > cursor:
                pieces.add(inside - cursor, IN_STEP_HOST, owner)
                cursor = inside
            # What follows a span is spent on the way to the next step.
            ends_at = owner + 1 if owner + 1 < len(spans) and until == int(spans.start[owner + 1]) else owner
            if until > cursor:
                thread = int(spans.thread[max(owner, 0)]) if spans.thread is not None else -1
                pieces.between(phases, thread, cursor, until, until, ends_at)
                cursor = until
    return pieces.done()


def annotated_phases(trace: Trace) -> float:
    """Seconds of all annotated host phases but idling, forward passes and what lies inside another phase."""
    outside = {"idle", "forward"}
    names = [index for index, phase in trace.phases.items() if phase not in outside]
    events = trace.events
    host = np.isin(events.kind, np.array((Kind.ANNOTATION, Kind.OPERATOR), np.uint8))
    marked = events.select(host & np.isin(events.name, np.array(sorted(names), np.int32)))
    return float(sweep(marked.start, marked.end, np.zeros(len(marked), np.int64)).busy) / 1e9 if len(marked) else 0.0


class _Phases:
    """Annotated host phases (receive, schedule, prepare_inputs, …) by thread, outer and inner, sorted by start."""

    def __init__(self, trace: Trace) -> None:
        events = trace.events
        host = np.isin(events.kind, np.array((Kind.ANNOTATION, Kind.OPERATOR), np.uint8))
        marked = host & np.isin(events.name, np.array(sorted(trace.phases), np.int32))
        table = events.select(marked)
        table = table.select(np.argsort(table.start, kind="stable"))
        self._by_thread: dict[int, tuple[Ints, Ints, list[str]]] = {}
        for thread in np.unique(table.thread).tolist():
            rows = table.select(table.thread == thread)
            names = [trace.phases[i] for i in rows.name.tolist()]
            self._by_thread[thread] = (rows.start, np.maximum.accumulate(rows.end), names)

    def cover(self, thread: int, start: int, end: int) -> list[tuple[str, int]]:
        """(phase, ns) of the annotated phases within [start, end) on a thread; parts that none covers are left out."""
        found = self._by_thread.get(thread)
        if found is None:
            return []
        starts, ends, names = found
        covered, cursor = [], start
        for i in range(int(np.searchsorted(ends, start, side="right")), int(np.searchsorted(starts, end))):
            begin, stop = max(int(starts[i]), cursor), min(int(ends[i]), end)
            if stop > begin:
                covered.append((names[i], stop - begin))
                cursor = stop
        return covered


class _Pieces:
    def __init__(self) -> None:
        self._lengths: list[float] = []
        self._causes: list[str] = []
        self._steps: list[int] = []

    def add(self, nanoseconds: float, cause: str, step: int) -> None:
        if nanoseconds > 0:
            self._lengths.append(float(nanoseconds))
            self._causes.append(cause)
            self._steps.append(step)

    def between(self, phases: _Phases, thread: int, start: int, launch: int, end: int, step: int) -> None:
        """A gap between two steps: the host's phases until the launch call began, then the launch itself."""
        covered = phases.cover(thread, start, launch)
        for phase, length in covered:
            self.add(length, NO_WORK if phase == "idle" else BETWEEN_PREFIX + phase, step)
        self.add(launch - start - sum(length for _, length in covered), BETWEEN_HOST, step)
        self.add(end - launch, BETWEEN_PREFIX + "launch", step)

    def done(self, lengths: Floats | None = None, causes: Sequence[str] = (), steps: Ints | None = None) -> Gaps:
        """All pieces, with those that were classified elsewhere."""
        none = np.zeros(0, np.int64)
        return Gaps(
            np.concatenate([np.array(self._lengths), none if lengths is None else lengths]),
            (*self._causes, *causes),
            np.concatenate([np.array(self._steps, np.int64), none if steps is None else steps]),
        )
