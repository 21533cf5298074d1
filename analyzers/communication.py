"""Collectives: what compute hides of them, and across ranks what was transfer and what waiting for the slowest.

The ranks of one collective leave it nearly together, whenever each arrived. So the ends of matched collectives align
the ranks' clocks, and within one collective the rank that spent the least time in it arrived last: that time is the
transfer, and what the others spent beyond it is waiting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profiler.analyzers.kernels import COMMUNICATION, Classified
from profiler.analyzers.trace_steps import Launched, Spans
from profiler.model.requests import Floats, Ints
from profiler.model.trace import EventTable, Message, Trace

# Ends of one collective may differ by this much between ranks before it is taken for another one.
SAME_COLLECTIVE_NS: Final = 1_000_000


@dataclass(frozen=True)
class Collectives:
    """The collectives of one device in order of start, columns of one length. Times are ns on the trace's own clock;
    ``exposed`` is what of each no compute hid. ``kernel`` is its kernel's name, ``messages`` what it moves (None: the
    trace does not say), ``tokens`` how many its step computed (0: not known)."""

    kernel: tuple[str, ...]
    start: Ints
    end: Ints
    exposed: Floats
    messages: tuple[Message | None, ...]
    tokens: Ints

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class CollectiveTotal:
    """All calls of one collective kernel on one device; seconds."""

    kernel: str
    calls: int
    seconds: float
    exposed: float

    @property
    def hidden(self) -> float:
        """Seconds under compute."""
        return max(self.seconds - self.exposed, 0.0)


def collective_rows(events: EventTable, classes: Classified) -> NDArray[np.int64]:
    """Which of a device's events are collectives."""
    category = np.array([name == COMMUNICATION for name in classes.categories], bool)
    return np.flatnonzero(category[classes.code[events.name]])


def collectives_of(
    trace: Trace, events: EventTable, classes: Classified, share: Floats, links: Launched, spans: Spans
) -> Collectives:
    """The collectives among the device's events. ``share`` is each event's exclusive part of the busy time, ns."""
    rows = collective_rows(events, classes)
    chosen = events.select(rows)
    tokens = np.array([*(label.computed or 0 for label in spans.labels), 0], np.int64)
    return Collectives(
        kernel=tuple(trace.names[i] for i in chosen.name.tolist()),
        start=chosen.start,
        end=chosen.end,
        exposed=share[rows],
        messages=tuple(map(trace.messages.get, chosen.correlation.tolist())),
        tokens=tokens[links.step[rows]],
    )


def totals_of(collectives: Collectives) -> tuple[CollectiveTotal, ...]:
    """By kernel, the longest first."""
    found: dict[str, list[float]] = {}
    spent = (collectives.end - collectives.start).tolist()
    for kernel, seconds, exposed in zip(collectives.kernel, spent, collectives.exposed.tolist(), strict=True):
        row = found.setdefault(kernel, [0.0, 0.0, 0.0])
        row[0] += 1
        row[1] += seconds / 1e9
        row[2] += exposed / 1e9
    totals = [CollectiveTotal(k, int(n), seconds, exposed) for k, (n, seconds, exposed) in found.items()]
    return tuple(sorted(totals, key=lambda t: (-t.seconds, t.kernel)))


@dataclass(frozen=True)
class RankWait:
    """One rank's part in the matched collectives; seconds. ``offset`` is its clock minus the first rank's; ``last``
    is how often it arrived last, ``kept_waiting`` what the other ranks waited for it then, on average a rank."""

    trace: str
    offset: float
    waiting: float
    transfer: float
    last: int
    kept_waiting: float


@dataclass(frozen=True)
class AcrossRanks:
    """Matched collectives of several ranks. ``spread`` is the median distance of the ranks' ends after alignment,
    seconds: waits below it can't be told from the clocks' error. ``unmatched`` counts those that not every rank has.
    ``rows`` are the matched ones' rows in each rank's table, ``transfer`` the nanoseconds of each."""

    matched: int
    unmatched: int
    spread: float
    ranks: tuple[RankWait, ...]
    rows: tuple[Ints, ...]
    transfer: Ints

    @property
    def straggler(self) -> RankWait | None:
        """The rank that the others waited for longest. None unless it arrived last more often than chance explains
        (three standard deviations) and the waits exceed the clocks' error."""
        slowest = max(self.ranks, key=lambda r: r.kept_waiting)
        chance = self.matched / len(self.ranks)
        often = slowest.last > chance + 3 * (chance * (1 - 1 / len(self.ranks))) ** 0.5
        return slowest if often and slowest.kept_waiting / slowest.last > self.spread else None


def across_ranks(ranks: Sequence[tuple[str, int, Collectives]]) -> AcrossRanks | None:
    """``ranks``: (trace, base in ns since the epoch, its collectives). None for fewer than two ranks or where they
    share no collective."""
    ranks = [rank for rank in ranks if len(rank[2])]
    if len(ranks) < 2:
        return None
    rows = _matched([collectives for _, _, collectives in ranks])
    if not rows[0].size:
        return None
    # Relative to the first rank's base: nanoseconds since the epoch do not fit a double.
    first = ranks[0][1]
    start = np.stack([c.start[r] + (base - first) for (_, base, c), r in zip(ranks, rows, strict=True)])
    end = np.stack([c.end[r] + (base - first) for (_, base, c), r in zip(ranks, rows, strict=True)])
    offset = np.median(end - end[0], axis=1).astype(np.int64)
    start, end = start - offset[:, None], end - offset[:, None]
    together = np.ptp(end, axis=0)
    same = together <= SAME_COLLECTIVE_NS
    if not same.any():
        return None
    spent = (end - start)[:, same]
    transfer = spent.min(axis=0)
    last = spent.argmin(axis=0)
    waits = spent - transfer
    found = []
    for i, (trace, _, _) in enumerate(ranks):
        mine = last == i
        found.append(
            RankWait(
                trace=trace,
                offset=float(offset[i]) / 1e9,
                waiting=float(waits[i].sum()) / 1e9,
                transfer=float(transfer.sum()) / 1e9,
                last=int(mine.sum()),
                kept_waiting=float(waits[:, mine].sum()) / (len(ranks) - 1) / 1e9,
            )
        )
    total = sum(len(c) for _, _, c in ranks)
    return AcrossRanks(
        matched=int(same.sum()),
        unmatched=total - int(same.sum()) * len(ranks),
        spread=float(np.median(together[same])) / 1e9,
        ranks=tuple(found),
        rows=tuple(r[same] for r in rows),
        transfer=transfer,
    )


def _matched(ranks: Sequence[Collectives]) -> list[NDArray[np.int64]]:
    """Rows of each rank's table that are the same collectives, in order: the n-th call of a kernel on every rank."""
    calls = [_calls(collectives) for collectives in ranks]
    shared = set(calls[0]).intersection(*map(set, calls[1:]))
    order = [key for key in calls[0] if key in shared]
    return [np.array([mapping[key] for key in order], np.int64) for mapping in calls]


def _calls(collectives: Collectives) -> Mapping[tuple[str, int], int]:
    seen: dict[str, int] = {}
    found = {}
    for row, kernel in enumerate(collectives.kernel):
        seen[kernel] = seen.get(kernel, -1) + 1
        found[kernel, seen[kernel]] = row
    return found
