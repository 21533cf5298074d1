"""Reading rocprof output: CSV and JSON of rocprofv3, rocpd databases, its summaries, and what came before it."""

from __future__ import annotations

from typing import Final

# Places, see profiler.store.formats.
FORMATS: Final = (
    "csv_trace.FORMAT",
    "json_trace.FORMAT",
    "rocpd.FORMAT",
    "stats.FORMAT",
    "older.V1",
    "older.V2",
)
