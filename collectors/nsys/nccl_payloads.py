"""What each collective moves, as NCCL states it in the payloads of its NVTX ranges.

Exports hold payloads only where they were made with ``--include-blobs=true``. NVTX_EVENTS.binaryData is then 32 bytes
(domain, schema, size of the payload, where it ends or begins: four little-endian 64-bit numbers) and the payload, whose
fields NVTX_PAYLOAD_SCHEMA_ENTRIES name, type and place. Of these a real capture's schemas (2 x H100) and NCCL's source
(src/include/nvtx_payload_schemas.h, src/collectives.cc) say the same; the layout of the 32 bytes is as other readers of
such exports have it, for no public file at hand holds a payload. What is not exactly so gives no message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profiler.collectors.collective_calls import messages_of_calls
from profiler.collectors.database import MISSING, Tables
from profiler.model.problem import Problem
from profiler.model.requests import Ints
from profiler.model.trace import NO_ID, EventTable, Message

RANGES: Final = "NVTX_EVENTS"
SCHEMAS: Final = "NVTX_PAYLOAD_SCHEMAS"
ENTRIES: Final = "NVTX_PAYLOAD_SCHEMA_ENTRIES"
PAYLOAD: Final = "binaryData"
_HEADER: Final = 32
_PROCESS: Final = ~np.int64(0xFFFFFF)
# NVTX's types of an entry (nvToolsExtPayload.h), as numpy reads them.
_TYPES: Final = {5: "<i4", 15: "<i4", 16: "<u4", 17: "<i8", 18: "<u8", 22: "<u8"}
# What NCCL calls the fields; older versions call some sizes "Bytes".
_SIZES: Final = ("Message size [bytes]", "Bytes")
_GROUP: Final = "NCCL communicator ID"
_RANKS: Final = "No. of ranks"
# NCCL's functions -> the collective, and what their size is: what a rank puts in, or its part of what all hold.
_WHOLE, _PART_IN, _PART = "whole", "part in", "part"
CALLS: Final[Mapping[str, tuple[str, str]]] = {
    "ncclAllReduce": ("all_reduce", _WHOLE),
    "ncclBroadcast": ("broadcast", _WHOLE),
    "ncclReduce": ("reduce", _WHOLE),
    "ncclSend": ("send_receive", _WHOLE),
    "ncclRecv": ("send_receive", _WHOLE),
    "ncclAllGather": ("all_gather", _PART_IN),
    "ncclGather": ("gather", _PART_IN),
    "ncclReduceScatter": ("reduce_scatter", _PART),
    "ncclAlltoAll": ("all_to_all", _PART),
    "ncclScatter": ("scatter", _PART),
}
# A message is larger than this (bytes) only where a field is misread.
_LARGEST: Final = 1 << 42


@dataclass(frozen=True)
class _Field:
    at: int
    dtype: str


@dataclass(frozen=True)
class _Schema:
    """Bytes of a payload and its fields by name."""

    size: int
    fields: Mapping[str, _Field]

    @property
    def message(self) -> _Field | None:
        """The field of a message's size."""
        return next((self.fields[name] for name in _SIZES if name in self.fields), None)


@dataclass(frozen=True)
class _Stated:
    """Ranges with a payload of one schema, columns of one length: times (ns), thread, name (StringIds), fields."""

    start: Ints
    end: Ints
    thread: Ints
    name: Ints
    size: Ints
    group: NDArray[np.uint64]


class NcclPayloads:
    """The payloads that an export holds; ``names`` are NCCL's functions (``CALLS``) by their ids in StringIds."""

    def __init__(self, database: Tables, names: Mapping[int, str]) -> None:
        self._names = names
        self._schemas = _schemas(database)
        self._stated: list[_Stated] = []
        self._ranks: dict[int, set[int]] = {}
        self._left = 0
        if any(schema.message for schema in self._schemas.values()):
            wanted = ("start", "end", "globalTid", "textId")
            for columns, payloads in database.blobs(RANGES, wanted, PAYLOAD):
                self._take(columns, payloads)

    def messages(self, events: EventTable, owner: int, threads: Mapping[int, int]) -> dict[int, Message]:
        """The message behind each correlation of the process ``owner``, of which ``events`` are; ``threads`` gives a
        thread's code in them."""
        found: list[tuple[int, int, int, Message]] = []
        for part in self._stated:
            mine = np.flatnonzero((part.thread & _PROCESS) == owner)
            for i in mine.tolist():
                message = self._message(part, i, len(found))
                code = threads.get(int(part.thread[i]))
                if message is not None and code is not None:
                    found.append((int(part.start[i]), int(part.end[i]), code, message))
        if not found:
            return {}
        start, end, thread = (np.array([row[i] for row in found], np.int64) for i in range(3))
        return messages_of_calls(events, start, end, thread.astype(np.int32), [row[3] for row in found].__getitem__)

    def problems(self, path: str) -> Iterator[Problem]:
        """What keeps sizes from being known."""
        if any(schema.message for schema in self._schemas.values()) and not self._stated and not self._left:
            detail = (
                "NCCL states the sizes of its messages in this capture, but no payload can be read from this export. "
                "Export again: nsys export --type sqlite --include-blobs=true report.nsys-rep"
            )
            yield Problem(path, "info", detail, f"{RANGES}.{PAYLOAD}")
        if self._left:
            detail = f"{self._left:,} payloads of NVTX ranges are not as their schemas say and were left out"
            yield Problem(path, "info", detail, f"{RANGES}.{PAYLOAD}", self._left)

    def _take(self, columns: Mapping[str, Ints], payloads: Sequence[bytes]) -> None:
        lengths = np.array([len(payload) for payload in payloads], np.int64)
        for length in np.unique(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            if length <= _HEADER:
                self._left += len(rows)
                continue
            block = np.frombuffer(b"".join(payloads[i] for i in rows.tolist()), np.uint8).reshape(-1, length)
            header = np.ascontiguousarray(block[:, :_HEADER]).view("<u8")
            # Payloads of other libraries are none of ours.
            for (domain, number), schema in self._schemas.items():
                mine = (header[:, 0] == domain) & (header[:, 1] == number)
                fits = mine & (header[:, 2] == schema.size) & (length == _HEADER + schema.size)
                self._left += int((mine & ~fits).sum())
                if fits.any():
                    self._keep({name: column[rows[fits]] for name, column in columns.items()}, block[fits], schema)

    def _keep(self, columns: Mapping[str, Ints], block: NDArray[np.uint8], schema: _Schema) -> None:
        group, ranks = _read(block, schema.fields.get(_GROUP)), _read(block, schema.fields.get(_RANKS))
        if group is not None and ranks is not None:
            for one, count in set(zip(group.tolist(), ranks.tolist(), strict=True)):
                if one and 0 < count < 1 << 20:
                    self._ranks.setdefault(one, set()).add(count)
        size = _read(block, schema.message)
        if size is not None:
            none = np.zeros(len(block), np.uint64)
            self._stated.append(
                _Stated(
                    columns["start"], columns["end"], columns["globalTid"], columns["textId"], size.astype(np.int64),
                    none if group is None else group.astype(np.uint64),
                )
            )  # fmt: skip

    def _message(self, part: _Stated, row: int, call: int) -> Message | None:
        meaning = CALLS.get(self._names.get(int(part.name[row]), ""))
        size = int(part.size[row])
        if meaning is None or not 0 < size < _LARGEST or part.end[row] < part.start[row]:
            return None
        operation, what = meaning
        sizes = self._ranks.get(int(part.group[row]), set())
        ranks = next(iter(sizes)) if len(sizes) == 1 else NO_ID
        if what == _PART:
            # nccl-tests count what all ranks hold together: not known where the number of ranks is not.
            return None if ranks == NO_ID else Message(operation, size * ranks, size, ranks, shapes=False, call=call)
        return Message(operation, size, NO_ID, ranks, shapes=False, call=call)


def _schemas(database: Tables) -> dict[tuple[int, int], _Schema]:
    """By (domain, schema): those with a field of NCCL's that two processes do not define differently."""
    sizes: dict[tuple[int, int], set[int]] = {}
    rows = database.integers(SCHEMAS, ("domainId", "schemaId", "payloadSize"))
    columns = (rows[name].tolist() for name in ("domainId", "schemaId", "payloadSize"))
    for domain, number, size in zip(*columns, strict=True):
        sizes.setdefault((domain, number), set()).add(size)
    wanted = ("domainId", "schemaId", "idx", "flags", "type", "offset")
    entries = database.integers(ENTRIES, wanted)
    texts = database.texts(ENTRIES, "name")
    fields: dict[tuple[int, int], dict[str, set[tuple[int, int, int]]]] = {}
    for *row, text in zip(*(entries[name].tolist() for name in wanted), texts, strict=True):
        domain, number, index, flags, kind, offset = row
        # The first entry has no offset where it lies at 0; no other may be without.
        at = 0 if offset == MISSING and index == 0 else offset
        fields.setdefault((domain, number), {}).setdefault(text, set()).add((max(flags, 0), kind, at))
    found = {}
    for key, named in fields.items():
        places = {
            text: _Field(at, _TYPES[kind])
            for text, ((flags, kind, at), *others) in ((t, sorted(p)) for t, p in named.items())
            if not others and flags == 0 and kind in _TYPES and at >= 0
        }
        lengths = sizes.get(key, set())
        ours = {name: place for name, place in places.items() if name in (*_SIZES, _GROUP, _RANKS)}
        if len(lengths) == 1 and ours:
            whole = min(lengths)
            fitting = {n: p for n, p in ours.items() if p.at + np.dtype(p.dtype).itemsize <= whole}
            found[key] = _Schema(whole, fitting)
    return found


def _read(block: NDArray[np.uint8], field: _Field | None) -> Ints | None:
    """A field of every payload, 64 bits wide."""
    if field is None:
        return None
    width = np.dtype(field.dtype).itemsize
    at = _HEADER + field.at
    column = np.ascontiguousarray(block[:, at : at + width]).view(field.dtype)[:, 0]
    return column.astype(np.uint64 if field.dtype == "<u8" else np.int64)
