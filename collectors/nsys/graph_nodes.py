"""Which NVTX ranges were open when a replayed kernel was captured: replays have no host range of their own.

In captures with ``--cuda-graph-trace=node`` a kernel names its node of the instantiated graph (``graphNodeId``).
CUDA_GRAPH_NODE_EVENTS has a row for every node that was created while the profiler ran: when (``start``), on which
thread (``globalTid``), and which node it was cloned from (``originalGraphNodeId``; none in the graph that was
captured). The ranges of that thread that enclose the first node's creation are the modules that it was captured in.
Columns are those of Nsight's documented schema; no public export at hand holds the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from profiler.collectors.database import BATCH, MISSING, Tables
from profiler.model.problem import Problem
from profiler.model.requests import Ints
from profiler.model.trace import DEVICE_KINDS, EventTable, Kind
from profiler.store.growing import in_blocks

NODES: Final = "CUDA_GRAPH_NODE_EVENTS"
_THREAD_BITS: Final = 0xFFFFFF
# A graph is cloned when it is instantiated and when it is nested; further generations are damage.
_GENERATIONS: Final = 8
# Numbers that lie further apart than this many times their count are sorted, not counted.
_SPARSE: Final = 4


class GraphNodes:
    """The creations that an export holds; ``threads`` gives a thread's code in the event table."""

    def __init__(self, database: Tables) -> None:
        rows = database.integers(NODES, ("start", "globalTid", "graphNodeId", "originalGraphNodeId"))
        known = (rows["graphNodeId"] > 0) & (rows["start"] >= 0) & (rows["globalTid"] != MISSING)
        self._rows = {name: column[known] for name, column in rows.items()}
        self.threads: Ints = np.unique(self._rows["globalTid"])

    def captured(
        self, events: EventTable, owner: int, threads: Mapping[int, int], problems: list[Problem], path: str
    ) -> dict[int, tuple[int, ...]]:
        """Node -> names (as the events have them) of the ranges that it was captured in, outermost first.

        ``owner`` is the events' process, ``threads`` the code of each thread in the events. Nodes without a range are
        left out; what does not join becomes a problem.
        """
        nodes = _replayed(events)
        if not len(nodes):
            return {}
        born = self._births(owner)
        joined = [(node, *born[node]) for node in nodes.tolist() if node in born]
        found = _open_ranges(events, [(node, start, threads.get(tid, -1)) for node, start, tid in joined])
        if len(joined) < len(nodes):
            detail = (
                f"{len(nodes) - len(joined):,} of {len(nodes):,} nodes of replayed graphs have no creation in this "
                "capture, so it is not known under which ranges their kernels were captured. Start the server under "
                "nsys, or the capture before its graphs are captured"
            )
            problems.append(Problem(path, "info", detail, NODES, len(nodes) - len(joined)))
        bare = len(joined) - len(found)
        if bare:
            detail = (
                f"{bare:,} of {len(nodes):,} nodes of replayed graphs were captured outside any NVTX range. Switch the "
                "engine's NVTX ranges on before it captures its graphs"
            )
            problems.append(Problem(path, "info", detail, "NVTX_EVENTS", bare))
        return found

    def _births(self, owner: int) -> dict[int, tuple[int, int]]:
        """Node -> (time, thread) of the creation of the first node that it was cloned from; none where a link lacks."""
        mine = (self._rows["globalTid"] & ~np.int64(_THREAD_BITS)) == owner
        columns = [
            self._rows[name][mine].tolist() for name in ("graphNodeId", "originalGraphNodeId", "start", "globalTid")
        ]
        rows: dict[int, tuple[int, int, int]] = {}
        doubtful = set()
        for node, origin, start, thread in zip(*columns, strict=True):
            one = (max(origin, 0), start, thread)
            if rows.setdefault(node, one)[0] != one[0]:
                doubtful.add(node)
        found = {}
        for node in rows:
            at = node
            for _ in range(_GENERATIONS):
                if at not in rows or at in doubtful:
                    break
                origin, start, thread = rows[at]
                if origin in (0, at):
                    found[node] = (start, thread)
                    break
                at = origin
        return found


def _replayed(events: EventTable) -> Ints:
    """The nodes that device events name."""
    named = [np.zeros(0, np.int64)]
    for block in in_blocks(events):
        # A few rows at a time: what is made of them on the way then stays in the processor's cache.
        for at in range(0, len(block), BATCH):
            part = block.select(slice(at, at + BATCH))
            named.append(_different(part.graph_node[(part.graph_node > 0) & part.are(*DEVICE_KINDS)]))
    return np.unique(np.concatenate(named))


def _different(nodes: Ints) -> Ints:
    """Each once. Numbers of one graph lie close together: counting them takes a tenth of sorting."""
    if not len(nodes):
        return nodes
    low, high = int(nodes.min()), int(nodes.max())
    if high - low >= _SPARSE * len(nodes):
        return np.unique(nodes)
    return np.flatnonzero(np.bincount(nodes - low)) + low


def _open_ranges(events: EventTable, births: Sequence[tuple[int, int, int]]) -> dict[int, tuple[int, ...]]:
    """(node, instant, thread code) -> names of the ranges of that thread that hold the instant, outermost first."""
    if not births:
        return {}
    first, last = min(birth[1] for birth in births), max(birth[1] for birth in births)
    threads = np.unique(np.array([birth[2] for birth in births]))
    kept = [
        block.select(
            (block.kind == Kind.ANNOTATION)
            & np.isin(block.thread, threads)
            & (block.start <= last)
            & (block.end >= first)
        )
        for block in in_blocks(events)
    ]
    ranges = sorted(
        (thread, start, -duration, name)
        for part in kept
        for thread, start, duration, name in zip(
            part.thread.tolist(), part.start.tolist(), part.duration.tolist(), part.name.tolist(), strict=True
        )
    )
    found: dict[int, tuple[int, ...]] = {}
    at, on, opened = 0, -1, list[tuple[int, int]]()
    for node, instant, thread in sorted(births, key=lambda birth: (birth[2], birth[1])):
        if thread != on:
            on, opened = thread, []
        while at < len(ranges) and ranges[at][:2] <= (thread, instant):
            if ranges[at][0] == thread:
                opened.append((ranges[at][1] - ranges[at][2], ranges[at][3]))
            at += 1
        opened = [(end, name) for end, name in opened if end >= instant]
        if opened:
            found[node] = tuple(name for _, name in opened)
    return found
