"""rocprofv3's CSV output, columns of 2024 and 2025 (ROCm 6.2 to 7): one set of files a process.

``kernel_trace.csv`` is the trace; the files of the same prefix beside it (HIP calls, copies, markers, RCCL) are read
with it. Such a file on its own is a trace of what it holds. Times are nanoseconds of a monotonic clock.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from profiler.collectors.trace_labels import label
from profiler.collectors.trace_rows import TraceRows
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.run import Reading
from profiler.store.source import FileSource

# Each marks one kind of rows (see ``csv_rows``).
_MARKS: Final = (b"Kernel_Name", b"Direction", b"Function")
_SUFFIX: Final = re.compile(
    r"(?:kernel|hip|hip_api|hip_runtime|hip_compile|hsa|hsa_api|hsa_core_api|marker|marker_api|rccl|rccl_api"
    r"|memory_copy)_trace\.csv(?:\.gz|\.zst)?$"
)
_COMPANIONS: Final = ("hip_api", "hip_runtime", "hip", "memory_copy", "marker_api", "marker")


class RocprofCsv:
    """The format; see ``profiler.model.extension.Format``."""

    name = "rocprofv3_csv"
    version = 2

    def sniff(self, head: bytes, name: str) -> float:
        """A header with rocprofv3's time stamps and one of the three kinds of rows."""
        header = head.split(b"\n", 1)[0].replace(b'"', b"")
        if b"Start_Timestamp" not in header or b"End_Timestamp" not in header or b"Counter_Name" in header:
            return 0.0
        columns = header.strip().split(b",")
        return 0.97 if any(mark in columns for mark in _MARKS) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One process's trace. Raises BadInput where the file is no table."""
        beside = _beside(source.path)
        if beside is not None:
            detail = f"read together with {beside.name}, which is the trace of the same process"
            return Reading(problems=(Problem(source.name, "info", detail),))
        from profiler.collectors.rocprof.csv_rows import add_rows

        assembly = TraceRows(source.name)
        span = add_rows(assembly, source, None)
        for companion in _companions(source.path):
            add_rows(assembly, FileSource(companion), span)
        match = re.search(r"(\d+)_kernel_trace", source.path.name)
        trace = assembly.trace(match[1] if match else source.path.stem, None)
        return Reading(traces=(label(trace, engines),), problems=tuple(assembly.problems))


def _prefix(path: Path) -> str | None:
    match = _SUFFIX.search(path.name)
    return None if match is None else path.name[: match.start()]


def _beside(path: Path) -> Path | None:
    """The kernel trace that this file belongs to, where it is another file."""
    prefix = _prefix(path)
    if prefix is None or "kernel_trace" in path.name:
        return None
    found = path.with_name(f"{prefix}kernel_trace.csv")
    return found if found.is_file() else None


def _companions(path: Path) -> list[Path]:
    prefix = _prefix(path)
    if prefix is None or "kernel_trace" not in path.name:
        return []
    paths = (path.with_name(f"{prefix}{kind}_trace.csv") for kind in _COMPANIONS)
    return [p for p in paths if p.is_file()]


FORMAT: Final = RocprofCsv()
