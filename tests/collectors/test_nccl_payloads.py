"""Sizes of collectives from the payloads of NCCL's NVTX ranges.

The schemas are those of a real capture (shared/corpus/nsys); the payloads are made here, for no public export holds any.
"""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler import registry
from profiler.analyzers.bandwidth import STATED, moved
from profiler.analyzers.device import accounts_of
from profiler.collectors.nsys.parquet import FORMAT as PARQUET
from profiler.collectors.nsys.sqlite import FORMAT
from profiler.model.run import Reading
from profiler.model.trace import NO_ID, Message
from profiler.store.source import FileSource

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus" / "nsys" / "nsys-ai" / "h100_2gpu_1s.sqlite"
PID, GROUP = 4242 << 24, 0xABCDEF0123456789
INIT, GATHER, REDUCE, OLD = 16777227, 16777220, 16777221, 16777222
# (schema, size, ((index, type, name, offset), …)), as NCCL registers them; the first offset is none.
SCHEMAS = (
    (INIT, 24, ((0, 18, "NCCL communicator ID", None), (1, 5, "No. of ranks", 8), (2, 5, "Rank", 12))),
    (GATHER, 16, ((0, 18, "NCCL communicator ID", None), (1, 22, "Message size [bytes]", 8))),
    (REDUCE, 24, ((0, 18, "NCCL communicator ID", None), (1, 22, "Message size [bytes]", 8),
                  (2, 16777235, "Reduction operation", 16))),
    (OLD, 16, ((0, 22, "Bytes", None), (1, 5, "Root", 8))),
)  # fmt: skip


@dataclass(frozen=True)
class Call:
    """A range of NCCL's with its payload, and the kernels launched in it."""

    name: str
    schema: int
    payload: bytes
    kernels: int = 1
    domain: int = 1
    header: bytes | None = None


def reduce(size: int, group: int = GROUP, name: str = "ncclAllReduce") -> Call:
    return Call(name, REDUCE, struct.pack("<QQI4x", group, size, 0))


def gather(size: int, name: str = "ncclAllGather") -> Call:
    return Call(name, GATHER, struct.pack("<QQ", GROUP, size))


def init(ranks: int) -> Call:
    return Call("ncclCommInitRankConfig", INIT, struct.pack("<QiiI4x", GROUP, ranks, 0, 0), kernels=0)


def export(path: Path, calls: list[Call], *, blobs: bool = True, text: bool = False) -> Path:
    """One process that makes these calls in turn, each a microsecond long, with a kernel of 10 us behind each launch."""
    names = list(dict.fromkeys([*(call.name for call in calls), "cudaLaunchKernelExC_v11060"]))
    kernel = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    with closing(sqlite3.connect(path)) as c, c:
        c.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        c.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate([*names, kernel], 1))
        c.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, "
                  "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER)")  # fmt: skip
        c.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, "
                  "correlationId INTEGER, nameId INTEGER)")  # fmt: skip
        c.execute("CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, "
                  "globalTid INTEGER, textId INTEGER, domainId INTEGER, binaryData TEXT)")  # fmt: skip
        c.execute("CREATE TABLE NVTX_PAYLOAD_SCHEMAS (domainId INTEGER, schemaId INTEGER, name TEXT, type INTEGER, "
                  "flags INTEGER, numEntries INTEGER, payloadSize INTEGER, alignTo INTEGER)")  # fmt: skip
        c.execute("CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId INTEGER, schemaId INTEGER, idx INTEGER, "
                  "flags INTEGER, type INTEGER, name TEXT, description TEXT, arrayOrUnionDetail INTEGER, "
                  "offset INTEGER)")  # fmt: skip
        for schema, size, entries in (*SCHEMAS, *SCHEMAS):  # a real export has them once a process
            c.execute("INSERT INTO NVTX_PAYLOAD_SCHEMAS VALUES (1, ?, NULL, 1, NULL, ?, ?, NULL)",
                      (schema, len(entries), size))  # fmt: skip
            for index, kind, name, offset in entries:
                c.execute("INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES (1, ?, ?, NULL, ?, ?, NULL, NULL, ?)",
                          (schema, index, kind, name, offset))  # fmt: skip
        correlation = 0
        for i, call in enumerate(calls):
            at = 1_000_000 + i * 20_000
            size = len(call.payload)
            head = struct.pack("<QQQQ", call.domain, call.schema, size, 32 + size)
            blob = ((head if call.header is None else call.header) + call.payload) if blobs else None
            value = "CAST(? AS TEXT)" if text else "?"
            c.execute(f"INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, NULL, ?, ?, 1, {value})",
                      (at, at + 1000, PID + 7, names.index(call.name) + 1, blob))  # fmt: skip
            for k in range(call.kernels):
                correlation += 1
                c.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?)",
                          (at + 100 + k, at + 200 + k, PID + 7, correlation, len(names)))  # fmt: skip
                c.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 7, ?, ?, ?)",
                          (at + 2000, at + 12_000, correlation, PID, len(names) + 1))  # fmt: skip
    return path


def read(path: Path) -> Reading:
    return FORMAT.read(FileSource(path), registry.engines())


def messages(path: Path) -> dict[int, Message]:
    (trace,) = read(path).traces
    return dict(trace.messages)


@pytest.mark.parametrize("text", [False, True], ids=["blob", "text"])
def test_bandwidth_follows_from_what_nccl_states(tmp_path: Path, text: bool) -> None:
    reading = read(export(tmp_path / "export.sqlite", [init(4), reduce(1_000_000), reduce(3_000_000)], text=text))
    assert reading.problems == ()
    (one,) = moved(accounts_of(reading.traces[0])[0].collectives, {})
    assert (one.operation, one.ranks, one.source, one.of) == ("all_reduce", 4, STATED, 2)
    assert one.sizes.tolist() == [1_000_000, 3_000_000]
    assert one.algorithm == pytest.approx(4_000_000 / 20e-6)
    assert one.bus == pytest.approx(4_000_000 / 20e-6 * 2 * 3 / 4)


@pytest.mark.parametrize(
    ("name", "operation", "sent", "received"),
    [
        ("ncclAllReduce", "all_reduce", 1000, NO_ID),
        ("ncclAllGather", "all_gather", 1000, NO_ID),
        ("ncclReduceScatter", "reduce_scatter", 4000, 1000),
        ("ncclAlltoAll", "all_to_all", 4000, 1000),
        ("ncclScatter", "scatter", 4000, 1000),
        ("ncclSend", "send_receive", 1000, NO_ID),
    ],
)
def test_a_size_is_counted_as_nccl_tests_do(
    tmp_path: Path, name: str, operation: str, sent: int, received: int
) -> None:
    found = messages(export(tmp_path / "export.sqlite", [init(4), gather(1000, name)]))
    assert found == {1: Message(operation, sent, received, 4, shapes=False, call=0)}


def test_a_part_of_an_unknown_number_of_ranks_is_not_known(tmp_path: Path) -> None:
    found = messages(export(tmp_path / "export.sqlite", [gather(1000, "ncclReduceScatter"), gather(500)]))
    assert found == {2: Message("all_gather", 500, NO_ID, NO_ID, shapes=False, call=0)}


def test_a_group_of_two_sizes_has_none(tmp_path: Path) -> None:
    found = messages(export(tmp_path / "export.sqlite", [init(4), init(8), reduce(1000)]))
    assert found[1].ranks == NO_ID


def test_older_names_of_a_size_are_known(tmp_path: Path) -> None:
    call = Call("ncclBroadcast", OLD, struct.pack("<Qi4x", 77, 0))
    found = messages(export(tmp_path / "export.sqlite", [call]))
    assert found == {1: Message("broadcast", 77, NO_ID, NO_ID, shapes=False, call=0)}


def test_kernels_launched_outside_have_no_size(tmp_path: Path) -> None:
    marker = Call("ncclGroupEnd", GATHER, struct.pack("<QQ", GROUP, 0))
    assert messages(export(tmp_path / "export.sqlite", [marker, reduce(8)])).keys() == {2}


@pytest.mark.parametrize(
    "call",
    [
        Call("ncclAllReduce", REDUCE, b"\0" * 24, header=struct.pack("<QQQQ", 1, REDUCE, 16, 48)),
        Call("ncclAllReduce", REDUCE, b"\1" * 20),
        Call("ncclAllReduce", REDUCE, b"", header=b"short"),
    ],
    ids=["size", "cut", "header"],
)
def test_a_payload_that_is_not_as_its_schema_says_gives_nothing(tmp_path: Path, call: Call) -> None:
    reading = read(export(tmp_path / "export.sqlite", [call, reduce(8)]))
    assert reading.traces[0].messages.keys() == {2}
    (problem,) = reading.problems
    assert problem.count == 1
    assert "not as their schemas say" in problem.detail


def test_a_payload_of_another_domain_is_none_of_ours(tmp_path: Path) -> None:
    call = Call("ncclAllReduce", REDUCE, struct.pack("<QQI4x", GROUP, 5, 0), domain=9)
    reading = read(export(tmp_path / "export.sqlite", [call, reduce(8)]))
    assert (reading.traces[0].messages.keys(), reading.problems) == ({2}, ())


def test_a_schema_that_two_processes_define_differently_is_not_read(tmp_path: Path) -> None:
    path = export(tmp_path / "export.sqlite", [reduce(8)])
    with closing(sqlite3.connect(path)) as c, c:
        c.execute("INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES (1, ?, 1, NULL, 22, 'Message size [bytes]', NULL, "
                  "NULL, 16)", (REDUCE,))  # fmt: skip
    assert messages(path) == {}


def test_an_export_without_payloads_says_how_to_get_them(tmp_path: Path) -> None:
    reading = read(export(tmp_path / "export.sqlite", [reduce(8)], blobs=False))
    assert not reading.traces[0].messages
    (problem,) = reading.problems
    assert "--include-blobs=true" in problem.detail


@pytest.mark.skipif(not CORPUS.is_file(), reason="the corpus is not beside the checkout")
def test_a_real_capture_states_sizes_and_its_export_left_them_out() -> None:
    reading = read(CORPUS)
    assert all(not trace.messages for trace in reading.traces)
    assert [p.severity for p in reading.problems if "--include-blobs=true" in p.detail] == ["info"]


def test_parquet_tables_say_the_same(tmp_path: Path) -> None:
    path = export(tmp_path / "export.sqlite", [init(2), reduce(1000), gather(20)])
    (trace,) = PARQUET.read(FileSource(as_parquet(path)), ()).traces
    assert dict(trace.messages) == messages(path)


def test_parquet_that_calls_bytes_a_text_says_the_same(tmp_path: Path) -> None:
    """Nsight declares the column as text; what is no UTF-8 is not one to polars."""
    path = export(tmp_path / "export.sqlite", [init(2), reduce(2**40 - 1), gather(0x80FF)])
    kernels = as_parquet(path)
    table = kernels.with_name("NVTX_EVENTS.parquet")
    frame = pl.read_parquet(table)
    payloads = frame["binaryData"].to_list()
    texts = [
        None if payload is None else f"payload {at} ".ljust(len(payload), "x") for at, payload in enumerate(payloads)
    ]
    frame.with_columns(pl.Series("binaryData", texts)).write_parquet(
        table, compression="uncompressed", statistics=False
    )
    body = table.read_bytes()
    for text, payload in zip(texts, payloads, strict=True):
        if text is not None:
            assert body.count(text.encode()) == 1
            body = body.replace(text.encode(), payload)
    table.write_bytes(body)
    with pytest.raises(pl.exceptions.ComputeError, match="UTF-8"):
        pl.read_parquet(table)
    reading = PARQUET.read(FileSource(kernels), ())
    assert reading.problems == ()
    assert dict(reading.traces[0].messages) == messages(path)
    assert len(messages(path)) == 2


def as_parquet(path: Path) -> Path:
    """The export's tables as files of a folder beside it; returns that of the kernels."""
    folder = path.parent / "parquet"
    folder.mkdir()
    with closing(sqlite3.connect(path)) as c:
        for (table,) in c.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            cursor = c.execute(f"SELECT * FROM {table}")
            columns = [column[0] for column in cursor.description]
            types = {"binaryData": pl.Binary, "name": pl.String, "value": pl.String, "text": pl.String}
            schema = {column: types.get(column, pl.Int64) for column in columns}
            frame = pl.DataFrame(cursor.fetchall(), schema=schema, orient="row")
            frame.write_parquet(folder / f"{table}.parquet")
    return folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"


@given(st.lists(st.binary(max_size=80), max_size=6))
@settings(max_examples=30, deadline=None)
def test_any_bytes_are_read_without_a_fault(tmp_path_factory: pytest.TempPathFactory, blobs: list[bytes]) -> None:
    head = struct.pack("<QQQQ", 1, REDUCE, 24, 56)
    calls = [Call("ncclAllReduce", REDUCE, blob, header=head if i % 2 else b"") for i, blob in enumerate(blobs)]
    reading = read(export(tmp_path_factory.mktemp("x") / "export.sqlite", [*calls, reduce(8)]))
    known = reading.traces[0].messages
    assert known[len(blobs) + 1].sent == 8
    assert all(m.sent > 0 for m in known.values())
