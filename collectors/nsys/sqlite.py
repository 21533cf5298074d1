"""Nsight Systems exports (``nsys export --type sqlite``), 2020 to 2026: one trace a process that used a GPU.

Tables and columns come and go between versions and captures, so only what exists is selected. Times are nanoseconds
from the session's start. Process and thread are packed into one number: hardware << 56 | VM << 48 | pid << 24 | tid.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profiler.collectors.database import BATCH, DAMAGED, MAGIC, MISSING, Tables, damage, opened
from profiler.collectors.nsys.graph_nodes import GraphNodes
from profiler.collectors.nsys.nccl_payloads import CALLS as COLLECTIVES
from profiler.collectors.nsys.nccl_payloads import NcclPayloads
from profiler.collectors.trace_labels import label
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.requests import Ints
from profiler.model.run import Reading
from profiler.model.trace import NO_ID, DeviceInfo, EventTable, Kind, Trace
from profiler.store.growing import GrowingEvents

THREAD_BITS: Final = 0xFFFFFF
KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
FILLS: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
CALLS: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
GRAPHS: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
RANGES: Final = "NVTX_EVENTS"
# NVTX event types that are ranges: push/pop and start/end; the others are marks, names and categories.
RANGE_TYPES: Final = (59, 60, 70, 71)
COPY_NAMES: Final = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}
LONGEST_NS: Final = 7 * 86_400 * 1_000_000_000
_FARTHEST_NS: Final = 2**61
OPAQUE_GRAPH: Final = "CUDA Graph replay (opaque)"
_DEVICE_COLUMNS: Final = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "graphNodeId")


class NsysSqlite:
    """The format; see ``profiler.model.extension.Format``."""

    name = "nsys_sqlite"
    version = 4

    def sniff(self, head: bytes, name: str) -> float:
        """A SQLite file whose schema names Nsight's tables (the schema's text lies in the first pages)."""
        if not head.startswith(MAGIC):
            return 0.0
        if b"CUPTI_ACTIVITY_KIND" in head or b"META_DATA_EXPORT" in head or b"StringIds" in head:
            return 0.98
        return 0.75 if "nsys" in name.lower() else 0.3

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """All processes with device work. Raises BadInput where the file is no readable export."""
        try:
            with opened(source) as database:
                if not database.tables & {KERNELS, "META_DATA_EXPORT", RANGES, CALLS, GRAPHS}:
                    advice = "Name an export of Nsight Systems (nsys export --type sqlite report.nsys-rep)"
                    raise BadInput(source.name, "a SQLite file without any of Nsight's tables", advice)
                return read_tables(database, source.name, engines)
        except DAMAGED as error:
            advice = "Export the report again: nsys export --type sqlite report.nsys-rep"
            raise BadInput(source.name, f"the SQLite file is damaged: {damage(error)}", advice) from error


def read_tables(database: Tables, name: str, engines: Sequence[Engine]) -> Reading:
    """One trace a process with device work, from an export's tables however they are stored."""
    problems: list[Problem] = []
    strings = _Strings(database)
    events = _Collected(strings)
    for table, kind, named in (
        (KERNELS, Kind.KERNEL, strings.kernel_names),
        (COPIES, Kind.MEMCPY, strings.copy_names),
        (FILLS, Kind.MEMSET, strings.fill_names),
        (GRAPHS, Kind.KERNEL, strings.graph_names),
    ):
        replays = _device_events(database, table, kind, named, events, problems, name)
    working = sorted(events.of)
    for table, kind, named in (
        (CALLS, Kind.LAUNCH, strings.call_names),
        (RANGES, Kind.ANNOTATION, strings.range_names),
    ):
        _host_events(database, table, kind, named, events, problems, name)
    _check_graphs(database, replays, problems, name)
    if not working:
        detail = "no GPU activity in this capture (a client or another process was profiled?): this is not an idle GPU"
        problems.append(Problem(name, "warning", detail))
    _lost(database, problems, name)
    names = strings.names(events.used)
    started = database.integers("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))["utcEpochNs"]
    base = int(started[0]) if len(started) and started[0] > 0 else 0
    devices = _Devices(database)
    nodes = GraphNodes(database)
    payloads = NcclPayloads(database, strings.ids_of(COLLECTIVES))
    problems.extend(payloads.problems(name))
    metadata = _metadata(database)
    traces = []
    for rank, owner in enumerate(working or sorted(events.of)[:1]):
        pid = (owner >> 24) & THREAD_BITS
        joined = events.of[owner].table()
        trace = Trace(
            path=name if len(working) <= 1 else f"{name} (pid {pid})",
            events=joined,
            names=names,
            processes=(f"{pid} {strings.processes.get(owner, '')}".strip(),),
            threads=strings.threads(),
            base=base,
            rank=rank if len(working) > 1 else None,
            devices=devices.of(pid),
            metadata=metadata,
            messages=payloads.messages(joined, owner, strings.threads_seen),
            captured=nodes.captured(joined, owner, strings.threads_seen, problems, name),
        )
        traces.append(label(trace, engines))
    facts: dict[str, Fact[object]] = {}
    known = [d.name for trace in traces for d in trace.devices if d.name]
    if known:
        facts["hardware.gpu"] = Fact(known[0], f"{name} (TARGET_INFO_GPU)")
    return Reading(traces=tuple(traces), facts=facts, problems=tuple(problems))


class _Collected:
    """Events by the process that they belong to, and which names they have."""

    def __init__(self, strings: _Strings) -> None:
        self.of: dict[int, GrowingEvents] = {}
        self.used = np.zeros(0, bool)
        self._strings = strings

    def add(self, events: EventTable, owners: Ints, *, only: Container[int] | None = None) -> None:
        """Append events to those of their owners; with ``only`` to these owners' alone."""
        self.used = np.pad(self.used, (0, self._strings.count - len(self.used)))
        self.used[events.name] = True
        # Most captures are of one process: finding that out takes a hundredth of sorting.
        if len(owners) and (owners == owners[0]).all():
            parts: Mapping[int, NDArray[np.bool_] | None] = {int(owners[0]): None}
        else:
            parts = {owner: owners == owner for owner in np.unique(owners).tolist()}
        for owner, rows in parts.items():
            if only is None or owner in only:
                self.of.setdefault(owner, GrowingEvents()).append(events, rows)


def _timed(start: Ints, end: Ints) -> NDArray[np.bool_]:
    """Which rows end after they start, within a week."""
    near = len(start) and min(start.min(), end.min()) > -_FARTHEST_NS and max(start.max(), end.max()) < _FARTHEST_NS
    # Differences of what lies further apart may overflow.
    if near:
        duration = end - start
    else:
        sound = (start > -_FARTHEST_NS) & (start < _FARTHEST_NS) & (end > -_FARTHEST_NS) & (end < _FARTHEST_NS)
        duration = np.where(sound, end - start, -1)
    timed: NDArray[np.bool_] = (duration >= 0) & (duration < LONGEST_NS)
    return timed


def _left_out(rows: int, table: str, problems: list[Problem], path: str) -> None:
    if rows:
        detail = f"{rows:,} rows of {table} have no time stamps that can be true and were left out"
        problems.append(Problem(path, "warning", detail, table, rows))


def _device_events(
    database: Tables,
    table: str,
    kind: Kind,
    names: NameReader,
    collected: _Collected,
    problems: list[Problem],
    path: str,
) -> int:
    """Collect a table's events; returns how many there are."""
    found = left_out = 0

    def take(columns: Mapping[str, Ints], codes: NDArray[np.int32], texts: list[str]) -> None:
        nonlocal found, left_out
        # Where start and end are 0 the device gave no time stamp; it must not set the start of the trace.
        timed = _timed(columns["start"], columns["end"]) & ~((columns["start"] == 0) & (columns["end"] == 0))
        left_out += int((~timed).sum())
        found += int(timed.sum())
        rows = columns if timed.all() else {key: value[timed] for key, value in columns.items()}
        nothing = np.zeros(len(rows["start"]), np.int32)
        events = EventTable(
            kind=np.full(len(nothing), kind, np.uint8),
            name=names.read(rows),
            start=rows["start"],
            duration=rows["end"] - rows["start"],
            process=nothing,
            thread=nothing,
            correlation=rows["correlationId"],
            device=rows["deviceId"].astype(np.int32),
            stream=rows["streamId"].astype(np.int32),
            size=rows["bytes"],
            graph_node=np.where(rows["graphNodeId"] > 0, rows["graphNodeId"], NO_ID),
        )
        collected.add(events, np.maximum(rows["globalPid"], 0))

    database.each(table, (*_DEVICE_COLUMNS, "bytes", *names.columns), take)
    _left_out(left_out, table, problems, path)
    return found


def _host_events(
    database: Tables,
    table: str,
    kind: Kind,
    names: NameReader,
    collected: _Collected,
    problems: list[Problem],
    path: str,
) -> None:
    """Collect a table's events of the processes with device work; of all of them where none has any."""
    working = frozenset(collected.of) or None
    open_ended = left_out = 0

    def take(columns: Mapping[str, Ints], codes: NDArray[np.int32], texts: list[str]) -> None:
        nonlocal open_ended, left_out
        chosen = np.ones(len(columns["start"]), bool)
        if kind == Kind.ANNOTATION:
            chosen &= np.isin(columns["eventType"], RANGE_TYPES)
            unfinished = chosen & (columns["end"] == MISSING)
            open_ended += int(unfinished.sum())
            chosen &= ~unfinished
        timed = _timed(columns["start"], columns["end"])
        left_out += int((chosen & ~timed).sum())
        chosen &= timed
        inline = names.strings.inline_codes(codes, texts)[chosen]
        rows = columns if chosen.all() else {key: value[chosen] for key, value in columns.items()}
        none = np.full(len(rows["start"]), NO_ID, np.int64)
        events = EventTable(
            kind=np.full(len(none), kind, np.uint8),
            name=np.where(inline >= 0, inline, names.read(rows)).astype(np.int32),
            start=rows["start"],
            duration=rows["end"] - rows["start"],
            process=np.zeros(len(none), np.int32),
            thread=names.strings.thread_codes(rows["globalTid"]),
            correlation=rows["correlationId"],
            device=none.astype(np.int32),
            stream=none.astype(np.int32),
            size=none,
            graph_node=none,
        )
        collected.add(events, np.maximum(rows["globalTid"], 0) & ~np.int64(THREAD_BITS), only=working)

    # Most captures write the text of a range in its row; registered strings are the reverse.
    text = "text" if kind == Kind.ANNOTATION else ""
    database.each(table, ("start", "end", "globalTid", "correlationId", "eventType", *names.columns), take, text)
    if open_ended:
        detail = f"{open_ended:,} NVTX ranges never end in the capture and were left out"
        problems.append(Problem(path, "info", detail, count=open_ended))
    _left_out(left_out, table, problems, path)


class NameReader:
    """How a table's rows get their names: which columns it takes, and their codes in the trace's list of names."""

    def __init__(
        self, strings: _Strings, columns: tuple[str, ...], fixed: Mapping[int, str] | str | None = None
    ) -> None:
        self.strings, self.columns = strings, columns
        self._fixed = strings.code(fixed) if isinstance(fixed, str) else fixed

    def read(self, columns: Mapping[str, Ints]) -> NDArray[np.int32]:
        """Codes of the rows' names."""
        rows = len(columns["start"])
        if isinstance(self._fixed, int):
            return np.full(rows, self._fixed, np.int32)
        if self._fixed is not None:
            kinds, position = np.unique(columns[self.columns[0]], return_inverse=True)
            copies = [self.strings.code(f"[CUDA memcpy {self._fixed.get(k, 'Unknown')}]") for k in kinds.tolist()]
            return np.array(copies or [0], np.int32)[position]
        ids = np.full(rows, MISSING, np.int64)
        for column in reversed(self.columns):
            ids = np.where(columns[column] >= 0, columns[column], ids)
        return self.strings.codes_of(ids)


class _Strings:
    """Names as codes: registered strings (StringIds), inline ones, and fixed ones for copies and graphs."""

    def __init__(self, database: Tables) -> None:
        self._database = database
        ids = database.integers("StringIds", ("id",))["id"]
        values = database.texts("StringIds", "value")
        order = np.argsort(ids, kind="stable")
        self._ids = ids[order]
        self._codes: dict[str, int] = {"": 0}
        self._inline = np.full(1, MISSING, np.int64)
        self._of_id = np.array([self.code(_plain(values[i])) for i in order.tolist()] or [0], np.int32)
        # Codes by the id itself, where ids are counted up as Nsight does; the last place is that of MISSING.
        self._dense: NDArray[np.int32] | None = None
        counted = len(ids) > 0 and bool(self._ids[0] >= 0 and (np.diff(self._ids) > 0).all())
        if counted and self._ids[-1] < 4 * len(ids) + BATCH:
            self._dense = np.zeros(int(self._ids[-1]) + 2, np.int32)
            self._dense[self._ids] = self._of_id
        self.threads_seen: dict[int, int] = {0: 0}
        names = database.integers("ThreadNames", ("nameId", "globalTid"))
        self._thread_names = dict(
            zip(names["globalTid"].tolist(), self.codes_of(names["nameId"]).tolist(), strict=True)
        )
        self.processes = {
            int(key): value
            for key, value in database.pairs("PROCESSES", "globalPid", "name")
            if key.lstrip("-").isdigit()
        }
        self.kernel_names = NameReader(self, ("demangledName", "shortName", "mangledName"))
        self.copy_names = NameReader(self, ("copyKind",), COPY_NAMES)
        self.fill_names = NameReader(self, (), "[CUDA memset]")
        self.graph_names = NameReader(self, (), OPAQUE_GRAPH)
        self.call_names = NameReader(self, ("nameId",))
        self.range_names = NameReader(self, ("textId",))

    @property
    def count(self) -> int:
        """Codes given out so far."""
        return len(self._codes)

    def code(self, text: str) -> int:
        return self._codes.setdefault(text, len(self._codes))

    def codes_of(self, ids: Ints) -> NDArray[np.int32]:
        if not len(self._ids):
            return np.zeros(len(ids), np.int32)
        if self._dense is not None and len(ids) and ids.min() >= MISSING and ids.max() < len(self._dense):
            return self._dense[ids]
        at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        return np.where(self._ids[at] == ids, self._of_id[at], 0).astype(np.int32)

    def ids_of(self, texts: Iterable[str]) -> dict[int, str]:
        """The registered strings with one of these texts, by id."""
        codes = {self._codes[text]: text for text in texts if text in self._codes}
        rows = np.flatnonzero(np.isin(self._of_id, list(codes))) if len(self._ids) else np.zeros(0, np.int64)
        return {int(self._ids[row]): codes[int(self._of_id[row])] for row in rows.tolist()}

    def inline_codes(self, codes: NDArray[np.int32], texts: Sequence[str]) -> Ints:
        """Codes of texts that stand in a table's rows; ``texts`` grows from call to call."""
        new = [self.code(text) for text in texts[len(self._inline) - 1 :]]
        if new:
            self._inline = np.array([*self._inline[:-1], *new, MISSING], np.int64)
        return self._inline[codes]

    def thread_codes(self, global_tid: Ints) -> NDArray[np.int32]:
        found, position = np.unique(global_tid, return_inverse=True)
        codes = [self.threads_seen.setdefault(tid, len(self.threads_seen)) for tid in found.tolist()]
        return np.array(codes or [0], np.int32)[position]

    def names(self, used: NDArray[np.bool_]) -> tuple[str, ...]:
        """Every code's text; those that no event has are left empty, as captures register the environment too."""
        kept = np.pad(used, (0, self.count - len(used))).tolist()
        return tuple(text if have else "" for text, have in zip(self._codes, kept, strict=True))

    def threads(self) -> tuple[str, ...]:
        names = tuple(self._codes)
        return tuple(
            f"{tid & THREAD_BITS} {names[self._thread_names.get(tid, 0)]}".strip() for tid in self.threads_seen
        )


def _plain(name: str) -> str:
    """An API name without its version suffix: cudaLaunchKernel_v7000."""
    head, mark, version = name.rpartition("_v")
    return head if mark and version.isdigit() and len(version) >= 4 else name


def _check_graphs(database: Tables, count: int, problems: list[Problem], name: str) -> None:
    mode = dict(database.pairs("META_DATA_CAPTURE", "name", "value")).get("CUDA_GRAPH_TRACE_OPTIONS:MODE", "")
    if count:
        detail = (
            f"{count:,} CUDA Graph replays were captured as one row each: the kernels inside them are not known, so no "
            "kernel-level claim is made. Capture again with --cuda-graph-trace=node"
        )
        problems.append(Problem(name, "warning", detail, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", count))
    elif mode.lower() == "graph":
        problems.append(Problem(name, "info", "graphs were to be captured as one row each, and none was replayed"))


def _lost(database: Tables, problems: list[Problem], name: str) -> None:
    severities = database.integers("DIAGNOSTIC_EVENT", ("severity",))["severity"]
    # Severity 2 is a warning and 3 an error in Nsight's ENUM_DIAGNOSTIC_SEVERITY_LEVEL.
    serious = int((severities >= 3).sum())
    if serious:
        detail = (
            f"Nsight Systems reported {serious} errors while capturing (table DIAGNOSTIC_EVENT): events may be lost"
        )
        problems.append(Problem(name, "warning", detail, "DIAGNOSTIC_EVENT", serious))


def _metadata(database: Tables) -> dict[str, str]:
    """Versions and graph mode; the capture's table also holds the whole environment, which is never read out."""
    wanted = ("EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION", "CUDA_GRAPH_TRACE_OPTIONS:MODE")
    rows = database.pairs("META_DATA_EXPORT", "name", "value") + database.pairs("META_DATA_CAPTURE", "name", "value")
    return {key: value for key, value in rows if key in wanted}


class _Devices:
    """Devices by process: a kernel's deviceId is the process's own CUDA ordinal, mapped by (pid, cudaId) to a GPU."""

    def __init__(self, database: Tables) -> None:
        gpu = database.integers("TARGET_INFO_GPU", ("id", "totalMemory"))
        names = database.texts("TARGET_INFO_GPU", "name")
        self._names = dict(zip(gpu["id"].tolist(), names, strict=True))
        self._memory = dict(zip(gpu["id"].tolist(), gpu["totalMemory"].tolist(), strict=True))
        self._map = database.integers("TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId", "pid"))

    def of(self, pid: int) -> tuple[DeviceInfo, ...]:
        rows = list(zip(*(self._map[key].tolist() for key in ("pid", "cudaId", "gpuId")), strict=True))
        pairs = [(cuda, gpu) for owner, cuda, gpu in rows if owner == pid] or [(gpu, gpu) for gpu in self._names]
        return tuple(
            DeviceInfo(cuda, self._names.get(gpu) or None, self._memory.get(gpu), "nvidia") for cuda, gpu in pairs
        )


FORMAT: Final = NsysSqlite()
