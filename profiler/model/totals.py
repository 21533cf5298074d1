"""What a tool's summary says of calls by name: how many and how long together, without when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from profiler.model.requests import Ints

What = Literal["kernels", "copies", "device work", "calls", "ranges"]


@dataclass(frozen=True)
class CallTotals:
    """One summary table: row i is everything of the name ``names[i]``; names are distinct.

    ``total`` is the sum of the calls' durations in nanoseconds. Calls overlap (streams, threads, nested ranges), so a
    total is no share of wall time, and where the calls lay is not known: no step, gap or idle time follows from it.
    ``calls``, ``shortest`` and ``longest`` (ns) are -1 where the table does not say.
    """

    path: str
    tool: str
    what: What
    names: tuple[str, ...]
    calls: Ints
    total: Ints
    shortest: Ints
    longest: Ints

    def __len__(self) -> int:
        return len(self.names)
