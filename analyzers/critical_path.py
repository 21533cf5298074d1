"""What the time of a recording hangs on: the chain of work, on the host and on the device, that nothing hides.

Walked backwards from the last device event. As long as each event waited for the device's earlier work, the device is
on the path; an event that waited for its launch instead puts the launching thread on it, back to the end of the last
call in which that thread waited for the device, and from there the device again. Where no such call is recorded, only
the device's wait counts as the host's. The kernels of one graph replay are one
node: inside it there is no launch to wait for. Only the processes of this trace can be on the path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from profiler.analyzers.device_view import DeviceView
from profiler.analyzers.idle import HostActivity, effective_launch, synchronising
from profiler.analyzers.kernels import Classified
from profiler.analyzers.trace_steps import Launched
from profiler.model.requests import Floats, Ints
from profiler.model.trace import EventTable, Trace

DEVICE_LATENCY: Final = "device: between kernels"
HOST: Final = "host"


@dataclass(frozen=True)
class CriticalPath:
    """``seconds`` by what was on the path: ``device: <category>`` and ``host: <phase>``; they add up to ``total``, the
    time from the first to the last device event."""

    seconds: Mapping[str, float]
    total: float
    crossings: int  # how often the path went from the device to the host

    @property
    def host_share(self) -> float:
        """The share of the path on the host."""
        host = sum(value for name, value in self.seconds.items() if name.startswith(HOST))
        return host / self.total if self.total else 0.0


def critical_path(view: DeviceView) -> CriticalPath | None:
    """The path through one device's events. None where no launch is known."""
    if not len(view.links.calls) or not len(view.events):
        return None
    walk = Walk.of(view)
    activity = HostActivity(view.trace)
    events = view.events
    spent: dict[str, float] = {}
    crossings = 0
    row, until = len(events) - 1, int(events.end.max())
    while row >= 0:
        first = walk.start_of_run(row)
        begin = int(events.start[first])
        busy = walk.busy(first, row + 1, until - begin)
        for category, ns in busy.items():
            _add(spent, f"device: {category}", ns)
        _add(spent, DEVICE_LATENCY, until - begin - sum(busy.values()))
        if first == 0:
            break
        crossings += 1
        thread, launch, dry = walk.launch(first)
        waited = walk.waited(thread, launch)
        since = dry if waited is None else waited
        launch = max(launch, since)
        _add(spent, f"{HOST}: launch", begin - launch)
        covered = activity.cover(thread, since, launch)
        for phase, ns in covered:
            _add(spent, f"{HOST}: {phase}", ns)
        _add(spent, f"{HOST}: not marked", launch - since - sum(ns for _, ns in covered))
        row, until = min(walk.before(since), first - 1), since
    total = sum(spent.values())
    ordered = sorted(spent.items(), key=lambda item: (-item[1], item[0]))
    return CriticalPath({name: ns / 1e9 for name, ns in ordered}, total / 1e9, crossings)


def _add(spent: dict[str, float], name: str, ns: float) -> None:
    if ns > 0:
        spent[name] = spent.get(name, 0.0) + ns


class Walk:
    """What a walk through one device's events, sorted by start, looks up. Times are the trace's own ns."""

    def __init__(self, trace: Trace, events: EventTable, links: Launched, classes: Classified, share: Floats) -> None:
        self.events = events
        self._links, self._share = links, share
        self._code, self._categories = classes.code[events.name], classes.categories
        earlier = np.maximum.accumulate(np.concatenate([[np.iinfo(np.int64).min], events.end[:-1]]))
        ready = effective_launch(events, links)
        # The second and later kernels of a replay have the launch of the first: it can't be what they waited for.
        known = links.call >= 0
        _, firsts = np.unique(links.call[known], return_index=True)
        leads = np.zeros(len(events), bool)
        leads[np.flatnonzero(known)[firsts]] = True
        self._earlier = earlier
        self._begin = int(events.start[0])
        self._run = np.maximum.accumulate(np.where(leads & (ready >= earlier), np.arange(len(events)), 0))
        waits = synchronising(trace)
        self._waits: dict[int, Ints] = {
            thread: np.sort(waits.end[waits.thread == thread]) for thread in np.unique(waits.thread).tolist()
        }
        order = np.argsort(events.end, kind="stable")
        self._ends, self._by_end = events.end[order], order

    @staticmethod
    def of(view: DeviceView) -> Walk:
        """The walk of one device."""
        return Walk(view.trace, view.events, view.links, view.classes, view.swept.share)

    def start_of_run(self, row: int) -> int:
        """The event that began the stretch of device work which ``row`` belongs to."""
        return int(self._run[row])

    def busy(self, first: int, stop: int, room: int) -> dict[str, float]:
        """Exclusive ns by category of the events from first on, before stop; at most ``room`` in all."""
        spent = np.bincount(self._code[first:stop], self._share[first:stop], minlength=len(self._categories))
        total = float(spent.sum())
        factor = room / total if total > room > 0 else 1.0
        return {name: ns * factor for name, ns in zip(self._categories, spent.tolist(), strict=True) if ns > 0}

    def launch(self, row: int) -> tuple[int, int, int]:
        """(launching thread, when it made the call that ``row`` waited for, when the device had run dry before)."""
        call = int(self._links.call[row])
        begun = min(int(self._links.calls.start[call]), int(self.events.start[row]))
        return int(self._links.calls.thread[call]), begun, int(self._earlier[row])

    def waited(self, thread: int, instant: int) -> int | None:
        """When a thread last came back from waiting for the device; None where no such wait is recorded before."""
        ends = self._waits.get(thread)
        at = -1 if ends is None else int(np.searchsorted(ends, instant, side="right")) - 1
        return None if ends is None or at < 0 else max(int(ends[at]), self._begin)

    def before(self, instant: int) -> int:
        """The last event that had ended by ``instant``; -1 where there is none."""
        at = int(np.searchsorted(self._ends, instant, side="right")) - 1
        return -1 if at < 0 else int(self._by_end[at])

    def dry(self, instant: int) -> int:
        """When the last event that had ended by ``instant`` did; where there is none, the first one's start."""
        row = self.before(instant)
        return self._begin if row < 0 else int(self.events.end[row])
