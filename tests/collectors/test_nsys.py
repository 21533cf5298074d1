"""Nsight Systems exports: the real ones against plain SQL, and small ones of our own for what the real ones lack."""

from __future__ import annotations

import gzip
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler import registry
from profiler.analyzers.device import accounts_of
from profiler.analyzers.trace_steps import launched, spans_of
from profiler.collectors.nsys.parquet import FORMAT as PARQUET
from profiler.collectors.nsys.sqlite import FORMAT, OPAQUE_GRAPH
from profiler.errors import BadInput
from profiler.model.run import Reading
from profiler.model.trace import EventTable, Kind
from profiler.store.source import FileSource
from tests.strategies import ROOT

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus" / "nsys" / "nsys-ai"
REAL = sorted(CORPUS.glob("*.sqlite"))
needs_corpus = pytest.mark.skipif(not REAL, reason="the corpus is not beside the checkout")


def read(path: Path) -> Reading:
    return FORMAT.read(FileSource(path), registry.engines())


@needs_corpus
@pytest.mark.parametrize("path", REAL, ids=lambda p: p.stem)
def test_a_real_export_gives_every_kernel_with_its_exact_time(path: Path) -> None:
    reading = read(path)
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection, connection:
        rows = connection.execute(
            'SELECT k.start, k."end" - k.start, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k '
            "LEFT JOIN StringIds s ON s.id = k.demangledName"
        ).fetchall()
    ours = sorted(
        (start, duration, trace.names[name])
        for trace in reading.traces
        for kernels in [trace.events.of(Kind.KERNEL)]
        for start, duration, name in zip(
            kernels.start.tolist(), kernels.duration.tolist(), kernels.name.tolist(), strict=True
        )
    )
    assert ours == sorted(rows)


@needs_corpus
def test_kernels_join_their_launches_within_their_own_process() -> None:
    reading = read(CORPUS / "h100_2gpu_1s.sqlite")
    joined = total = 0
    for trace in reading.traces:
        kernels = trace.events.of(Kind.KERNEL)
        joined += int((launched(trace, kernels, spans_of(trace)).call >= 0).sum())
        total += len(kernels)
    with (
        closing(sqlite3.connect(f"file:{CORPUS / 'h100_2gpu_1s.sqlite'}?mode=ro&immutable=1", uri=True)) as connection,
        connection,
    ):
        (expected,) = connection.execute(
            "SELECT COUNT(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k WHERE EXISTS (SELECT 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME r "
            "WHERE r.correlationId = k.correlationId AND (r.globalTid & ~16777215) = k.globalPid)"
        ).fetchone()
    assert (joined, total) == (expected, 3442)
    assert expected == 1632


@needs_corpus
def test_the_environment_that_an_export_carries_reaches_no_table() -> None:
    path = CORPUS / "h100_2gpu_1s.sqlite"
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection, connection:
        values = {str(v) for (v,) in connection.execute("SELECT value FROM TARGET_INFO_SYSTEM_ENV")}
        values |= {
            str(v) for n, v in connection.execute("SELECT name, value FROM META_DATA_CAPTURE") if "ENV" in n.upper()
        }
    text = repr([(t.metadata, t.processes, t.names) for t in read(path).traces])
    assert not [value for value in values if len(value) > 12 and value in text]


def export(path: Path, *, graph: bool = False, pids: bool = True, registered: bool = False) -> Path:
    """A tiny export: two processes with one kernel each (equal correlation), a copy, NVTX step ranges."""
    with closing(sqlite3.connect(path)) as c, c:
        c.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
        c.execute("CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)")
        c.execute(
            "INSERT INTO META_DATA_CAPTURE VALUES ('CUDA_GRAPH_TRACE_OPTIONS:MODE', ?)", ("Graph" if graph else "Node",)
        )
        c.execute("INSERT INTO META_DATA_CAPTURE VALUES ('ENVIRONMENT', 'HF_TOKEN=hf_planted')")
        c.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        c.executemany(
            "INSERT INTO StringIds VALUES (?, ?)",
            [(1, "nvjet_tst_128x64"), (2, "cudaGraphLaunch_v10000"), (3, "execute_context_0(0)_generation_4(4)")],
        )
        owner = ", globalPid INTEGER" if pids else ""
        kernel = (
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, "
        )
        c.execute(f"{kernel}correlationId INTEGER, demangledName INTEGER, graphNodeId INTEGER{owner})")
        for pid in (10, 11) if pids else (0,):
            row = [1000 + pid, 3000 + pid, 0, 7, 5, 1, None] + ([pid << 24] if pids else [])
            c.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({','.join('?' * len(row))})", row)
        c.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, "
                  "correlationId INTEGER, nameId INTEGER)")  # fmt: skip
        c.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (500, 700, ?, 5, 2)", ((10 << 24 | 99) if pids else 0,)
        )
        c.execute("CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER, "
                  "globalTid INTEGER)")  # fmt: skip
        text, text_id = (None, 3) if registered else ("execute_context_0(0)_generation_4(4)", None)
        tid = (10 << 24 | 99) if pids else 0
        c.execute("INSERT INTO NVTX_EVENTS VALUES (400, 800, 59, ?, ?, ?)", (text, text_id, tid))
        c.execute("INSERT INTO NVTX_EVENTS VALUES (450, NULL, 59, 'open', NULL, ?)", (tid,))
        if graph:
            c.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, "
                      "streamId INTEGER, correlationId INTEGER, globalPid INTEGER)")  # fmt: skip
            c.execute("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (5000, 9000, 0, 7, 6, ?)", (10 << 24,))
    return path


def test_a_sqlite_export_is_read_without_loading_polars(tmp_path: Path) -> None:
    """It takes longer to load than a million kernels take to read."""
    path = export(tmp_path / "a.sqlite")
    show = (
        "import sys\nfrom pathlib import Path\nfrom profiler.collectors.nsys.sqlite import FORMAT\n"
        "from profiler.store.source import FileSource\n"
        f"print(len(FORMAT.read(FileSource(Path({str(path)!r})), ()).traces), 'polars' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", show], check=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.split() == ["2", "False"]


@pytest.mark.parametrize("registered", [False, True])
def test_processes_become_traces_and_step_ranges_are_understood(tmp_path: Path, registered: bool) -> None:
    reading = read(export(tmp_path / "a.sqlite", registered=registered))
    first, second = reading.traces
    assert [len(t.events.of(Kind.KERNEL)) for t in (first, second)] == [1, 1]
    assert [label.decode_requests for label in first.labels.values()] == [4]
    assert first.names[first.events.of(Kind.LAUNCH).name[0]] == "cudaGraphLaunch"
    assert len(second.events.of(Kind.LAUNCH)) == 0
    assert any("never end" in p.detail and p.count == 1 for p in reading.problems)
    assert "hf_planted" not in repr(reading)


def test_a_capture_of_whole_graphs_says_that_kernels_are_not_known(tmp_path: Path) -> None:
    reading = read(export(tmp_path / "a.sqlite", graph=True))
    kernels = reading.traces[0].events.of(Kind.KERNEL)
    assert [reading.traces[0].names[i] for i in kernels.name] == ["nvjet_tst_128x64", OPAQUE_GRAPH]
    account = accounts_of(reading.traces[0])[0]
    assert account.busy["opaque_graph"] == 4000
    assert any("--cuda-graph-trace=node" in p.detail for p in reading.problems)


def test_old_exports_without_a_process_column_and_compressed_ones_are_read(tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite", pids=False)
    packed = tmp_path / "b.sqlite.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for reading in (read(path), read(packed)):
        (trace,) = reading.traces
        assert len(trace.events.of(Kind.KERNEL)) == 1
        assert np.array_equal(launched(trace, trace.events.of(Kind.KERNEL), spans_of(trace)).call, [0])


def test_a_folder_of_parquet_files_is_the_same_export(tmp_path: Path) -> None:
    database = export(tmp_path / "a.sqlite", graph=True)
    folder = tmp_path / "parquetdir"
    folder.mkdir()
    with closing(sqlite3.connect(database)) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            cursor = connection.execute(f'SELECT * FROM "{table}"')
            columns = [column[0] for column in cursor.description]
            pl.DataFrame(cursor.fetchall(), schema=columns, orient="row").write_parquet(folder / f"{table}.parquet")
    first = folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    assert PARQUET.sniff(first.read_bytes()[:64], first.name) > 0.9
    theirs, ours = read(database), PARQUET.read(FileSource(first), registry.engines())
    for one, two in zip(theirs.traces, ours.traces, strict=True):
        assert one.names == two.names
        assert one.labels == two.labels
        for field in EventTable.__dataclass_fields__:
            assert np.array_equal(getattr(one.events, field), getattr(two.events, field)), field
    beside = PARQUET.read(FileSource(folder / "StringIds.parquet"), ())
    assert "read together" in beside.problems[0].detail
    first.write_bytes(first.read_bytes()[:200])
    with pytest.raises(BadInput, match="damaged"):
        PARQUET.read(FileSource(first), ())


def test_another_database_and_a_damaged_one_are_refused_in_one_line(tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(other)) as connection, connection:
        connection.execute("CREATE TABLE t (x)")
    with pytest.raises(BadInput, match="without any of Nsight's tables"):
        read(other)
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(export(tmp_path / "a.sqlite").read_bytes()[:5000])
    with pytest.raises(BadInput, match="damaged"):
        read(damaged)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_flipped_bytes_raise_nothing_but_our_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("nsys")
    body = bytearray(export(folder / "a.sqlite", graph=True).read_bytes())
    for _ in range(data.draw(st.integers(1, 20))):
        body[data.draw(st.integers(16, len(body) - 1))] = data.draw(st.integers(0, 255))
    path = folder / "b.sqlite"
    path.write_bytes(body)
    try:
        read(path)
    except BadInput:
        return
