"""Why a device waited: each idle gap gets the cause that its ending shows.

The launch of the kernel that ends a gap tells: if it took effect after the gap began, the host was late (inside a step
that is the launch itself, between steps whatever the host did until then); if the call had long been made, the device
waited for another stream or for itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profiler.analyzers.timeline import Sweep, sweep
from profiler.analyzers.trace_steps import Launched, Spans
from profiler.model.requests import Floats, Ints
from profiler.model.trace import GARBAGE, EventTable, Kind, Trace

# Idle causes. The part before the colon says where the gap lies; the part after it what filled it.
IN_STEP_LAUNCH: Final = "in step: launch"
IN_STEP_DEVICE: Final = "in step: device"
IN_STEP_SYNC: Final = "in step: synchronise"
IN_STEP_GARBAGE: Final = "in step: " + GARBAGE
IN_STEP_HOST: Final = "in step: host"
IN_STEP_UNKNOWN: Final = "in step: not known"
BETWEEN_PREFIX: Final = "between steps: "
BETWEEN_HOST: Final = BETWEEN_PREFIX + "host"
BETWEEN_LAUNCH: Final = BETWEEN_PREFIX + "launch"
BETWEEN_DEVICE: Final = BETWEEN_PREFIX + "device"
BETWEEN_UNKNOWN: Final = BETWEEN_PREFIX + "not known"
OUTSIDE: Final = "outside the steps"
NO_WORK: Final = "no work"


@dataclass(frozen=True)
class Gaps:
    """Idle pieces as columns of one length: nanoseconds, the cause (an index into ``causes``), and the step (-1: none)
    and the device event (its row among those given) that end the gap."""

    nanoseconds: Floats
    code: NDArray[np.int8]
    causes: tuple[str, ...]
    step: Ints
    event: Ints

    def by_cause(self) -> dict[str, float]:
        """Nanoseconds by cause, in alphabetical order of the causes."""
        totals = np.bincount(self.code, self.nanoseconds, minlength=len(self.causes))
        return dict(sorted((cause, float(ns)) for cause, ns in zip(self.causes, totals, strict=True) if ns > 0))


def gaps_on_device(trace: Trace, events: EventTable, links: Launched, swept: Sweep, spans: Spans) -> Gaps:
    """The gaps of a GPU. ``events`` are the device's, sorted by start; ``links`` joins them to launches and steps."""
    after = np.searchsorted(events.start, swept.gap_end)
    owner, call = links.step[after], links.call[after]
    launch = links.calls.start[call] if len(links.calls) else np.zeros(len(call), np.int64)
    cause = _whole_causes(trace, events, links, swept, spans, after)
    phases = HostActivity(trace)
    pieces = _Pieces()
    # Only a gap that the host made between two steps is looked at one by one: its phases fill it.
    for i in np.flatnonzero(cause == _HOST).tolist():
        start, end = int(swept.gap_start[i]), int(swept.gap_end[i])
        thread = int(links.calls.thread[call[i]])
        # A call that began before the gap and took effect in it fills all of it.
        called = min(max(int(launch[i]), start), end)
        pieces.between(phases, thread, start, called, end, (int(owner[i]), int(after[i])))
    whole = np.flatnonzero(cause != _HOST)
    length = (swept.gap_end - swept.gap_start)[whole].astype(np.float64)
    # A late launch also waits for what every kernel waits for: the device's own pause between two of them.
    pause = float(np.median(length[cause[whole] == _DEVICE])) if (cause[whole] == _DEVICE).any() else 0.0
    late_rows = np.flatnonzero(cause[whole] == _LAUNCH)
    paused = np.minimum(length[late_rows], pause)
    length[late_rows] -= paused
    collected: dict[int, float] = {}
    for i in phases.collecting(swept.gap_start[whole], swept.gap_end[whole]).tolist():
        if cause[whole[i]] in (_LAUNCH, _SYNC):
            row = whole[i]
            until = min(max(int(launch[row]), int(swept.gap_start[row])), int(swept.gap_end[row]))
            spent = phases.collected(int(links.calls.thread[call[row]]), int(swept.gap_start[row]), until)
            if min(spent, length[i]) > 0:
                collected[i] = min(spent, float(length[i]))
    garbage, lost = np.array(list(collected), np.int64), np.array(list(collected.values()), np.float64)
    length[garbage] -= lost
    owner[cause == _OUTSIDE] = -1
    again = whole[np.concatenate([late_rows, garbage])]
    codes = np.repeat(np.array([_DEVICE, _GARBAGE], np.int8), [len(late_rows), len(garbage)])
    return pieces.done(
        [length, paused, lost], [cause[whole], codes], [owner[whole], owner[again]], [after[whole], after[again]]
    )


def _whole_causes(
    trace: Trace, events: EventTable, links: Launched, swept: Sweep, spans: Spans, after: Ints
) -> NDArray[np.int8]:
    """The cause of every gap as a whole, a code; ``after`` is the event that ends it."""
    call = links.call[after]
    known = call >= 0
    late = known & (effective_launch(events, links)[after] >= swept.gap_start)
    cause = np.where(late, np.int8(_LAUNCH), np.where(known, np.int8(_DEVICE), np.int8(_UNKNOWN)))
    launch = links.calls.start[call] if len(links.calls) else np.zeros(len(call), np.int64)
    cause[late & _ran_dry(trace, links, call, swept.gap_start, launch)] = _SYNC
    if len(spans):
        owner = links.step[after]
        before = np.searchsorted(events.start, swept.gap_start, side="right") - 1
        between = owner != links.step[before]
        cause[between & late] = _HOST
        cause[between & known & ~late] = _BETWEEN_DEVICE
        cause[between & ~known] = _BETWEEN_UNKNOWN
        cause[owner < 0] = _OUTSIDE
    return cause


# Calls in which the host waits for the device, whatever their prefix (cuda, cu, hip).
_SYNCHRONISE: Final = re.compile(r"(?:Stream|Event|Device|Ctx)Synchronize|StreamWaitValue|hipMemcpyWithStream$")


def _ran_dry(trace: Trace, links: Launched, call: Ints, gap_start: Ints, launch: Ints) -> np.ndarray:
    """Which gaps began while the thread of the launch that ends them waited for the device: it could only launch
    once the device had run dry."""
    found = np.zeros(len(call), bool)
    waits = synchronising(trace)
    if not len(waits) or not len(links.calls):
        return found
    thread = links.calls.thread[call]
    for one in np.unique(waits.thread).tolist():
        rows = waits.select(waits.thread == one)
        rows = rows.select(np.argsort(rows.end, kind="stable"))
        gaps = np.flatnonzero((call >= 0) & (thread == one))
        last = np.searchsorted(rows.end, launch[gaps], side="right") - 1
        found[gaps] = (last >= 0) & (rows.end[np.maximum(last, 0)] >= gap_start[gaps])
    return found


def synchronising(trace: Trace) -> EventTable:
    """The calls in which a host thread waited for the device."""
    calls = trace.events.of(Kind.LAUNCH)
    waiting = np.array([bool(_SYNCHRONISE.search(name)) for name in trace.names], bool)
    return calls.select(waiting[calls.name]) if len(calls) else calls


def effective_launch(events: EventTable, links: Launched) -> Ints:
    """The earliest instant at which each event's launch could have started it: the end of the call plus the shortest
    delay seen in this trace, but not before the call began.

    Eager launches follow each other without a break: the call that ends a gap has often begun just before the gap did,
    and is what the device waits for all the same.
    """
    known = links.call >= 0
    if not known.any():
        return np.zeros(len(events), np.int64)
    end = links.calls.end[links.call]
    # A copy's call can return after the copy: when it took effect is not known, only when it was made.
    returned = known & ~((events.kind == Kind.MEMCPY) & (end > events.start))
    begin = links.calls.start[links.call]
    if not returned.any():
        return begin
    end += int(np.percentile((events.start - end)[returned], 1, overwrite_input=True))
    np.maximum(begin, end, out=begin, where=returned)
    return begin


# Codes of the causes that a whole gap can have.
_LAUNCH, _DEVICE, _SYNC, _UNKNOWN, _BETWEEN_DEVICE, _BETWEEN_UNKNOWN, _OUTSIDE, _GARBAGE, _HOST = range(9)
_CAUSES: Final = (
    IN_STEP_LAUNCH,
    IN_STEP_DEVICE,
    IN_STEP_SYNC,
    IN_STEP_UNKNOWN,
    BETWEEN_DEVICE,
    BETWEEN_UNKNOWN,
    OUTSIDE,
    IN_STEP_GARBAGE,
)


def gaps_on_cpu(trace: Trace, events: EventTable, swept: Sweep, spans: Spans) -> Gaps:
    """The gaps of a CPU engine's worker: inside a step's span the host, outside it whatever phase is annotated."""
    phases = HostActivity(trace)
    pieces = _Pieces()
    for gap_start, gap_end in zip(swept.gap_start.tolist(), swept.gap_end.tolist(), strict=True):
        if not len(spans):
            pieces.add(gap_end - gap_start, IN_STEP_HOST)
            continue
        first = int(np.searchsorted(spans.start, gap_start, side="right")) - 1
        last = int(np.searchsorted(spans.start, gap_end, side="left")) - 1
        cursor = gap_start
        for owner in range(first, last + 1):
            inside = min(int(spans.end[owner]), gap_end) if owner >= 0 else gap_start
            until = min(int(spans.start[owner + 1]), gap_end) if owner + 1 < len(spans) else gap_end
            if inside > cursor:
                pieces.add(inside - cursor, IN_STEP_HOST, (owner, -1))
                cursor = inside
            # What follows a span is spent on the way to the next step.
            ends_at = owner + 1 if owner + 1 < len(spans) and until == int(spans.start[owner + 1]) else owner
            if until > cursor:
                thread = int(spans.thread[max(owner, 0)]) if spans.thread is not None else -1
                pieces.between(phases, thread, cursor, until, until, (ends_at, -1))
                cursor = until
    return pieces.done()


def annotated_phases(trace: Trace) -> float:
    """Seconds of all annotated host phases but idling, forward passes and what lies inside another phase."""
    outside = {"idle", "forward"}
    names = [index for index, phase in trace.phases.items() if phase not in outside]
    events = trace.events
    host = events.are(Kind.ANNOTATION, Kind.OPERATOR)
    marked = events.select(host & np.isin(events.name, np.array(sorted(names), np.int32)))
    return float(sweep(marked.start, marked.end, np.zeros(len(marked), np.int8)).busy) / 1e9 if len(marked) else 0.0


_NONE: Final = np.zeros(0, np.int64)


def _collections(trace: Trace) -> dict[int, tuple[Ints, Ints]]:
    """By thread, starts and ends of the garbage collections that the trace names, in order and merged."""
    names = np.array([index for index, phase in trace.phases.items() if phase == GARBAGE], np.int32)
    if not len(names):
        return {}
    events = trace.events.select(np.isin(trace.events.name, names))
    found = {}
    for thread in np.unique(events.thread).tolist():
        rows = events.select(events.thread == thread)
        rows = rows.select(np.argsort(rows.start, kind="stable"))
        ends = np.maximum.accumulate(rows.end)
        new = np.concatenate([[True], rows.start[1:] > ends[:-1]])
        found[thread] = (rows.start[new], ends[np.append(np.flatnonzero(new)[1:], len(ends)) - 1])
    return found


class HostActivity:
    """What a thread was doing, sorted by start: annotated host phases (receive, schedule, prepare_inputs, …), and
    where none is annotated, calls that wait for the device and framework operators. A garbage collection of the thread
    itself goes before all of them: it runs in the midst of whatever came to allocate."""

    def __init__(self, trace: Trace) -> None:
        events = trace.events
        annotated = np.zeros(len(trace.names), bool)
        annotated[sorted(trace.phases)] = True
        waiting = np.array([bool(_SYNCHRONISE.search(name)) for name in trace.names], bool)
        host = events.are(Kind.ANNOTATION, Kind.OPERATOR)
        waits = (events.kind == Kind.LAUNCH) & waiting[events.name]
        table = events.select((host & annotated[events.name]) | (events.kind == Kind.OPERATOR) | waits)
        # A phase goes before the operator that begins with it.
        table = table.select(np.lexsort((~annotated[table.name], -table.duration, table.start)))
        self._titles = [
            trace.phases.get(name, "synchronise" if waited else "operators")
            for name, waited in enumerate(waiting.tolist())
        ]
        self._by_thread: dict[int, tuple[Ints, Ints, NDArray[np.int32]]] = {}
        for thread in np.unique(table.thread).tolist():
            rows = table.select(table.thread == thread)
            self._by_thread[thread] = (rows.start, np.maximum.accumulate(rows.end), rows.name)
        self._collections = _collections(trace)

    def collecting(self, start: Ints, end: Ints) -> Ints:
        """Which of these spans, in order, a garbage collection of any thread touches."""
        touched = np.zeros(len(start) + 1, np.int64)
        for begins, ends in self._collections.values():
            np.add.at(touched, np.searchsorted(end, begins, side="right"), 1)
            np.add.at(touched, np.maximum(np.searchsorted(start, ends), np.searchsorted(end, begins, side="right")), -1)
        return np.flatnonzero(np.cumsum(touched)[:-1] > 0)

    def collected(self, thread: int, start: int, end: int) -> int:
        """Nanoseconds within [start, end) in which the thread collected garbage."""
        return sum(stop - begin for begin, stop in self._collected(thread, start, end))

    def _collected(self, thread: int, start: int, end: int) -> list[tuple[int, int]]:
        begins, ends = self._collections.get(thread, (_NONE, _NONE))
        first, last = np.searchsorted(ends, start, side="right"), np.searchsorted(begins, end)
        return [(max(int(begins[i]), start), min(int(ends[i]), end)) for i in range(int(first), int(last))]

    def cover(self, thread: int, start: int, end: int) -> list[tuple[str, int]]:
        """(phase, ns) of the annotated phases within [start, end) on a thread; parts that none covers are left out."""
        covered, cursor = [], start
        for begin, stop in self._collected(thread, start, end):
            covered += self._annotated(thread, cursor, begin)
            covered.append((GARBAGE, stop - begin))
            cursor = stop
        return covered + self._annotated(thread, cursor, end)

    def _annotated(self, thread: int, start: int, end: int) -> list[tuple[str, int]]:
        found = self._by_thread.get(thread)
        if found is None:
            return []
        starts, ends, names = found
        covered, cursor = [], start
        for i in range(int(np.searchsorted(ends, start, side="right")), int(np.searchsorted(starts, end))):
            begin, stop = max(int(starts[i]), cursor), min(int(ends[i]), end)
            if stop > begin:
                covered.append((self._titles[names[i]], stop - begin))
                cursor = stop
        return covered


class _Pieces:
    def __init__(self) -> None:
        self._lengths: list[float] = []
        self._codes: list[int] = []
        self._names = {cause: code for code, cause in enumerate(_CAUSES)}
        self._ends: list[tuple[int, int]] = []

    def add(self, nanoseconds: float, cause: str, end: tuple[int, int] = (-1, -1)) -> None:
        """``end``: the step and the device event that end the gap."""
        if nanoseconds > 0:
            self._lengths.append(float(nanoseconds))
            self._codes.append(self._names.setdefault(cause, len(self._names)))
            self._ends.append(end)

    def between(
        self, phases: HostActivity, thread: int, start: int, launch: int, end: int, ends: tuple[int, int]
    ) -> None:
        """A gap between two steps: the host's phases until the launch call began, then the launch itself."""
        covered = phases.cover(thread, start, launch)
        for phase, length in covered:
            self.add(length, NO_WORK if phase == "idle" else BETWEEN_PREFIX + phase, ends)
        self.add(launch - start - sum(length for _, length in covered), BETWEEN_HOST, ends)
        self.add(end - launch, BETWEEN_LAUNCH, ends)

    def done(
        self,
        lengths: Sequence[Floats] = (),
        codes: Sequence[NDArray[np.int8]] = (),
        steps: Sequence[Ints] = (),
        events: Sequence[Ints] = (),
    ) -> Gaps:
        """All pieces, with those that were classified elsewhere (``codes`` index ``_CAUSES``), in parts."""
        ends = np.array(self._ends, np.int64).reshape(-1, 2)
        return Gaps(
            np.concatenate([np.array(self._lengths, np.float64), *lengths]),
            np.concatenate([np.array(self._codes, np.int8), *codes]),
            tuple(self._names),
            np.concatenate([ends[:, 0], *steps]),
            np.concatenate([ends[:, 1], *events]),
        )
