"""The critical path through all of a run's traces: over ranks, and over processes that hand each other work.

Walked backwards from the last device event of any rank, as ``critical_path`` walks one. At a collective that waited for
a slower rank the path goes on at that rank, from its arrival; at a wait that another process's message ended, on that
process's sending thread. The kernels of a graph replay are one node. Where the path reaches the beginning of what its
trace shows, the rest of the window is not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from profiler.analyzers.communication import AcrossRanks, collective_rows
from profiler.analyzers.critical_path import DEVICE_LATENCY, HOST, Walk
from profiler.analyzers.device_view import CPU, DeviceView, views_of
from profiler.analyzers.handovers import received
from profiler.analyzers.idle import HostActivity
from profiler.analyzers.kernels import COMMUNICATION
from profiler.model.requests import Ints
from profiler.model.run import Run
from profiler.model.trace import Trace

TRANSFER: Final = f"device: {COMMUNICATION}"
HANDOVER: Final = f"{HOST}: on the way to another process"
BEFORE: Final = "not known: before the traces begin"


@dataclass(frozen=True)
class JoinedPath:
    """``seconds`` by (trace or trace and device, part); all add up to ``total``, the time from the first device event
    of the ranks to the last. ``ranks`` and ``processes`` count how often the path went from one to another."""

    seconds: Mapping[tuple[str, str], float]
    total: float
    ranks: int
    processes: int

    @property
    def host_share(self) -> float:
        """The share of the path on hosts."""
        host = sum(value for (_, part), value in self.seconds.items() if part.startswith(HOST))
        return host / self.total if self.total else 0.0


@dataclass(frozen=True)
class Lane:
    """One rank's device, or a process without one. ``shift`` brings its local ns to the common clock."""

    name: str
    trace: Trace
    shift: int
    walk: Walk | None


def joined(run: Run, across: AcrossRanks | None) -> JoinedPath | None:
    """The path of a run; None where its traces are of one process, or can't be joined."""
    if len(run.traces) < 2 or any(trace.base == 0 for trace in run.traces):
        return None
    offsets = {} if across is None else {rank.trace: round(rank.offset * 1e9) for rank in across.ranks}
    views = [view for trace in run.traces for view in views_of(trace) if view.device != CPU]
    if across is not None:
        views = sorted((v for v in views if v.source in offsets), key=lambda v: list(offsets).index(v.source))
    if not views or (across is None and len(views) > 1):
        return None
    first = views[0].trace.base
    lanes = [Lane(v.source, v.trace, v.trace.base - first - offsets.get(v.source, 0), Walk.of(v)) for v in views]
    begin, end = _window(lanes)
    named = {lane.trace.path for lane in lanes}
    for trace in run.traces:
        shift = trace.base - first
        if trace.path not in named and len(trace.events):
            low, high = int(trace.events.start.min()) + shift, int(trace.events.end.max()) + shift
            if low < end and high > begin:
                lanes.append(Lane(trace.path, trace, shift, None))
    path = _Path(lanes, _meetings(views, lanes, across))
    if len(lanes) < 2 or not path.joins:
        return None
    return path.walked()


def _window(lanes: Sequence[Lane]) -> tuple[int, int]:
    walks = [(lane.walk.events, lane.shift) for lane in lanes if lane.walk is not None]
    return min(int(e.start[0]) + s for e, s in walks), max(int(e.end.max()) + s for e, s in walks)


@dataclass(frozen=True)
class _Meeting:
    """The matched collectives in which one lane waited for another: columns in order of ``row``, its event; the lane
    that came last, that lane's event and its arrival on the common clock."""

    row: Ints
    slowest: Ints
    other: Ints
    arrival: Ints


def _meetings(views: Sequence[DeviceView], lanes: Sequence[Lane], across: AcrossRanks | None) -> list[_Meeting]:
    if across is None:
        return []
    rows = [collective_rows(v.events, v.classes)[at] for v, at in zip(views, across.rows, strict=True)]
    start = np.stack([v.events.start[r] + lane.shift for v, lane, r in zip(views, lanes, rows, strict=False)])
    slowest = start.argmax(axis=0)
    arrival = start.max(axis=0)
    event = np.stack(rows)
    found = []
    for i in range(len(views)):
        waited = np.flatnonzero(arrival - start[i] > across.spread * 1e9)
        waited = waited[np.argsort(rows[i][waited], kind="stable")]
        found.append(_Meeting(rows[i][waited], slowest[waited], event[slowest[waited], waited], arrival[waited]))
    return found


class _Path:
    """The walk: ``now`` is where it stands on the common clock, and only ever goes back."""

    def __init__(self, lanes: Sequence[Lane], meetings: Sequence[_Meeting]) -> None:
        self._lanes, self._meetings = lanes, meetings
        self._received = received([lane.trace for lane in lanes], [lane.shift for lane in lanes])
        self._activity: dict[int, HostActivity] = {}
        self._spent: dict[tuple[str, str], float] = {}
        self._begin, self._now = _window(lanes)
        self._ranks = self._processes = 0

    @property
    def joins(self) -> bool:
        """Whether there is anything at which the path could leave a lane."""
        return any(len(m.row) for m in self._meetings) or any(map(len, self._received))

    def walked(self) -> JoinedPath:
        """The whole path."""
        total = self._now - self._begin
        lane = max(self._devices(), key=lambda i: int(self._walk(i).events.end.max()) + self._lanes[i].shift)
        row = int(self._walk(lane).events.end.argmax())
        at: tuple[int, int, int] | None = (lane, row, row + 1)
        while at is not None and self._now > self._begin:
            at = self._device(*at)
        self._spend("", BEFORE, self._begin)
        ordered = sorted(self._spent.items(), key=lambda item: (-item[1], item[0]))
        return JoinedPath({key: ns / 1e9 for key, ns in ordered}, total / 1e9, self._ranks, self._processes)

    def _devices(self) -> list[int]:
        return [i for i, lane in enumerate(self._lanes) if lane.walk is not None]

    def _walk(self, lane: int) -> Walk:
        walk = self._lanes[lane].walk
        assert walk is not None
        return walk

    def _spend(self, name: str, part: str, until: int) -> None:
        until = max(until, self._begin)
        if until < self._now:
            self._spent[name, part] = self._spent.get((name, part), 0.0) + self._now - until
            self._now = until

    def _device(self, lane: int, head: int, stop: int) -> tuple[int, int, int] | None:
        """Back through the stretch of device work that ``head`` belongs to, of which the rows before ``stop`` are still
        ahead; returns where on a device the path goes on."""
        walk, shift = self._walk(lane), self._lanes[lane].shift
        first = walk.start_of_run(head)
        meeting = self._meeting(lane, first, stop)
        if meeting is not None:
            row, other, other_row, arrival = meeting
            self._busy(lane, row + 1, stop, min(int(walk.events.end[row]) + shift, self._now))
            self._spend(self._lanes[lane].name, TRANSFER, arrival)
            self._ranks += 1
            return other, other_row, other_row
        self._busy(lane, first, stop, int(walk.events.start[first]) + shift)
        if first == 0:
            return None
        thread, launch, dry = walk.launch(first)
        self._spend(self._lanes[lane].name, f"{HOST}: launch", launch + shift)
        return self._host(lane, thread, dry + shift, first)

    def _meeting(self, lane: int, first: int, stop: int) -> tuple[int, int, int, int] | None:
        """The last collective among these rows that waited for another rank, if that brings the path back in time."""
        if lane >= len(self._meetings):
            return None
        found = self._meetings[lane]
        low, high = np.searchsorted(found.row, [first, stop])
        for at in range(int(high) - 1, int(low) - 1, -1):
            if found.arrival[at] < self._now:
                return int(found.row[at]), int(found.slowest[at]), int(found.other[at]), int(found.arrival[at])
        return None

    def _busy(self, lane: int, first: int, stop: int, until: int) -> None:
        """Device time back to ``until``: the categories' shares of it, the rest between the kernels."""
        name, room = self._lanes[lane].name, self._now - until
        if room <= 0:
            return
        for category, ns in self._walk(lane).busy(first, stop, room).items():
            # Whole nanoseconds, so that the cursor stays exact; what rounding leaves lies between the kernels.
            self._spend(name, f"device: {category}", self._now - int(ns))
        self._spend(name, DEVICE_LATENCY, until)

    def _host(self, lane: int, thread: int, dry: int | None, first: int | None) -> tuple[int, int, int] | None:
        """Back on a host thread, over to the processes that it waited for, until a thread that waited for its device.
        ``dry``: when that device ran dry, where the thread launched its event ``first``."""
        while self._now > self._begin:
            shift, walk = self._lanes[lane].shift, self._lanes[lane].walk
            since = None if walk is None else walk.waited(thread, self._now - shift)
            back = None if since is None else since + shift
            if back is None and dry is not None:
                back = dry
            row = self._received[lane].last(thread, self._now)
            message = self._received[lane]
            if row is not None and message.sent[row] < self._now and (back is None or message.end[row] > back):
                self._host_time(lane, thread, int(message.end[row]))
                self._spend(self._lanes[lane].name, HANDOVER, int(message.sent[row]))
                lane, thread, dry, first = int(message.sender[row]), int(message.sending[row]), None, None
                self._processes += 1
                continue
            if walk is None:
                self._host_time(lane, thread, self._begin_of(lane))
                return None
            if back is None:
                back = walk.dry(self._now - shift) + shift
            self._host_time(lane, thread, max(back, self._begin_of(lane)))
            before = walk.before(self._now - shift)
            before = before if first is None or before < first else first - 1
            return None if before < 0 else (lane, before, before + 1)
        return None

    def _begin_of(self, lane: int) -> int:
        return int(self._lanes[lane].trace.events.start.min()) + self._lanes[lane].shift

    def _host_time(self, lane: int, thread: int, until: int) -> None:
        """Host time of a thread back to ``until``, by what it did."""
        name, shift = self._lanes[lane].name, self._lanes[lane].shift
        until = max(until, self._begin)
        if until >= self._now:
            return
        if lane not in self._activity:
            self._activity[lane] = HostActivity(self._lanes[lane].trace)
        for phase, ns in self._activity[lane].cover(thread, until - shift, self._now - shift):
            self._spend(name, f"{HOST}: {phase}", self._now - ns)
        self._spend(name, f"{HOST}: not marked", until)
