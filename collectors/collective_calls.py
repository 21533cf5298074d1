"""Which kernels a collective's message is of: those of the launch calls inside the host range that states it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from profiler.model.requests import Ints
from profiler.model.trace import NO_ID, EventTable, Kind, Message


def messages_of_calls(
    events: EventTable, start: Ints, end: Ints, thread: NDArray[np.int32], stated: Callable[[int], Message]
) -> dict[int, Message]:
    """The message behind each correlation: that of the innermost range around its launch call on the same thread.

    ``start``, ``end`` (ns) and ``thread`` (as the events have it) are the ranges'; ``stated`` gives the message of the
    range at a place.
    """
    known: dict[int, Message] = {}
    calls = events.of(Kind.LAUNCH)
    calls = calls.select(calls.correlation != NO_ID)
    calls = calls.select(np.lexsort((calls.start, calls.thread)))
    first, last = np.zeros(len(start), np.int64), np.zeros(len(start), np.int64)
    for one in np.unique(thread).tolist():
        low, high = np.searchsorted(calls.thread, [one, one + 1])
        mine = thread == one
        first[mine] = low + np.searchsorted(calls.start[low:high], start[mine])
        last[mine] = low + np.searchsorted(calls.start[low:high], end[mine])
    # From the outermost range to the innermost, which overrides it.
    order = np.lexsort((start - end, start))
    correlations = calls.correlation.tolist()
    for i in order[(last > first)[order]].tolist():
        message = stated(i)
        for correlation in correlations[int(first[i]) : int(last[i])]:
            outer = known.get(correlation)
            # An annotation states its inputs only; the operator around it also what comes out.
            whole = outer is not None and outer.received != NO_ID and outer.operation == message.operation
            if not whole or message.received != NO_ID:
                known[correlation] = message
    return known
