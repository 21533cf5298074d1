"""Call stacks of host processes, one file a tool's format."""

from __future__ import annotations

from typing import Final

# Places, see profiler.store.formats.
FORMATS: Final = (
    "collapsed.FORMAT",
    "speedscope.FORMAT",
    "perf_script.FORMAT",
    "pyspy_chrometrace.FORMAT",
    "memray_stats.FORMAT",
    "memray_csv.FORMAT",
)
