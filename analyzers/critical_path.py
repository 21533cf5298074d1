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

from profiler.analyzers.idle import HostActivity, effective_launch, synchronising
from profiler.analyzers.kernels import Classified
from profiler.analyzers.timeline import Sweep
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


def critical_path(
    trace: Trace, events: EventTable, links: Launched, classes: Classified, swept: Sweep
) -> CriticalPath | None:
    """The path through one device's events, sorted by start. None where no launch is known."""
    if not len(links.calls) or not len(events):
        return None
    categories = len(classes.categories)
    code = classes.code[events.name]
    passed = np.zeros((categories, len(events) + 1))
    for i in range(categories):
        np.cumsum(np.where(code == i, swept.share, 0.0), out=passed[i, 1:])
    walk = _Walk(trace, events, links, passed)
    spent: dict[str, float] = {}
    crossings = 0
    row, until = len(events) - 1, int(events.end.max())
    while row >= 0:
        first = walk.start_of_run(row)
        begin = int(events.start[first])
        busy = walk.busy(first, row, until)
        for category, ns in zip(classes.categories, busy.tolist(), strict=True):
            _add(spent, f"device: {category}", ns)
        _add(spent, DEVICE_LATENCY, until - begin - float(busy.sum()))
        if first == 0:
            break
        crossings += 1
        waited, phases = walk.host(first, begin)
        for phase, ns in phases.items():
            _add(spent, f"{HOST}: {phase}", ns)
        row, until = walk.before(waited), waited
    total = sum(spent.values())
    ordered = sorted(spent.items(), key=lambda item: (-item[1], item[0]))
    return CriticalPath({name: ns / 1e9 for name, ns in ordered}, total / 1e9, crossings)


def _add(spent: dict[str, float], name: str, ns: float) -> None:
    if ns > 0:
        spent[name] = spent.get(name, 0.0) + ns


class _Walk:
    """What the walk looks up: which events waited for a launch, and what the launching threads did."""

    def __init__(self, trace: Trace, events: EventTable, links: Launched, passed: Floats) -> None:
        self._events, self._links, self._passed = events, links, passed
        earlier = np.maximum.accumulate(np.concatenate([[np.iinfo(np.int64).min], events.end[:-1]]))
        ready = effective_launch(events, links)
        # The second and later kernels of a replay have the launch of the first: it can't be what they waited for.
        known = links.call >= 0
        _, firsts = np.unique(links.call[known], return_index=True)
        leads = np.zeros(len(events), bool)
        leads[np.flatnonzero(known)[firsts]] = True
        self._earlier = earlier
        self._begin = int(events.start[0])
        self.by_launch = leads & (ready >= earlier)
        self._run = np.maximum.accumulate(np.where(self.by_launch, np.arange(len(events)), 0))
        self._activity = HostActivity(trace)
        waits = synchronising(trace)
        self._waits: dict[int, Ints] = {
            thread: np.sort(waits.end[waits.thread == thread]) for thread in np.unique(waits.thread).tolist()
        }
        order = np.argsort(events.end, kind="stable")
        self._ends, self._by_end = events.end[order], order

    def start_of_run(self, row: int) -> int:
        """The event that began the stretch of device work which ``row`` ends."""
        return int(self._run[row])

    def busy(self, first: int, last: int, until: int) -> Floats:
        """Exclusive ns by category of the events first to last, at most the time until ``until``."""
        spent: Floats = self._passed[:, last + 1] - self._passed[:, first]
        room = until - int(self._events.start[first])
        total = float(spent.sum())
        return spent * (room / total) if total > room > 0 else spent

    def host(self, row: int, begin: int) -> tuple[int, dict[str, float]]:
        """(since when the launching thread is on the path, ns by phase since then): since it last waited for the
        device, or where no such wait is recorded, since the device ran dry."""
        call = int(self._links.call[row])
        launch = min(int(self._links.calls.start[call]), begin)
        thread = int(self._links.calls.thread[call])
        ends = self._waits.get(thread)
        at = -1 if ends is None else int(np.searchsorted(ends, launch, side="right")) - 1
        since = int(self._earlier[row]) if ends is None or at < 0 else max(int(ends[at]), self._begin)
        launch = max(launch, since)
        phases = {"launch": float(begin - launch)}
        covered = self._activity.cover(thread, since, launch)
        for phase, ns in covered:
            phases[phase] = phases.get(phase, 0.0) + ns
        rest = launch - since - sum(ns for _, ns in covered)
        phases["not marked"] = phases.get("not marked", 0.0) + rest
        return since, phases

    def before(self, instant: int) -> int:
        """The last event that had ended by ``instant``; -1 where there is none."""
        at = int(np.searchsorted(self._ends, instant, side="right")) - 1
        return -1 if at < 0 else int(self._by_end[at])
