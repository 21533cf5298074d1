"""Device counters over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from profiler.model.requests import Floats, Ints

# Directions of the links, as a device sees them.
LINKS: Final = ("PCIe sent", "PCIe received", "NVLink sent", "NVLink received")


@dataclass(frozen=True)
class GpuCounters:
    """Samples as columns of one length, NaN where the device does not say.

    ``clock`` is seconds (epoch read as UTC); ``sm_clock`` and ``max_sm_clock`` are Hz, ``power`` watts,
    ``utilisation`` 0..1 ("a kernel was resident", which is not efficiency), ``throttled`` 1 where any clock-event
    reason was active, 0 where none was, NaN where not sampled. ``links`` are bytes/s by direction (LINKS), of those
    that were sampled.
    """

    path: str
    clock: Floats
    gpu: Ints
    sm_clock: Floats
    max_sm_clock: Floats
    power: Floats
    utilisation: Floats
    throttled: Floats
    links: Mapping[str, Floats] = field(default_factory=dict[str, Floats])
