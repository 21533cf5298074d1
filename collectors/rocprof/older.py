"""What rocprof (``results.csv``) and rocprofv2 wrote before rocprofv3: CSV, and rocprofv2's lines on the console.

Times are ns of a monotonic clock. A pass that only collected counters has no times and gives nothing. Read off ROCm's
documentation of 5.3 to 6.3 and rocprofv2's golden traces; these tools name GPUs by number only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from profiler.collectors.json_text import decode
from profiler.collectors.rocprof.names import copy_name, kernel_name
from profiler.collectors.trace_labels import label
from profiler.collectors.trace_rows import TraceRows
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.run import Reading
from profiler.model.trace import NO_ID, Kind

LARGEST: Final = 4 << 30
_V1: Final = re.compile(rb'\A(?:RP[^\n]*\n)*"?Index"?,"?KernelName"?,"?gpu-id"?,')
_V2: Final = re.compile(
    rb"\A\s*(?:Dispatch_ID,GPU_ID,Queue_ID,[^\n]*Kernel_Name,Start_Timestamp,End_Timestamp"
    rb"|Domain,(?:Function|Operation),Kernel_Name,Start_Timestamp,(?:End|Stop)_Timestamp)"
)
_CONSOLE: Final = re.compile(rb"(?m)^(?:Domain\([A-Z_]+\), |Dispatch_ID\(\d+\), GPU_ID\()|\AROCProfilerV2: Collecting")
_FIELD: Final = re.compile(r'(\w+)\((?:"([^"]*)"|([^()]*))\)')
_EMPTY_LINES: Final = re.compile(rb"\n(?:[ \t\r]*\n)+")
# Headings of one thing in the three outputs.
_START: Final = ("BeginNs", "Start_Timestamp", "Begin_Timestamp")
_END: Final = ("EndNs", "End_Timestamp", "Stop_Timestamp")
_PROCESS: Final = ("pid", "PID", "Process_ID")
_THREAD: Final = ("tid", "TID", "Thread_ID")
_GPU: Final = ("gpu-id", "GPU_ID")
_QUEUE: Final = ("queue-id", "Queue_ID")
_KERNEL: Final = ("KernelName", "Kernel_Name")
_OPERATION: Final = ("Operation", "Operation_Name")


@dataclass(frozen=True, slots=True)
class _Event:
    kind: Kind
    name: str
    start: int
    end: int
    correlation: int
    gpu: int
    queue: int
    thread: str


class _Older:
    """What both formats share: rows of named fields -> one trace a process."""

    version = 1
    name: str

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One trace a process. Raises BadInput where the file is no table."""
        with source.open() as stream:
            text = stream.read(LARGEST)
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", f"{source.broken}; what came before was kept"))
        processes: dict[str, list[_Event]] = {}
        untimed = unused = 0
        for fields in self.rows(text, source):
            start, end = _whole(_first(fields, _START)), _whole(_first(fields, _END))
            if start < 0 or end < 0:
                untimed, unused = untimed + ("Timestamp" not in fields), unused + ("Timestamp" in fields)
                continue
            processes.setdefault(_first(fields, _PROCESS), []).append(_event(fields, start, end))
        if untimed:
            detail = "a row has no time stamps (a pass that only collects counters has none) and was left out"
            problems.append(Problem(source.name, "warning", detail, count=untimed))
        if unused:
            detail = "a ROCTX mark is one instant, of which range is not said, and was left out"
            problems.append(Problem(source.name, "info", detail, count=unused))
        traces = []
        for rank, (process, events) in enumerate(processes.items()):
            path = source.name if len(processes) == 1 else f"{source.name} (pid {process})"
            rows = TraceRows(path)
            for kind in (Kind.KERNEL, Kind.MEMCPY, Kind.LAUNCH):
                _add(rows, kind, [event for event in events if event.kind == kind])
            problems += rows.problems
            traces.append(label(rows.trace(process, rank if len(processes) > 1 else None), engines))
        if not traces and not problems:
            problems.append(Problem(source.name, "info", "the profiler recorded no call and no kernel"))
        return Reading(traces=tuple(traces), problems=tuple(problems))

    def rows(self, text: bytes, source: Source) -> Iterator[dict[str, str]]:
        """Fields of each row by their names in the file."""
        # polars takes long to load, and most runs hold no such file.
        from profiler.collectors.csv_table import read_table, texts

        table = read_table(_EMPTY_LINES.sub(b"\n", text.lstrip()), source, f"Write it again with {self.name}")
        if not any(key in table.columns for key in (*_KERNEL, *_OPERATION, "Function")):
            raise BadInput(source.name, "a table without kernels or calls", f"Write it again with {self.name}")
        columns = [texts(table, column) for column in table.columns]
        for cells in zip(*columns, strict=True):
            yield dict(zip(table.columns, cells, strict=True))


class RocprofV1(_Older):
    """``results.csv`` of rocprof, and of rocprofv2's file plugin version 1; see ``profiler.model.extension.Format``."""

    name = "rocprof"

    def sniff(self, head: bytes, name: str) -> float:
        """By the first three headings."""
        return 0.95 if _V1.search(head) else 0.0

    def rows(self, text: bytes, source: Source) -> Iterator[dict[str, str]]:
        """Rows of the table behind the lines of the launching script."""
        begin = re.search(rb'(?m)^"?Index"?,', text)
        return super().rows(text[begin.start() :] if begin else text, source)


class RocprofV2(_Older):
    """rocprofv2's CSV files, and what it prints; see ``profiler.model.extension.Format``."""

    name = "rocprofv2"

    def sniff(self, head: bytes, name: str) -> float:
        """By the headings of its tables or the form of its lines."""
        return 0.98 if _V2.search(head) else 0.9 if _CONSOLE.search(head[:16384]) else 0.0

    def rows(self, text: bytes, source: Source) -> Iterator[dict[str, str]]:
        """Rows of the table, or lines of ``Field(value), Field(value)``; other lines are the program's own."""
        if _V2.search(text):
            yield from super().rows(text, source)
            return
        if not _CONSOLE.search(text):
            raise BadInput(source.name, "neither a table nor a line of rocprofv2", "Write it again with rocprofv2")
        for line in decode(text).splitlines():
            if line.startswith(("Domain(", "Dispatch_ID(")):
                yield {name: quoted or plain for name, quoted, plain in _FIELD.findall(line[:65536])}


def _event(fields: dict[str, str], start: int, end: int) -> _Event:
    kernel, operation = _first(fields, _KERNEL), _first(fields, _OPERATION)
    call = fields.get("Function", "")
    if call:
        kind, name = Kind.LAUNCH, call
    elif kernel:
        kind, name = Kind.KERNEL, kernel_name(kernel)
    else:
        # Operations of a device without a kernel's name are copies, of which the direction is not said.
        kind, name = (Kind.MEMCPY, copy_name("")) if "COPY" in operation.upper() else (Kind.KERNEL, operation)
    tied = "Domain" in fields
    return _Event(
        kind, name, start, end,
        correlation=_whole(_first(fields, ("Correlation_ID",))) if tied else NO_ID,
        gpu=_whole(_first(fields, _GPU)),
        queue=_whole(_first(fields, _QUEUE)),
        thread=_first(fields, _THREAD),
    )  # fmt: skip


def _add(rows: TraceRows, kind: Kind, events: Sequence[_Event]) -> None:
    if not events:
        return
    start, end, correlation, gpu, queue = (
        np.array([getattr(event, field) for event in events], np.int64)
        for field in ("start", "end", "correlation", "gpu", "queue")
    )
    threads = [event.thread for event in events]
    rows.add(kind, [event.name for event in events], start, end, correlation, gpu, queue, threads, "rows")


def _first(fields: dict[str, str], names: Sequence[str]) -> str:
    return next((fields[name].strip() for name in names if fields.get(name)), "")


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 19 else NO_ID


V1: Final = RocprofV1()
V2: Final = RocprofV2()
