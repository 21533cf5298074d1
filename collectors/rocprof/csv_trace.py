"""rocprofv3's CSV output, columns of 2024 and 2025 (ROCm 6.2 to 7): one set of files a process.

``kernel_trace.csv`` is the trace; the files of the same prefix beside it (HIP calls, copies, markers, RCCL) are read
with it. Such a file on its own is a trace of what it holds. Times are nanoseconds of a monotonic clock.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from profiler.collectors.bounded_text import whole_bytes
from profiler.collectors.csv_table import integers, read_table
from profiler.collectors.rocprof.names import copy_name
from profiler.collectors.trace_labels import label
from profiler.collectors.trace_rows import TraceRows
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.requests import Ints
from profiler.model.run import Reading
from profiler.model.trace import NO_ID, Kind
from profiler.store.source import FileSource

_KINDS: Final = (
    ("Kernel_Name", Kind.KERNEL),
    ("Direction", Kind.MEMCPY),
    ("Function", Kind.LAUNCH),
)
_SUFFIX: Final = re.compile(
    r"(?:kernel|hip|hip_api|hip_runtime|hip_compile|hsa|hsa_api|hsa_core_api|marker|marker_api|rccl|rccl_api"
    r"|memory_copy)_trace\.csv(?:\.gz|\.zst)?$"
)
_COMPANIONS: Final = ("hip_api", "hip_runtime", "hip", "memory_copy", "marker_api", "marker")
ADVICE: Final = "Export it again with rocprofv3 -f csv"
LARGEST: Final = 2 << 30
# Calls of the same capture lie within a minute of its kernels.
NEAR_NS: Final = 60_000_000_000


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
        return 0.97 if any(key.encode() in columns for key, _ in _KINDS) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One process's trace. Raises BadInput where the file is no table."""
        beside = _beside(source.path)
        if beside is not None:
            detail = f"read together with {beside.name}, which is the trace of the same process"
            return Reading(problems=(Problem(source.name, "info", detail),))
        assembly = TraceRows(source.name)
        span = _add(assembly, source, None)
        for companion in _companions(source.path):
            _add(assembly, FileSource(companion), span)
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


def _add(assembly: TraceRows, source: Source, span: tuple[int, int] | None) -> tuple[int, int] | None:
    """Add a file's rows; returns their first and last instant. Where ``span`` is given and the file's time lies
    elsewhere, it is of another capture and left out."""
    text = whole_bytes(source, LARGEST)
    if source.broken:
        assembly.problems.append(Problem(source.name, "error", f"{source.broken}; what came before was kept"))
    frame = read_table(text, source, ADVICE)
    kind = next((kind for key, kind in _KINDS if key in frame.columns), None)
    if kind is None:
        return None
    start, end = integers(frame, "Start_Timestamp"), integers(frame, "End_Timestamp")
    unknown = int(((start == NO_ID) | (end == NO_ID)).sum())
    if unknown:
        detail = f"{unknown:,} lines break off or hold no time stamps and were left out"
        assembly.problems.append(Problem(source.name, "warning", detail, count=unknown))
        frame = frame.filter(pl.Series((start != NO_ID) & (end != NO_ID)))
        start, end = integers(frame, "Start_Timestamp"), integers(frame, "End_Timestamp")
    if not len(frame):
        return None
    own = int(start.min()), int(end.max())
    if span is not None and (own[0] > span[1] + NEAR_NS or own[1] < span[0] - NEAR_NS):
        detail = f"{source.name} lies beside it but was captured at another time; it was not joined"
        assembly.problems.append(Problem(assembly.path, "warning", detail))
        return None
    thread = frame["Thread_Id"].fill_null("").to_list() if "Thread_Id" in frame.columns else None
    correlation = integers(frame, "Correlation_Id")
    if kind == Kind.KERNEL:
        stream_column = "Stream_Id" if "Stream_Id" in frame.columns else "Queue_Id"
        assembly.add(kind, frame["Kernel_Name"].fill_null("").to_list(), start, end, correlation,
                     _agents(frame, "Agent_Id"), integers(frame, stream_column), None, "kernels")  # fmt: skip
    elif kind == Kind.MEMCPY:
        names = [copy_name(d or "") for d in frame["Direction"].to_list()]
        device = np.maximum(_agents(frame, "Source_Agent_Id"), _agents(frame, "Destination_Agent_Id"))
        assembly.add(kind, names, start, end, correlation, device, integers(frame, "Stream_Id"), None, "copies")
    else:
        domains = frame["Domain"].fill_null("") if "Domain" in frame.columns else pl.Series([""] * len(frame))
        marker = domains.str.starts_with("MARKER").to_numpy()
        names = frame["Function"].fill_null("").to_list()
        for rows, what in ((marker, Kind.ANNOTATION), (~marker, Kind.LAUNCH)):
            chosen = np.flatnonzero(rows)
            if len(chosen):
                threads = None if thread is None else [thread[i] for i in chosen.tolist()]
                ids = correlation[chosen] if what == Kind.LAUNCH else None
                assembly.add(what, [names[i] for i in chosen.tolist()], start[chosen], end[chosen], ids, None, None,
                             threads, "calls")  # fmt: skip
    return own


def _agents(frame: pl.DataFrame, column: str) -> Ints:
    """Agent ids: a number until ROCm 6, ``Agent 4`` since ROCm 7."""
    if column not in frame.columns:
        return np.full(len(frame), NO_ID, np.int64)
    digits = frame[column].str.extract(r"(\d{1,9})\s*$", 1)
    found: Ints = digits.cast(pl.Int64, strict=False).fill_null(NO_ID).to_numpy()
    return found


FORMAT: Final = RocprofCsv()
