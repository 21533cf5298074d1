"""torch-profiler (Kineto) traces: plain, gzip or zstd; an object or a bare array; one file a process."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from profiler.collectors.torch_trace.chunks import Piece, ReadAhead, array_ends, pieces
from profiler.collectors.torch_trace.columns import ABSOLUTE_US, Columns
from profiler.collectors.torch_trace.decode import Damage, decode, decode_tail, frame
from profiler.collectors.torch_trace.messages import by_correlation, group_size
from profiler.collectors.torch_trace.scan import Scanned, scan
from profiler.collectors.trace_labels import label
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem, Severity
from profiler.model.run import Reading
from profiler.model.trace import DeviceInfo, Kind, Trace
from profiler.store.growing import in_blocks

_KINETO: Final = re.compile(
    rb'"(?:deviceProperties|schemaVersion|baseTimeNanoseconds|distributedInfo)"\s*:'
    rb'|"cat"\s*:\s*"(?:kernel|Kernel|cpu_op|Operator|cuda_runtime|cuda_driver|gpu_memcpy|gpu_memset|user_annotation'
    rb'|gpu_user_annotation|python_function|ac2g)"'
)
_EVENTS: Final = re.compile(rb'"traceEvents"\s*:')
RANK_IN_NAME: Final = re.compile(r"(?:^|[_.\-/])(?:rank[_\-]?|TP-)(\d+)(?=[_.\-/]|$)")

# Each holds a piece and its columns in memory; the rest of the work leaves no more to do for further ones.
MOST_THREADS: Final = 4

# What each kind of damage means for the numbers, and what to do about it.
_DAMAGE: Final[Mapping[str, tuple[Severity, str]]] = {
    "lost": ("error", "events could not be decoded and were left out; export the trace again if they matter"),
    "cut": ("error", "the file ends inside the event list; all complete events were kept; copy the whole file"),
    "unread": ("error", "no event has come for 256 MiB; the rest of the file was not read. Export the trace again"),
    "top-level keys": ("warning", "the keys beside traceEvents could not be decoded; device names may be missing"),
    "further event list": ("warning", "the file holds a second traceEvents list, which was left out"),
    "bad UTF-8": ("info", "bytes in names are not UTF-8 and were replaced"),
    "control characters": ("info", "control characters in names were replaced by spaces"),
    "NaN or Infinity": ("info", "values that are not numbers were read as missing"),
    "without a time": ("warning", "events have no usable duration or time stamp and were left out"),
    "negative duration": ("warning", "events end before they start and were left out"),
    "zero time stamp": ("warning", "device events have time stamp and duration 0 and were left out of the timeline"),
    "duration above a week": ("warning", "events last longer than a week, which no trace does, and were left out"),
}


class TorchTrace:
    """The format; ``read`` returns one ``Trace``."""

    name = "torch-profiler trace"
    version = 3

    def sniff(self, head: bytes, name: str) -> float:
        """Certain where Kineto's own keys or categories occur; weak where only the file name says so."""
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        if start not in (b"{", b"["):
            return 0.0
        if _KINETO.search(head) and (_EVENTS.search(head) or b'"ph"' in head or b'"deviceProperties"' in head):
            return 0.95
        return 0.5 if ".pt.trace.json" in name else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One trace. Raises BadInput where the file holds no event list at all."""
        damage = Damage()
        columns = Columns(damage)
        before = after = b""
        has_events = False
        with source.open() as stream, ReadAhead(stream) as ahead:
            for piece, scanned in _scanned(pieces(ahead)):
                if piece.kind == "header":
                    before = piece.data
                elif piece.kind == "events":
                    has_events = True
                    if scanned is None:
                        columns.add(*decode(piece.data, piece.offset, damage), piece.offset)
                    else:
                        columns.add_scanned(scanned, piece.offset)
                elif piece.kind == "unread":
                    damage.add("unread", piece.offset)
                else:
                    has_events = True
                    after = _tail(piece, columns, damage)
        if not has_events:
            raise BadInput(
                source.name,
                "no traceEvents list was found, where a torch-profiler trace has one",
                "Check that the file is a complete Chrome trace (export_chrome_trace or tensorboard_trace_handler)",
            )
        keys = frame(before, after, damage)
        if "traceEvents" in keys:
            damage.add("further event list", 0)
        trace = _trace(source.name, columns, keys)
        problems = tuple(_problems(source, damage, columns, trace))
        facts = _facts(source.name, keys, engines)
        return Reading(traces=(label(trace, engines),), facts=facts, problems=problems)


def _scanned(found: Iterator[Piece]) -> Iterator[tuple[Piece, Scanned | None]]:
    """Every piece with what the scanner makes of its events, in the file's order.

    Pieces are scanned side by side while the file is read (and unpacked) on. Each is scanned on its own, so the outcome
    is the same on any number of cores.
    """
    threads = min(len(os.sched_getaffinity(0)), MOST_THREADS)
    waiting: deque[tuple[Piece, Future[Scanned | None] | None]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for piece in found:
            waiting.append((piece, pool.submit(scan, piece.data) if piece.kind == "events" else None))
            if len(waiting) > threads:
                first, future = waiting.popleft()
                yield first, None if future is None else future.result()
        for rest, future in waiting:
            yield rest, None if future is None else future.result()


def _tail(piece: Piece, columns: Columns, damage: Damage) -> bytes:
    """Add the last piece's events; returns what follows the list's closing bracket."""
    for end, after in array_ends(piece.data, limit=3):
        scanned = scan(piece.data[:end])
        if scanned is not None:
            columns.add_scanned(scanned, piece.offset)
            return piece.data[after:]
    events, times, rest = decode_tail(piece.data, piece.offset, damage)
    columns.add(events, times, piece.offset)
    return rest


def _trace(name: str, columns: Columns, keys: Mapping[str, object]) -> Trace:
    events = columns.table()
    base = keys.get("baseTimeNanoseconds")
    stated = base if isinstance(base, int) else 0
    # With a stated base the stamps are relative; some writers state one and still write absolute stamps.
    late = sum(int((block.start > ABSOLUTE_US * 1e3).sum()) for block in in_blocks(events))
    absolute = 2 * late > len(events)
    distributed = keys.get("distributedInfo")
    info: Mapping[str, object] = distributed if isinstance(distributed, dict) else {}
    rank = _integer(info.get("rank"))
    if rank is None and (match := RANK_IN_NAME.search(name)):
        rank = int(match.group(1))
    simple = {k: str(v) for k, v in keys.items() if isinstance(v, str | int | float) and k not in _PRIVATE}
    return Trace(
        path=name,
        events=events,
        names=tuple(columns.names),
        processes=columns.process_titles(),
        threads=columns.thread_titles(),
        base=0 if absolute else stated,
        rank=rank,
        world_size=_integer(info.get("world_size")),
        devices=tuple(_devices(keys)),
        metadata=simple,
        messages=by_correlation(events, columns.messages, group_size(info.get("pg_config"))),
    )


# Top-level keys that name people, hosts or paths.
_PRIVATE: Final = frozenset({"username", "host_name", "traceName"})


def _devices(keys: Mapping[str, object]) -> list[DeviceInfo]:
    properties = keys.get("deviceProperties")
    # Traces from MI300X can leave the device's name empty; the runtime's version keys still tell the vendor.
    vendor = "amd" if any(k.startswith(("hip_", "roctracer")) for k in keys) else None
    vendor = "nvidia" if any(k.startswith(("cuda_", "cupti")) for k in keys) else vendor
    found = []
    for entry in properties if isinstance(properties, list) else []:
        if isinstance(entry, dict):
            title, index = entry.get("name"), _integer(entry.get("id"))
            memory = _integer(entry.get("totalGlobalMem"))
            found.append(DeviceInfo(-1 if index is None else index, str(title) if title else None, memory, vendor))
    return found


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _facts(name: str, keys: Mapping[str, object], engines: Sequence[Engine]) -> dict[str, Fact[object]]:
    facts: dict[str, Fact[object]] = {}
    for engine in engines:
        for key, meaning in engine.trace_keys.items():
            value = keys.get(key)
            if isinstance(value, str) and value:
                facts["engine.name"] = Fact(engine.name, f"{name} ({key})")
                facts[meaning] = Fact(value, f"{name} ({key})")
    devices = [d for d in _devices(keys) if d.name]
    if devices:
        facts["hardware.gpu"] = Fact(devices[0].name, f"{name} (deviceProperties)")
    return facts


def _problems(source: Source, damage: Damage, columns: Columns, trace: Trace) -> list[Problem]:
    found = []
    if source.broken:
        found.append(Problem(source.name, "error", f"{source.broken}; what came before was kept. Copy the file again"))
    for kind, count in damage.counts.items():
        severity, meaning = _DAMAGE[kind]
        place = f"byte {damage.first[kind]:,} of the decompressed text"
        found.append(Problem(source.name, severity, f"{count:,} × {kind}: {meaning}", place, count))
    unpaired = columns.phases["B"] + columns.phases["E"]
    if unpaired:
        detail = f"{unpaired:,} begin/end events were left out: the torch profiler writes complete events only"
        found.append(Problem(source.name, "warning", detail, count=unpaired))
    kinds = trace.events.kind
    if len(kinds) == 0:
        found.append(Problem(source.name, "error", "no complete event was found in the trace"))
    elif kinds.min() > Kind.MEMSET:
        detail = "no GPU activity was captured: this says nothing about whether a GPU was idle"
        found.append(Problem(source.name, "info", detail))
    return found


FORMAT: Final = TorchTrace()
