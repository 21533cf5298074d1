"""Samples of devices, one a row, as ``GpuCounters``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from profiler.model.counters import GpuCounters


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """One device at one moment: Hz, watts, 0..1; None where it was not said."""

    gpu: int
    clock: float | None = None
    sm_clock: float | None = None
    max_sm_clock: float | None = None
    power: float | None = None
    utilisation: float | None = None
    throttled: float | None = None


def counters_of(path: str, rows: Sequence[DeviceSample]) -> GpuCounters:
    """The rows as columns, in their order."""

    def column(name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        values = [getattr(row, name) for row in rows]
        return np.array([float("nan") if value is None else value for value in values], np.float64)

    return GpuCounters(
        path=path,
        clock=column("clock"),
        gpu=np.array([row.gpu for row in rows], np.int64),
        sm_clock=column("sm_clock"),
        max_sm_clock=column("max_sm_clock"),
        power=column("power"),
        utilisation=column("utilisation"),
        throttled=column("throttled"),
    )


def scaled(value: float | None, factor: float) -> float | None:
    """The value in our unit, None where there is none."""
    return None if value is None else value * factor
