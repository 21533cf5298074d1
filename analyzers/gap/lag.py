"""Whose work a step's elapsed time is, where the host runs ahead of the device."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from profiler.analyzers.gap.load import Load
from profiler.analyzers.gap.shape import ENOUGH_STEPS, fit
from profiler.model.requests import Floats


def attributed(load: Load, seconds: Floats) -> tuple[Floats, bool]:
    """(each step's own seconds, whether the engine schedules asynchronously).

    With asynchronous scheduling an iteration's elapsed time covers the device's previous step, so times are shifted by
    one step where that leaves a clearly smaller residual. Where the host is slower than the device (small models) most
    steps take the host's time and only the longest prefills the device's: then just these are shifted.
    """
    if len(seconds) < ENOUGH_STEPS:
        return seconds, False
    later = np.append(seconds[1:], seconds[-1])
    residuals = [np.abs(s - fit(load, s, hinge=0.0).seconds(load)) for s in (seconds, later)]
    if residuals[1].sum() < 0.9 * residuals[0].sum():
        return later, True
    long = load.prefill_tokens >= 0.5 * load.prefill_tokens.max(initial=0.0)
    long[-1] = False
    if not long.any() or long.mean() > _MOSTLY or not (load.prefill_tokens > 0).any():
        return seconds, False
    around = long | np.append(False, long[:-1])
    shows = residuals[1][around].sum() < 0.5 * residuals[0][around].sum()
    return (_shifted(seconds, long), True) if shows or _held_up(load, seconds, long) else (seconds, False)


def _held_up(load: Load, seconds: Floats, long: NDArray[np.bool_]) -> bool:
    """Whether steps that only decode take a multiple of their usual time right behind a long prefill."""
    decoding = (load.prefill_tokens == 0) & (load.decode > 0)
    behind = decoding & np.append(False, long[:-1])
    usual = decoding & ~behind
    return bool(behind.any() and usual.any() and np.median(seconds[behind]) > _HELD_UP * np.median(seconds[usual]))


def ahead_of_prefills(load: Load) -> NDArray[np.bool_]:
    """Steps before one that starts to prefill: where the host runs ahead, what the prefill's launches take shows in the
    step before it, whose device time they cover, and lacks in the prefill's own."""
    prefills = load.prefill_tokens > 0
    found: NDArray[np.bool_] = np.append(~prefills[:-1] & prefills[1:], False)
    return found


# How many times its usual length a step takes that waited for a prefill.
_HELD_UP: Final = 3.0
# Long prefills are the exception where they can show a lag that the other steps don't.
_MOSTLY: Final = 0.2


def _shifted(seconds: Floats, rows: NDArray[np.bool_]) -> Floats:
    """Each run of ``rows`` takes its times from one step later; the first of them goes to the step behind the run."""
    found = seconds.copy()
    edges = np.diff(np.concatenate([[False], rows, [False]]).astype(np.int8))
    for begin, end in zip(np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist(), strict=True):
        found[begin:end] = seconds[begin + 1 : end + 1]
        found[end] = seconds[begin]
    return found
