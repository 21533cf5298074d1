"""Call stacks of host processes, one file a tool's format."""

from __future__ import annotations

from typing import Final

from profiler.collectors.host import collapsed, memray_csv, memray_stats, perf_script, pyspy_chrometrace, speedscope
from profiler.model.extension import Format

FORMATS: Final[tuple[Format, ...]] = (
    collapsed.FORMAT,
    speedscope.FORMAT,
    perf_script.FORMAT,
    pyspy_chrometrace.FORMAT,
    memray_stats.FORMAT,
    memray_csv.FORMAT,
)
