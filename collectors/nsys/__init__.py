"""Reading Nsight Systems: its exports, its statistics, and its own reports where its exporter is installed."""

from __future__ import annotations

from typing import Final

# Places, see profiler.store.formats.
FORMATS: Final = ("sqlite.FORMAT", "parquet.FORMAT", "stats.FORMAT", "report.FORMAT")
