"""Device counters over time, one file a tool."""

from __future__ import annotations

from typing import Final

from profiler.collectors.gpu import aiperf_telemetry, dcgm_dmon, dcgm_exporter, nvidia_smi
from profiler.model.extension import Format

FORMATS: Final[tuple[Format, ...]] = (
    nvidia_smi.FORMAT,
    dcgm_exporter.FORMAT,
    dcgm_dmon.FORMAT,
    aiperf_telemetry.FORMAT,
)
