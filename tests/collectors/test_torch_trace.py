"""Torch-profiler traces: exact on every real file, the same however packed or chunked, and salvaged when damaged."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profiler.collectors.engines import ENGINES
from profiler.collectors.torch_trace import reader
from profiler.collectors.torch_trace.chunks import CHUNK, ReadAhead, pieces
from profiler.collectors.torch_trace.columns import Columns
from profiler.collectors.torch_trace.decode import Damage, decode, decode_tail
from profiler.collectors.torch_trace.reader import FORMAT
from profiler.model.trace import EventTable
from profiler.store import growing
from profiler.store.source import FileSource, zstd
from tests.strategies import (
    STEP,
    Built,
    document,
    each_trace,
    event_text,
    event_texts,
    expected,
    read_bytes,
    reading_of,
    reference,
    rows_of,
    small_trace,
)

EVENTS = small_trace()
TEXTS = event_texts(EVENTS)
WHOLE = document(TEXTS)


# ------------------------------------------------------------------------------------------------- the real files
@pytest.mark.parametrize("path", each_trace())
def test_every_real_trace_reads_as_json_and_decimal_do(path: Path) -> None:
    reading = reading_of(path)
    mismatches = [
        (ours, theirs)
        for ours, theirs in zip(rows_of(reading.traces[0]), reference(path), strict=True)
        if ours != theirs
    ]
    assert mismatches == []
    assert not any(p.severity == "error" for p in reading.problems)


@pytest.mark.parametrize("chunk", [4 << 10, 64 << 10])
@pytest.mark.parametrize(
    "path", [p for p in each_trace() if any(n in str(p) for n in ("fullgraph", "mi210", "gloo", "rank0.", "tiny"))]
)
def test_real_traces_do_not_depend_on_the_chunk(path: Path, chunk: int) -> None:
    if not path.is_file():
        pytest.skip("the corpus of real files is not on this machine")
    with FileSource(path).open() as stream:
        data = stream.read()
    assert_equal_tables(in_chunks(data, chunk)[0], reading_of(path).traces[0].events)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_table_does_not_depend_on_threads_pieces_or_growth(
    threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.json.gz").write_bytes(gzip.compress(document(event_texts(small_trace(300)))))
    whole = reading_of(tmp_path / "x.json.gz")
    monkeypatch.setattr(reader, "MOST_THREADS", threads)
    monkeypatch.setattr(reader, "pieces", lambda stream: pieces(stream, 2048))
    monkeypatch.setattr(growing, "GROWTH", 7)
    cut = reading_of(tmp_path / "x.json.gz")
    assert_equal_tables(cut.traces[0].events, whole.traces[0].events)
    assert cut.traces[0].names == whole.traces[0].names and cut.traces[0].threads == whole.traces[0].threads
    assert cut.problems == whole.problems


def test_reading_ahead_gives_the_same_pieces() -> None:
    data = document(event_texts(small_trace(30)))
    with ReadAhead(io.BytesIO(data)) as ahead:
        assert list(pieces(ahead, 999)) == list(pieces(io.BytesIO(data)))
    with ReadAhead(io.BytesIO(data * 40)) as ahead:
        assert b"".join(iter(lambda: ahead.read(999), b"")) == data * 40
        assert ahead.read(999) == b""


def test_what_reading_ahead_raises_is_raised_where_it_is_read() -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError("the disk is gone")

    with ReadAhead(Broken()) as ahead, pytest.raises(OSError, match="the disk is gone"):
        ahead.read(1)


def in_chunks(data: bytes, chunk: int) -> tuple[EventTable, Columns, Damage]:
    """The table as it is read in chunks of this size, the way the reader does it."""
    damage = Damage()
    found = Columns(damage)
    for piece in pieces(io.BytesIO(data), chunk):
        if piece.kind == "events":
            found.add(*decode(piece.data, piece.offset, damage), piece.offset)
        elif piece.kind == "tail":
            events, times, _ = decode_tail(piece.data, piece.offset, damage)
            found.add(events, times, piece.offset)
    return found.table(), found, damage


def assert_equal_tables(one: EventTable, two: EventTable) -> None:
    for name in EventTable.__dataclass_fields__:
        assert np.array_equal(getattr(one, name), getattr(two, name)), name


# ------------------------------------------------------------------------------------ one content, whatever it is in
@pytest.mark.parametrize("chunk", [1 << 8, 4 << 10, 64 << 10, CHUNK])
@pytest.mark.parametrize("one_line", [False, True])
def test_the_table_does_not_depend_on_the_chunk(chunk: int, one_line: bool) -> None:
    events = small_trace(40)
    data = document(event_texts(events, one_line), one_line=one_line)
    table, columns, damage = in_chunks(data, chunk)
    assert not damage.counts
    names = list(columns.names)
    rows = zip(table.kind, (names[i] for i in table.name), table.start, table.duration, table.correlation, strict=True)
    assert [tuple(x.item() if hasattr(x, "item") else x for x in row) for row in rows] == expected(events)


PACKED = {
    "plain": (WHOLE, "a.pt.trace.json"),
    "gzip": (gzip.compress(WHOLE), "a.pt.trace.json.gz"),
    "gzip without its suffix": (gzip.compress(WHOLE), "a.pt.trace.json"),
    "zstd": (zstd.compress(WHOLE), "a.pt.trace.json.zst"),
    "two zstd frames": (zstd.compress(WHOLE[:3000]) + zstd.compress(WHOLE[3000:]), "a.json.zst"),
    "gzip members": (b"".join(gzip.compress(WHOLE[i : i + 777]) for i in range(0, len(WHOLE), 777)), "a.json.gz"),
    "gzip with padding": (gzip.compress(WHOLE) + b"\0" * 512, "a.json.gz"),
    "plain in a .gz name": (WHOLE, "a.pt.trace.json.gz"),
    "bare array": (document(TEXTS, bare=True), "a.pt.trace.json"),
    "BOM": (b"\xef\xbb\xbf" + WHOLE, "a.pt.trace.json"),
    "BOM before a bare array": (b"\xef\xbb\xbf" + document(TEXTS, bare=True), "a.pt.trace.json"),
    "json.dump": (document(event_texts(EVENTS, True), one_line=True), "a.pt.trace.json"),
    "CRLF": (WHOLE.replace(b"\n", b"\r\n"), "a.pt.trace.json"),
}


@pytest.mark.parametrize("how", PACKED)
def test_the_packing_changes_nothing(how: str, tmp_path: Path) -> None:
    data, name = PACKED[how]
    reading = read_bytes(data, tmp_path, name)
    trace = reading.traces[0]
    assert rows_of(trace) == expected(EVENTS)
    assert reading.problems == ()
    if "bare" not in how:
        assert (trace.rank, trace.world_size) == (3, 8)
        assert trace.devices[0].name == "NVIDIA H100 80GB HBM3" and trace.devices[0].vendor == "nvidia"
        assert reading.facts["hardware.gpu"].value == "NVIDIA H100 80GB HBM3"
        assert "someone" not in repr(trace.metadata)
    assert [trace.names[i] for i in trace.labels] == [STEP]
    head = FileSource(tmp_path / name).head()
    assert FORMAT.sniff(head, name) > 0.9


# -------------------------------------------------------------------------------------------------------------- time
EPOCH = 1_748_000_000_123_456_789  # ns
UPTIME = (2**42 + 2**41) * 1000 + 7  # 76 days of uptime, ns


@pytest.mark.parametrize("start", [0, 1, EPOCH, UPTIME, 2**43 * 1000 - 500_000, -5_000_123])
def test_stamps_are_exact_to_the_nanosecond_whatever_the_clock(start: int, tmp_path: Path) -> None:
    events = small_trace(30, start=start + 1)
    assert rows_of(read_bytes(document(event_texts(events)), tmp_path).traces[0]) == expected(events)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(starts=st.lists(st.integers(-(2**40), 2**60), min_size=1, max_size=40), power=st.integers(0, 61))
def test_any_stamp_with_three_decimals_is_exact(starts: list[int], power: int, tmp_path: Path) -> None:
    events = [Built("cpu_op", "x", (s + 1) % 2**power if power < 61 else s, 5) for s in starts]
    assert rows_of(read_bytes(document(event_texts(events), bare=True), tmp_path).traces[0]) == expected(events)


def test_stamps_between_50_and_100_days_of_uptime_are_exact(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    events = [Built("cpu_op", "x", int(s), 7) for s in rng.integers(2**42 * 1000, 2**43 * 1000, 4000)]
    assert rows_of(read_bytes(document(event_texts(events), bare=True), tmp_path).traces[0]) == expected(events)


def test_relative_stamps_keep_their_base(tmp_path: Path) -> None:
    trace = read_bytes(document(TEXTS, base=EPOCH), tmp_path).traces[0]
    assert trace.base == EPOCH and rows_of(trace) == expected(EVENTS)


def test_a_base_beside_absolute_stamps_is_not_added_twice(tmp_path: Path) -> None:
    events = small_trace(start=EPOCH)
    trace = read_bytes(document(event_texts(events), base=EPOCH), tmp_path).traces[0]
    assert trace.base == 0 and rows_of(trace) == expected(events)


def test_stamps_as_strings_are_exact_too(tmp_path: Path) -> None:
    for events in (EVENTS, small_trace(start=EPOCH)):
        texts = [re.sub(r'"(ts|dur)": (-?[\d.]+)', r'"\1": "\2"', text) for text in event_texts(events)]
        reading = read_bytes(document(texts), tmp_path)
        assert rows_of(reading.traces[0]) == expected(events)
        assert reading.problems == ()


@pytest.mark.parametrize(
    ("name", "rank"),
    [("rank0.17.pt.trace.json", 0), ("a_rank-12.json", 12), ("17960-TP-3-DECODE.trace.json", 3), ("x.json", None),
     ("frank5.json", None)],
)  # fmt: skip
def test_the_rank_comes_from_the_name_where_the_file_does_not_say(name: str, rank: int | None, tmp_path: Path) -> None:
    data = re.sub(rb'  "distributedInfo".*\n', b"", WHOLE)
    assert read_bytes(data, tmp_path, name).traces[0].rank == rank


def test_kernels_of_a_replayed_graph_keep_the_one_correlation_and_their_nodes(tmp_path: Path) -> None:
    args = {"device": 0, "stream": 7, "correlation": 99, "graph id": 4}
    kernels = [Built("kernel", f"k{i}", 1000 * i, 900, 0, 7, args | {"graph node id": 10 + i}) for i in range(5)]
    launch = Built("cuda_runtime", "cudaGraphLaunch", 0, 500, args={"correlation": 99})
    table = read_bytes(document(event_texts([launch, *kernels])), tmp_path).traces[0].events
    assert table.correlation.tolist() == [99] * 6
    assert table.graph_node.tolist() == [-1, 10, 11, 12, 13, 14]


def test_a_name_that_looks_like_the_border_of_two_events_is_a_name(tmp_path: Path) -> None:
    names = ('}, {"ph": "X"', "}]}", 'x"}, {"', '"traceEvents": [', "}\\n,{", "\\", '\\"', "Ω≈ç √ 日本 \U0001f600")
    events = [e for n in names for e in (Built("cpu_op", n, 5_000, 17, args={"Call stack": n}), *EVENTS[:2])]
    for chunk in (64, 256, CHUNK):
        table, columns, damage = in_chunks(document(event_texts(events)), chunk)
        assert not damage.counts, chunk
        assert len(table) == len(events) and set(columns.names) == {e.name for e in events}


def test_every_event_text_of_the_builder_is_valid() -> None:
    import json

    for one_line in (False, True):
        for event in EVENTS:
            assert json.loads(event_text(event, one_line))["name"] == event.name
        assert json.loads(document(event_texts(EVENTS, one_line), one_line=one_line))


def test_the_reader_never_names_the_person(tmp_path: Path) -> None:
    data = WHOLE.replace(b'"displayTimeUnit"', b'"username": "someone", "host_name": "their-host", "displayTimeUnit"')
    reading = read_bytes(data, tmp_path)
    assert "someone" not in repr(reading.traces[0].metadata) and "their-host" not in repr(reading)
    assert ENGINES
