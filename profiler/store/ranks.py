"""The traces of a run as ranks of one job: whether all are there, once, and on one clock.

Nothing here changes a number: each trace stands for itself. What can't be said is that one rank waited for another.
"""

from __future__ import annotations

from collections.abc import Sequence

from profiler.model.problem import Problem
from profiler.model.trace import Trace
from profiler.store.growing import in_blocks

NO_COMPARISON = "ranks are not compared with each other"


def rank_problems(traces: Sequence[Trace]) -> tuple[Problem, ...]:
    """Ranks that are there twice, that are missing, and clocks that can't be joined; each with its count."""
    # Processes of one export are numbered by its reader, which says nothing about the job's ranks.
    ranked = [t for t in traces if t.rank is not None and " (pid " not in t.path and len(t.events)]
    if not ranked:
        return ()
    return (*_twice(ranked), *_missing(ranked), *_clocks(ranked))


def _window(trace: Trace) -> tuple[int, int]:
    """First start and last end, nanoseconds since the epoch."""
    bounds = [(int(events.start.min()), int(events.end.max())) for events in in_blocks(trace.events)]
    return trace.base + min(start for start, _ in bounds), trace.base + max(end for _, end in bounds)


def _absolute(trace: Trace) -> bool:
    # Stamps of a clock that counts from boot stay far below a year of nanoseconds since the epoch.
    return _window(trace)[0] > 10**18


def _overlap(one: Trace, two: Trace) -> bool:
    """Whether two traces show the same time; where a clock is not known they may."""
    if not (_absolute(one) and _absolute(two)):
        return True
    (a, b), (c, d) = _window(one), _window(two)
    return a <= d and c <= b


def _twice(traces: Sequence[Trace]) -> list[Problem]:
    found = []
    for at, trace in enumerate(traces):
        others = [t for t in traces[:at] if t.rank == trace.rank]
        copied = [t.path for t in others if len(t.events) == len(trace.events) and _window(t) == _window(trace)]
        # A rank that only the file's name states may be one of a group (tensor parallel) of several.
        same = [t.path for t in others if t.world_size and trace.world_size and _overlap(t, trace)]
        if copied:
            detail = f"is {copied[0]} once more: it was read twice, and {NO_COMPARISON}"
            found.append(Problem(trace.path, "warning", detail, "distributedInfo"))
        elif same:
            detail = (
                f"says that it is rank {trace.rank}, as {same[0]} does for the same time: they are of two jobs or "
                f"replicas, and {NO_COMPARISON}"
            )
            found.append(Problem(trace.path, "info", detail, "distributedInfo"))
    return found


def _missing(traces: Sequence[Trace]) -> list[Problem]:
    sizes = {t.world_size for t in traces if t.world_size}
    if len(sizes) > 1:
        text = ", ".join(str(size) for size in sorted(sizes))
        detail = f"the traces name jobs of {text} ranks: they are of several jobs, and {NO_COMPARISON}"
        return [Problem(traces[0].path, "warning", detail, "distributedInfo", len(sizes))]
    lacking = sorted(set(range(max(sizes, default=0))) - {t.rank for t in traces})
    if not lacking:
        return []
    shown = ", ".join(str(rank) for rank in lacking[:8]) + (", …" if len(lacking) > 8 else "")
    detail = f"{len(lacking)} of {max(sizes)} ranks have no trace here (rank {shown}): what they did is not known"
    return [Problem(traces[0].path, "info", detail, "distributedInfo", len(lacking))]


def _clocks(traces: Sequence[Trace]) -> list[Problem]:
    if len({t.rank for t in traces}) < 2:
        return []
    relative = [t for t in traces if not _absolute(t)]
    if relative and len(relative) < len(traces):
        detail = f"{len(relative)} of {len(traces)} ranks' traces state no time base: {NO_COMPARISON}"
        return [Problem(relative[0].path, "warning", detail, "baseTimeNanoseconds", len(relative))]
    apart = [t for t in traces if not any(t.rank != other.rank and _overlap(t, other) for other in traces)]
    if not apart:
        return []
    detail = (
        f"{len(apart)} of {len(traces)} ranks' traces share no moment with another rank's: their clocks differ or they "
        f"were taken one after the other, and {NO_COMPARISON}"
    )
    return [Problem(apart[0].path, "warning", detail, "baseTimeNanoseconds", len(apart))]
