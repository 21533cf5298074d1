"""Exact accounting of a device's window: every nanosecond belongs to exactly one owner.

Where several kernels of the first tier (compute) overlap, the instant is shared equally among them; communication owns
an instant only where no compute runs, a copy only where neither does. The shares of all events therefore add up to
the union of their intervals, whatever overlaps (Blackwell overlaps kernels on one stream, so sums of durations don't).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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


def sweep(start: Ints, end: Ints, tier: NDArray[np.int64]) -> Sweep:
    """Account for the window of the given events. Times are integer nanoseconds; columns of one length n >= 1."""
    # Starts come sorted and ends nearly so: a sort that merges runs hardly has to do anything.
    instants = np.sort(np.concatenate([start, end]), kind="stable")
    instants = instants[np.concatenate([[True], instants[1:] != instants[:-1]])]
    first, last = np.searchsorted(instants, start), np.searchsorted(instants, end)
    length = np.diff(instants)
    share = np.zeros(len(start))
    free = np.ones(len(length), bool)
    for level in TIERS:
        rows = tier == level
        if not rows.any():
            continue
        changes = np.bincount(first[rows], minlength=len(instants)) - np.bincount(last[rows], minlength=len(instants))
        active = np.cumsum(changes)[:-1]
        owned = free & (active > 0)
        integral = np.zeros(len(instants))
        np.cumsum(np.where(owned, length / np.maximum(active, 1), 0.0), out=integral[1:])
        share[rows] = integral[last[rows]] - integral[first[rows]]
        free &= active == 0
    gaps = np.flatnonzero(free)
    # A zero-length event splits a gap in two; the pieces are one gap.
    joined = np.flatnonzero(np.diff(gaps, prepend=-2) != 1)
    ends = np.append(joined[1:] - 1, len(gaps) - 1) if len(gaps) else joined
    return Sweep(
        share=share,
        busy=int(length[~free].sum()),
        window=int(instants[-1] - instants[0]),
        gap_start=instants[gaps[joined]] if len(gaps) else np.zeros(0, np.int64),
        gap_end=instants[gaps[ends] + 1] if len(gaps) else np.zeros(0, np.int64),
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
