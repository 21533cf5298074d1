"""The innermost operator at every instant of a host thread: what a CPU engine's worker computes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from profiler.model.trace import EventTable


class Pieces(NamedTuple):
    """Pieces of operators in the order of their threads, and which of them are the first of their operator: so many
    calls there are of a name (an operator that others cover from end to end has no piece)."""

    events: EventTable
    first: NDArray[np.bool_]


def innermost(operators: EventTable) -> Pieces:
    """Cut nested operators into pieces that don't overlap within a thread; each piece belongs to the innermost one.

    The pieces of an operator carry its row; their durations add up to its self time. An operator that outlasts the
    one around it (traces contain such) is cut at the outer one's end.
    """
    rows: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    order = np.lexsort((-operators.duration, operators.start, operators.thread))
    start_of, end_of, thread_of = operators.start.tolist(), operators.end.tolist(), operators.thread.tolist()
    stack: list[tuple[int, int]] = []  # (row, end), the innermost last
    now, thread = 0, -1

    def piece(row: int, begin: int, end: int) -> None:
        if end > begin:
            rows.append(row)
            starts.append(begin)
            ends.append(end)

    def unwind(until: int | None, now: int) -> int:
        while stack and (until is None or stack[-1][1] <= until):
            row, end = stack.pop()
            piece(row, now, end)
            now = max(now, end)
        return now

    for row in order.tolist():
        start, end = start_of[row], end_of[row]
        if thread_of[row] != thread:
            unwind(None, now)
            now, thread = start, thread_of[row]
        now = unwind(start, now)
        if stack:
            piece(stack[-1][0], now, start)
            end = min(end, stack[-1][1])
        now = max(now, start)
        stack.append((row, end))
    unwind(None, now)
    cut = operators.select(np.array(rows, np.int64))
    begin = np.array(starts, np.int64)
    columns = {field: getattr(cut, field) for field in EventTable.__dataclass_fields__}
    events = EventTable(**(columns | {"start": begin, "duration": np.array(ends, np.int64) - begin}))
    first = np.zeros(len(rows), bool)
    first[np.unique(np.array(rows, np.int64), return_index=True)[1]] = True
    return Pieces(events, first)
