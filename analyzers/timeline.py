"""Exact accounting of a device's window: every nanosecond belongs to exactly one owner.

Where several kernels of the first tier (compute) overlap, the instant is shared equally among them; communication owns
an instant only where no compute runs, a copy only where neither does. The shares of all events therefore add up to
the union of their intervals, whatever overlaps (Blackwell overlaps kernels on one stream, so sums of durations don't).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profiler.model.requests import Floats, Ints

COMPUTE: Final = 0
COMMUNICATION: Final = 1
COPY: Final = 2
TIERS: Final = (COMPUTE, COMMUNICATION, COPY)
# Sums of double-precision shares may be off by this much.
ROUNDING: Final = 1e-9


@dataclass(frozen=True)
class Sweep:
    """``share`` is each event's part of the busy time (ns, adds up to ``busy``); ``gap_start``/``gap_end`` bound the
    idle intervals between the first start and the last end, in order."""

    share: Floats
    busy: int
    window: int
    gap_start: Ints
    gap_end: Ints


def sweep(start: Ints, end: Ints, tier: NDArray[np.int8]) -> Sweep:
    """Account for the window of the given events. Times are integer nanoseconds; columns of one length n >= 1.

    Where the device was idle nothing reaches from before to after: long windows are gone through piece by piece, which
    takes less memory and, with columns that stay in the processor's cache, half the time.
    """
    bounds = [*_idle_rows(start, end), len(start)]
    share = np.zeros(len(start))
    busy, last = 0, int(start[0])
    gap_start, gap_end = list[Ints](), list[Ints]()
    for at, until in pairwise(bounds):
        piece = _piece(start[at:until], end[at:until], tier[at:until], share[at:until])
        if at:
            gap_start.append(np.array([last]))
            gap_end.append(np.array([piece.first]))
        gap_start.append(piece.gap_start)
        gap_end.append(piece.gap_end)
        busy, last = busy + piece.busy, piece.last
    begins, ends = np.concatenate(gap_start), np.concatenate(gap_end)
    # A zero-length event splits a gap in two; the pieces are one gap.
    apart = begins[1:] != ends[:-1]
    whole = np.concatenate([[True], apart, [True]]) if len(begins) else np.zeros(1, bool)
    return Sweep(
        share=share,
        busy=busy,
        window=last - int(start.min()),
        gap_start=begins[whole[:-1]],
        gap_end=ends[whole[1:]],
    )


# Events that are accounted for together, or some more, up to where the device was idle.
_BLOCK: Final = 1 << 18


def _idle_rows(start: Ints, end: Ints) -> list[int]:
    """The first row, and about one in ``_BLOCK`` of those before whose start all earlier events had ended."""
    if len(start) <= _BLOCK or (start[1:] < start[:-1]).any():
        return [0]
    found, latest = [0], int(end[0])
    for at in range(0, len(start), _BLOCK):
        ends = np.maximum.accumulate(np.concatenate([[latest], end[at : at + _BLOCK]]))
        idle = start[at : at + _BLOCK] > ends[:-1]
        first = int(idle.argmax())
        if at and idle[first]:
            found.append(at + first)
        latest = int(ends[-1])
    return found


@dataclass(frozen=True)
class _Piece:
    """The first and the last instant, the busy nanoseconds between them, and the idle intervals."""

    first: int
    last: int
    busy: int
    gap_start: Ints
    gap_end: Ints


def _piece(start: Ints, end: Ints, tier: NDArray[np.int8], share: Floats) -> _Piece:
    """Account for events that none outside of them overlaps; each one's part goes to ``share``."""
    # Starts come sorted and ends nearly so: a sort that merges runs hardly has to do anything.
    instants = np.concatenate([start, end])
    instants.sort(kind="stable")
    instants = instants[np.concatenate([[True], instants[1:] != instants[:-1]])]
    first, last = np.searchsorted(instants, start), np.searchsorted(instants, end)
    length = np.diff(instants)
    free = np.ones(len(length), bool)
    for level in TIERS:
        rows = np.flatnonzero(tier == level)
        if not len(rows):
            continue
        active = np.bincount(first[rows], minlength=len(instants))
        active -= np.bincount(last[rows], minlength=len(instants))
        active = np.cumsum(active, out=active)[:-1]
        integral = np.zeros(len(instants))
        np.divide(length, active, out=integral[1:], where=free & (active > 0))
        np.cumsum(integral, out=integral)
        share[rows] = integral[last[rows]] - integral[first[rows]]
        free &= active == 0
    idle = np.flatnonzero(free)
    joined = np.flatnonzero(np.diff(idle, prepend=-2) != 1)
    ends = np.append(joined[1:] - 1, len(idle) - 1) if len(idle) else joined
    return _Piece(
        first=int(instants[0]),
        last=int(instants[-1]),
        busy=int(length[~free].sum()),
        gap_start=instants[idle[joined]] if len(idle) else np.zeros(0, np.int64),
        gap_end=instants[idle[ends] + 1] if len(idle) else np.zeros(0, np.int64),
    )


def whole_nanoseconds(parts: Mapping[str, float], total: int) -> dict[str, int]:
    """Parts rounded to integers that add up to ``total`` exactly (largest remainder).

    Raises ValueError where more than rounding would have to be spread over them: then something was counted twice.
    """
    floors = {name: int(np.floor(value + 1e-6)) for name, value in parts.items()}
    left = total - sum(floors.values())
    if abs(left) > len(parts) + total * ROUNDING:
        raise ValueError(f"parts of {sum(parts.values()):.0f} ns do not add up to {total} ns")
    order = sorted(parts, key=lambda name: (floors[name] - parts[name], name))
    step = 1 if left > 0 else -1
    for i in range(abs(left)):
        floors[order[i % len(order)] if step > 0 else order[-1 - i % len(order)]] += step
    return floors
