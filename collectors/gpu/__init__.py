"""Device counters over time, one file a tool."""

from __future__ import annotations

from typing import Final

# Places, see profiler.store.formats.
FORMATS: Final = ("nvidia_smi.FORMAT", "dcgm_exporter.FORMAT", "dcgm_dmon.FORMAT", "aiperf_telemetry.FORMAT")
