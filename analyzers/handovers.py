"""Work handed from one process to another: who ended a process's wait, where both processes have a trace of one clock.

An engine names the ranges in which a process waits for another's message and those that send it. A wait was ended by
the last message that was sent while it lasted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from profiler.model.requests import Ints
from profiler.model.trace import EventTable, Trace

# Clocks that agree show a message in most waits; those that don't, in hardly any.
_SAME_CLOCK: Final = 0.5
# Fewer could be chance.
_FEWEST: Final = 3


class Received:
    """Waits of one process that messages ended, as columns of one length in order of ``end``: common ns, the thread
    that waited, and the lane, thread and end of the sending range."""

    def __init__(self, rows: Sequence[tuple[int, int, int, int, int]]) -> None:
        table = np.array(sorted(rows), np.int64).reshape(-1, 5)
        self.end, thread, self.sender, self.sending, self.sent = (table[:, k] for k in range(5))
        self._rows = {one: np.flatnonzero(thread == one) for one in np.unique(thread).tolist()}

    def __len__(self) -> int:
        return len(self.end)

    def last(self, thread: int, instant: int) -> int | None:
        """The row of the thread's last wait that had ended by ``instant``."""
        rows = self._rows.get(thread)
        at = -1 if rows is None else int(np.searchsorted(self.end[rows], instant, side="right")) - 1
        return None if rows is None or at < 0 else int(rows[at])


def received(traces: Sequence[Trace], shifts: Sequence[int]) -> list[Received]:
    """For each trace, its waits that another trace's message ended. ``shifts`` bring local times to the common clock.

    Nothing is returned for a pair of traces whose clocks don't agree (few waits of one hold a message of the other).
    """
    waits = [_ranges(trace, shift, sends=False) for trace, shift in zip(traces, shifts, strict=True)]
    sends = [_ranges(trace, shift, sends=True) for trace, shift in zip(traces, shifts, strict=True)]
    found = []
    for i, mine in enumerate(waits):
        rows: list[tuple[int, int, int, int, int]] = []
        for link, ranges in mine.items():
            senders = [j for j, theirs in enumerate(sends) if j != i and link in theirs]
            # Of several that send over a link it is not known which one a process listens to.
            if len(senders) == 1:
                j = senders[0]
                rows += _pairs(ranges, sends[j][link], j, _span(traces[j], shifts[j]))
        found.append(Received(rows))
    return found


def _ranges(trace: Trace, shift: int, *, sends: bool) -> dict[str, tuple[EventTable, Ints, Ints]]:
    """By link: the ranges, their starts and ends on the common clock, in order of end."""
    found = {}
    for link in sorted({name for name, sending in trace.handovers.values() if sending == sends}):
        names = [i for i, handover in trace.handovers.items() if handover == (link, sends)]
        rows = trace.events.select(np.isin(trace.events.name, np.array(names, np.int32)))
        rows = rows.select(np.argsort(rows.end, kind="stable"))
        if len(rows):
            found[link] = (rows, rows.start + shift, rows.end + shift)
    return found


def _span(trace: Trace, shift: int) -> tuple[int, int]:
    return int(trace.events.start.min()) + shift, int(trace.events.end.max()) + shift


def _pairs(
    waits: tuple[EventTable, Ints, Ints], sends: tuple[EventTable, Ints, Ints], sender: int, span: tuple[int, int]
) -> list[tuple[int, int, int, int, int]]:
    """(end of the wait, its thread, sender, its thread, end of the sending) of each wait that saw a message sent."""
    (mine, start, end), (theirs, _, sent) = waits, sends
    # Only waits of the time that both traces cover can say anything of the clocks.
    covered = (end > span[0]) & (start < span[1])
    at = np.searchsorted(sent, end, side="left") - 1
    ended = covered & (at >= 0) & (sent[np.maximum(at, 0)] > start)
    if ended.sum() < max(_FEWEST, _SAME_CLOCK * covered.sum()):
        return []
    return [
        (int(end[i]), int(mine.thread[i]), sender, int(theirs.thread[at[i]]), int(sent[at[i]]))
        for i in np.flatnonzero(ended).tolist()
    ]
