"""What ``nsys stats`` prints, CSV, JSON or drawn: tables of single events become a trace, summaries totals by name.

``cuda_gpu_trace`` lists kernels, copies and fills with their times; ``cuda_api_trace`` and ``nvtx_pushpop_trace`` of
the same report, in one file or beside it, give their launches and ranges.
A table of GPU work names no process, and a correlation is unique only within one: where several processes made calls
the launches are not tied to the kernels. Headings of 2020 to 2026 (``gputrace``, ``gpukernsum`` before 2023).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profiler.collectors.call_totals import TotalRow, totals_of
from profiler.collectors.json_text import decode
from profiler.collectors.nsys.stats_tables import StatsTable, is_drawn, is_heading, tables, ungrouped
from profiler.collectors.trace_labels import label
from profiler.collectors.trace_rows import TraceRows
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.requests import Ints
from profiler.model.run import Reading
from profiler.model.totals import CallTotals, What
from profiler.model.trace import NO_ID, DeviceInfo, Kind, Trace
from profiler.store.source import FileSource

TOOL: Final = "nsys stats"
LARGEST: Final = 4 << 30
_GPU: Final = ("cuda_gpu_trace", "gputrace")
_BESIDE: Final = ("cuda_api_trace", "cudaapitrace", "nvtx_pushpop_trace", "nvtxpptrace")
_FILE: Final = re.compile(rf"_({'|'.join((*_GPU, *_BESIDE))})(\.(?:csv|json))$")
_JSON: Final = re.compile(r'\A(?:[^\[\n]*\n)*[ \t]*\[\s*\{\s*"[^"]+"\s*:')
_JSON_KEYS: Final = re.compile(r'"(?:Total Time|Start) ?\((?:ns|us|μs|ms|s)(?:ec)?\)"\s*:')
_DEVICE: Final = re.compile(r"([^()]*)\((\d{1,9})\)")
# Of NVTX ranges: the time in them on the host, or what of it their work took on the GPU.
_TOTALS: Final = frozenset({"Total Time", "Total Proj Time"})
# Heading of the names -> what the rows are, in the order in which they are looked for.
_NAMES: Final[tuple[tuple[str, What], ...]] = (
    ("Kernel Name", "kernels"),
    ("Range", "ranges"),
    ("Operation", "copies"),
    ("Name", "kernels"),
)


class NsysStats:
    """The format; see ``profiler.model.extension.Format``."""

    name = "nsys_stats"
    version = 2

    def sniff(self, head: bytes, name: str) -> float:
        """By the headings of a report, in the first lines or as keys of the first record."""
        text = decode(head[:8192])
        if _JSON.match(text):
            return 0.93 if _JSON_KEYS.search(text) else 0.0
        if any(is_heading(_cells(line)) for line in text.splitlines()[:40]):
            return 0.93
        # The profiled program's own output may precede what `nsys profile --stats=true` draws.
        return 0.93 if is_drawn(decode(head)) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """The trace of the single events, if there are any, and a table of totals for each summary."""
        main = _stands_for(source.path)
        if main is not None:
            detail = f"read together with {main.name}, which holds the GPU's side of the same report"
            return Reading(problems=(Problem(source.name, "info", detail),))
        problems: list[Problem] = []
        found = _tables(source, problems)
        if not found:
            advice = "Write it again: nsys stats --format csv --report cuda_gpu_trace,cuda_gpu_kern_sum report.nsys-rep"
            raise BadInput(source.name, "no table of nsys stats found", advice)
        for path in _companions(source.path):
            found += _tables(FileSource(path), problems)
        totals: list[CallTotals] = []
        events: list[StatsTable] = []
        for table in found:
            if {"Start", "Duration"} <= set(table.columns) and "Name" in table.columns:
                events.append(table)
            elif _TOTALS & set(table.columns) and (summary := _summary(table, source.name, problems)) is not None:
                totals.append(summary)
            else:
                detail = f"a table of {', '.join(table.columns[:3])}, … holds no times of calls and was not used"
                problems.append(Problem(source.name, "info", detail, f"line {table.line}"))
        trace = _trace(events, source.name, problems) if events else None
        facts: dict[str, Fact[object]] = {}
        if trace is not None and trace.devices and trace.devices[0].name:
            facts["hardware.gpu"] = Fact(trace.devices[0].name, f"{source.name}: column Device")
        traces = () if trace is None else (label(trace, engines),)
        return Reading(traces=traces, totals=tuple(totals), facts=facts, problems=tuple(problems))


def _cells(line: str) -> list[str]:
    return next(csv.reader([line]), []) if line.strip() else []


def _tables(source: Source, problems: list[Problem]) -> list[StatsTable]:
    with source.open() as stream:
        text = decode(stream.read(LARGEST))
    if source.broken:
        problems.append(Problem(source.name, "error", f"{source.broken}; what came before was kept"))
    found = tables(text)
    for table in found:
        if table.ragged:
            detail = "a line breaks off or has other columns than its heading and was left out"
            problems.append(Problem(source.name, "warning", detail, f"table at line {table.line}", table.ragged))
        if table.cut:
            detail = (
                "a name is cut off, as in every table that nsys draws, and names that begin alike are added up: write "
                "whole ones with `nsys stats --format csv`"
            )
            problems.append(Problem(source.name, "info", detail, f"table at line {table.line}", table.cut))
    return found


def _stands_for(path: Path) -> Path | None:
    """The table of GPU work of the same report, where this is another of its tables."""
    match = _FILE.search(path.name)
    if match is None or match[1] in _GPU:
        return None
    beside = (path.with_name(f"{path.name[: match.start()]}_{kind}{match[2]}") for kind in _GPU)
    return next((file for file in beside if file.is_file()), None)


def _companions(path: Path) -> list[Path]:
    match = _FILE.search(path.name)
    if match is None or match[1] not in _GPU:
        return []
    beside = (path.with_name(f"{path.name[: match.start()]}_{kind}{match[2]}") for kind in _BESIDE)
    return [file for file in beside if file.is_file()]


def _summary(table: StatsTable, path: str, problems: list[Problem]) -> CallTotals | None:
    """A ``…_sum`` report, or None where its rows have no name."""
    column, what = next(((name, what) for name, what in _NAMES if name in table.columns), (None, None))
    if column is None or what is None:
        return None
    if column == "Name" and {"Num Calls", "Calls"} & set(table.columns):
        what = "calls"
    elif column == "Name" and "Operations" in table.columns:
        what = "copies"
    elif column == "Operation" and "Category" in table.columns:
        what = "device work"
    rows: list[TotalRow] = []
    bad = 0
    projected = "Proj " if "Total Proj Time" in table.columns else ""
    counts = table.whole("Kern Inst", "Instances", "Range Instances", "Num Calls", "Calls", "Count", "Operations")
    shortest, longest = (table.times(_headed(table, f"{projected}{end}")) for end in ("Min", "Max"))
    columns = (table.cells(column), counts, table.times(f"Total {projected}Time"), shortest, longest)
    for name, calls, total, least, most in zip(*columns, strict=True):
        if total is None or not name:
            bad += 1
        else:
            rows.append(TotalRow(_plain(name), calls, total, least, most))
    if bad:
        detail = "a row has no name or no total that can be true and was left out"
        problems.append(Problem(path, "warning", detail, f"table at line {table.line}", bad))
    return totals_of(path, f"{TOOL} {table.report}".strip(), what, rows)


def _headed(table: StatsTable, start: str) -> str:
    """``Min`` is ``Minimum`` until 2022."""
    return next((name for name in table.columns if name in (start, f"{start}imum")), start)


def _plain(name: str) -> str:
    """A range without the colon that stands for the default domain."""
    return name.removeprefix(":")


def _trace(found: Sequence[StatsTable], path: str, problems: list[Problem]) -> Trace:
    rows = TraceRows(path)
    devices: dict[int, str] = {}
    callers: dict[int, set[str]] = {}
    for table in found:
        if _kind(table) == "calls":
            for call, process in zip(table.whole("CorrID", "CorrId"), table.cells("Pid", "PID"), strict=True):
                callers.setdefault(NO_ID if call is None else call, set()).add(process)
    shared = len(set().union(*callers.values())) > 1 if callers else False
    if shared:
        detail = "calls of several processes, and the table of GPU work names none: launches were not tied to kernels"
        problems.append(Problem(path, "warning", detail))
    for table in found:
        names = [_plain(name) for name in table.cells("Name")]
        start, end = _instants(table)
        ids, size, stream = _column(table.whole("CorrId", "CorrID")), _bytes(table), _column(table.whole("Strm"))
        device = _devices(table, devices)
        owners = zip(table.cells("Pid", "PID"), table.cells("Tid", "TID"), strict=True)
        threads = [f"{process} {thread}".strip() for process, thread in owners]
        for kind, chosen in _parts(table):
            tied = None if shared or kind == Kind.ANNOTATION else ids[chosen]
            rows.add(kind, _pick(names, chosen), start[chosen], end[chosen], tied, device[chosen], stream[chosen],
                     _pick(threads, chosen), "rows", size[chosen])  # fmt: skip
    problems += rows.problems
    known = [DeviceInfo(index, name, None, "nvidia") for index, name in sorted(devices.items())]
    return rows.trace("", None, known)


def _kind(table: StatsTable) -> str:
    if "Device" in table.columns or "Strm" in table.columns:
        return "gpu"
    if "CorrID" in table.columns:
        return "calls"
    return "ranges" if "End" in table.columns else "gpu"


def _parts(table: StatsTable) -> Iterator[tuple[Kind, NDArray[np.int64]]]:
    """Which rows of the table are events of which kind: copies and fills are told by the names that nsys gives them."""
    if (kind := _kind(table)) != "gpu":
        yield Kind.LAUNCH if kind == "calls" else Kind.ANNOTATION, np.arange(len(table.rows))
        return
    names = table.cells("Name")
    copy = np.array([name.startswith("[CUDA memcpy") for name in names], bool)
    fill = np.array([name.startswith("[CUDA memset") for name in names], bool)
    for kind_, mask in ((Kind.KERNEL, ~(copy | fill)), (Kind.MEMCPY, copy), (Kind.MEMSET, fill)):
        yield kind_, np.flatnonzero(mask)


def _instants(table: StatsTable) -> tuple[Ints, Ints]:
    """Starts and ends in ns; a row without them gets times that are left out and counted."""
    pairs = list(zip(table.times("Start"), table.times("Duration"), strict=True))
    start = [0 if s is None else s for s, _ in pairs]
    end = [-1 if s is None or d is None else s + d for s, d in pairs]
    return np.array(start, np.int64), np.array(end, np.int64)


def _column(values: Sequence[int | None]) -> Ints:
    return np.array([NO_ID if value is None else value for value in values], np.int64)


def _bytes(table: StatsTable) -> Ints:
    """Sizes of copies. The table rounds to its unit (MB = 10^6 bytes), so small ones come out inexact."""
    scale = {"B": 1, "byte": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}.get(table.units.get("Bytes", "MB"), 0)
    sizes = []
    for cell in map(ungrouped, table.cells("Bytes")):
        try:
            sizes.append(round(float(cell) * scale) if scale and 0 <= float(cell) < 1e12 else NO_ID)
        except ValueError:
            sizes.append(NO_ID)
    return np.array(sizes, np.int64)


def _devices(table: StatsTable, known: dict[int, str]) -> Ints:
    """Device numbers of ``NVIDIA H100 (0)``; what is not so written is NO_ID."""
    found = []
    for cell in table.cells("Device"):
        match = _DEVICE.fullmatch(cell)
        found.append(int(match[2]) if match else NO_ID)
        if match:
            known.setdefault(int(match[2]), match[1].strip())
    return np.array(found, np.int64)


def _pick(values: Sequence[str], chosen: NDArray[np.int64]) -> list[str]:
    return [values[index] for index in chosen.tolist()]


FORMAT: Final = NsysStats()
