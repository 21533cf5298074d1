"""The rows of one of rocprofv3's CSV files. Imported only where one is read, for polars takes long to load."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from profiler.collectors.bounded_text import whole_bytes
from profiler.collectors.csv_table import integers, read_table
from profiler.collectors.rocprof.names import copy_name
from profiler.collectors.trace_rows import TraceRows
from profiler.model.extension import Source
from profiler.model.problem import Problem
from profiler.model.requests import Ints
from profiler.model.trace import NO_ID, Kind

# The column that says what a file's rows are.
KINDS: Final = (
    ("Kernel_Name", Kind.KERNEL),
    ("Direction", Kind.MEMCPY),
    ("Function", Kind.LAUNCH),
)
ADVICE: Final = "Export it again with rocprofv3 -f csv"
LARGEST: Final = 2 << 30
# Calls of the same capture lie within a minute of its kernels.
NEAR_NS: Final = 60_000_000_000


def add_rows(assembly: TraceRows, source: Source, span: tuple[int, int] | None) -> tuple[int, int] | None:
    """Add a file's rows; returns their first and last instant. Where ``span`` is given and the file's time lies
    elsewhere, it is of another capture and left out."""
    text = whole_bytes(source, LARGEST)
    if source.broken:
        assembly.problems.append(Problem(source.name, "error", f"{source.broken}; what came before was kept"))
    frame = read_table(text, source, ADVICE)
    kind = next((kind for key, kind in KINDS if key in frame.columns), None)
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
