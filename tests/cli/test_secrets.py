"""Secrets planted in every place of every format: none reaches a table of the run, the cache, or what is printed."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from profiler import open_run, registry
from profiler.cli.main import main
from profiler.collectors import recognised
from profiler.collectors.redaction import redact_text
from profiler.errors import BadInput
from profiler.store import opening
from profiler.store.source import FileSource
from tests.strategies import ROOT, document, event_texts, small_trace

SAMPLES = ROOT / "tests" / "samples"
MARK = "PLANTED"
SECRETS = (
    f"sk-{MARK}0123456789", f"hf_{MARK}0123456789", f"https://user:{MARK}@host/x", f"serve --api-key {MARK} --port 1",
    f"--hf-token={MARK}", f"HF_TOKEN={MARK}", f"export OPENAI_API_KEY='{MARK} x'", f"Authorization: Bearer {MARK}",
    f"password={MARK}", f'{{"api_key": "{MARK}"}}', f"AWS_SECRET_ACCESS_KEY={MARK}\0PATH=/bin",
)  # fmt: skip
# One text that holds them all; a line of it where lines have a meaning.
ALL = " ; ".join(SECRETS).replace("\0", " ")
# Kinds of which nothing is read, and those whose files are made below.
# A report of Nsight Systems is exported and then read as the database that it becomes. A load's plan is only named.
READ = [
    f.name for f in registry.formats() if f not in recognised.FORMATS and f.name not in ("nsys_report", "profiler_plan")
]


def winner(data: bytes, name: str, folder: Path) -> tuple[str, bool]:
    """The format that takes the file, and whether it reads anything."""
    path = folder / name
    path.write_bytes(data)
    source = FileSource(path)
    head = source.head()
    chosen = max(registry.formats(), key=lambda one: one.sniff(head, source.name))
    try:
        reading = chosen.read(source, registry.engines())
    except BadInput:
        return chosen.name, False
    parts = (reading.traces, reading.benches, reading.snapshots, reading.logs, reading.counters, reading.stacks)
    return chosen.name, any((*parts, reading.totals, reading.components)) or bool(reading.facts)


def leaves(value: object, way: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*way, key))
    elif isinstance(value, list):
        for at, item in enumerate(value[:4]):
            yield from leaves(item, (*way, at))
    elif isinstance(value, str):
        yield way


def changed(value: object, way: tuple[object, ...], text: str) -> object:
    """The document with one text replaced, the rest shared."""
    if not way:
        return text
    copy = dict(value) if isinstance(value, dict) else list(value)  # type: ignore[call-overload]
    copy[way[0]] = changed(copy[way[0]], way[1:], text)
    return copy


def variants(data: bytes) -> Iterator[Callable[[bytes], bytes]]:
    """Ways to plant the secrets in a file: behind or instead of one text of its JSON, or of one of its lines."""
    try:
        ways = list(leaves(json.loads(data)))[:40]
    except ValueError:
        for at in range(min(data.count(b"\n") + 1, 12)):
            yield lambda d, at=at: b"\n".join(  # type: ignore[misc]
                line + b" " + ALL.encode() if i == at else line for i, line in enumerate(d.split(b"\n"))
            )
        yield lambda d: b"\n".join((*(s.replace("\0", " ").encode() for s in SECRETS), d))
        return
    for way in ways:

        def plant(d: bytes, way: tuple[object, ...] = way) -> bytes:
            whole = json.loads(d)
            old = whole
            for step in way:
                old = old[step]  # type: ignore[index]
            return json.dumps(changed(whole, way, f"{old} {ALL}")).encode()

        yield plant
    secrets = {"api_key": f"{MARK}-1", "environment": {"HF_TOKEN": f"{MARK}-2", "DB_PASSWORD": f"{MARK}-3"}}
    yield lambda d: json.dumps(json.loads(d) | secrets if isinstance(json.loads(d), dict) else json.loads(d)).encode()


@cache
def planted(folder: Path) -> dict[str, list[tuple[str, bytes]]]:
    """Format -> (file name, its bytes with secrets in every place that leaves it this format)."""
    found: dict[str, list[tuple[str, bytes]]] = {}
    for path in sorted(SAMPLES.rglob("*")):
        if not path.is_file():
            continue
        data = path.read_bytes().replace(b"PLANTED-SECRET-NOT", b"x")
        was = winner(data, path.name, folder)
        if not was[1]:
            continue
        for variant in variants(data):
            new = variant(data)
            if winner(new, path.name, folder) == was:
                data = new
        found.setdefault(was[0], []).append((path.name, data))
    return found


# ------------------------------------------------------------------------------------------- formats that are made here
def torch_trace(folder: Path) -> Path:
    text = document(event_texts(small_trace(2, 2))).decode()
    for name in ("execute_model", "python3", "aten::work", "NVIDIA H100 80GB HBM3"):
        assert name in text
        text = text.replace(name, f"{name} {json.dumps(ALL)[1:-1]}")
    extra = json.dumps({"hf_token": f"{MARK}-1", "command": ALL, "env": {"API_KEY": f"{MARK}-2"}})[1:-1]
    path = folder / "run.pt.trace.json"
    path.write_text(text.replace('"schemaVersion": 1', f'"schemaVersion": 1, {extra}'))
    return path


def nsys(folder: Path) -> Path:
    path = folder / "report.sqlite"
    with closing(sqlite3.connect(path)) as c, c:
        c.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
        c.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', ?)", (ALL,))
        for table in ("META_DATA_CAPTURE", "TARGET_INFO_SYSTEM_ENV"):
            c.execute(f"CREATE TABLE {table} (name TEXT, value TEXT)")
            c.execute(f"INSERT INTO {table} VALUES ('HF_TOKEN', ?)", (f"{MARK}-env",))
        c.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        texts = {
            1: f"gemm {ALL}",
            2: "cudaLaunchKernel",
            3: f"range {ALL}",
            4: f"PATH=/bin\0SECRET={MARK}",
            5: f"main {ALL}",
        }
        c.executemany("INSERT INTO StringIds VALUES (?, ?)", texts.items())
        c.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, "
                  "correlationId INTEGER, demangledName INTEGER, globalPid INTEGER)")  # fmt: skip
        c.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 3000, 0, 7, 5, 1, ?)", (10 << 24,))
        c.execute("CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER, "
                  "globalTid INTEGER)")  # fmt: skip
        c.execute("INSERT INTO NVTX_EVENTS VALUES (400, 800, 59, ?, NULL, ?)", (f"inline {ALL}", 10 << 24 | 9))
        c.execute("INSERT INTO NVTX_EVENTS VALUES (400, 800, 59, NULL, 3, ?)", (10 << 24 | 9,))
        c.execute("CREATE TABLE PROCESSES (globalPid INTEGER, name TEXT)")
        c.execute("INSERT INTO PROCESSES VALUES (?, ?)", (10 << 24, f"python {ALL}"))
        c.execute("CREATE TABLE ThreadNames (nameId INTEGER, globalTid INTEGER)")
        c.execute("INSERT INTO ThreadNames VALUES (5, ?)", (10 << 24 | 9,))
        c.execute("CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER)")
        c.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, ?, 1)", (f"GPU {ALL}",))
    return path


def nsys_parquet(folder: Path) -> Path:
    database = nsys(folder)
    out = folder / "parquetdir"
    out.mkdir()
    with closing(sqlite3.connect(database)) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            cursor = connection.execute(f'SELECT * FROM "{table}"')
            columns = [column[0] for column in cursor.description]
            pl.DataFrame(cursor.fetchall(), schema=columns, orient="row").write_parquet(out / f"{table}.parquet")
    database.unlink()
    return out / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"


def rocpd(folder: Path) -> Path:
    path = folder / "results.db"
    with closing(sqlite3.connect(path)) as c, c:
        c.execute("CREATE TABLE rocpd_info_process_u (id INTEGER, environment TEXT, command TEXT)")
        c.execute("INSERT INTO rocpd_info_process_u VALUES (1, ?, ?)", (ALL, ALL))
        columns = 'name TEXT, category TEXT, pid INTEGER, tid INTEGER, agent_abs_index INTEGER, stream_id INTEGER, start INTEGER, "end" INTEGER, corr_id INTEGER'
        for view, name in (("kernels", "gemm"), ("memory_copies", "copy"), ("regions", "range")):
            c.execute(f"CREATE TABLE t_{view} ({columns})")
            c.execute(f"INSERT INTO t_{view} VALUES (?, 'MARKER', 77, 9, 4, 1, 2000, 5000, 5)", (f"{name} {ALL}",))
            c.execute(f"CREATE VIEW {view} AS SELECT * FROM t_{view}")
    return path


def rocprof_json(folder: Path) -> Path:
    record = {"size": 72, "thread_id": 9, "correlation_id": {"internal": 5}, "start_timestamp": 1, "end_timestamp": 9}
    process = {
        "metadata": {"pid": 77, "command": ["python", "--api-key", MARK], "environment": {"HF_TOKEN": MARK}},
        "agents": [{"id": {"handle": 40}, "logical_node_id": 4, "type": 2, "product_name": f"AMD {ALL}"}],
        "strings": {"buffer_records": [{"kind": "HIP_RUNTIME_API", "operations": ["none", f"hipLaunchKernel {ALL}"]}]},
        "kernel_symbols": [{"kernel_id": 1, "formatted_kernel_name": f"gemm {ALL}"}],
        "buffer_records": {
            "kernel_dispatch": [record | {"dispatch_info": {"kernel_id": 1, "agent_id": {"handle": 40}}}],
            "hip_api": [record | {"kind": 0, "operation": 1}],
        },
    }
    path = folder / "results.json"
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [process]}))
    return path


def rocprof_csv(folder: Path) -> Path:
    head = "Kind,Agent_Id,Queue_Id,Stream_Id,Thread_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp\n"
    quoted = ALL.replace('"', '""')
    path = folder / "77_kernel_trace.csv"
    path.write_text(head + f'KERNEL_DISPATCH,"Agent 4",1,1,9,"gemm {quoted}",5,2000,5000\n')
    return path


def kubernetes(folder: Path) -> Path:
    container = {
        "command": ["python3", "-m", "vllm.entrypoints.openai.api_server", f"--api-key {MARK}", "--api-key", MARK],
        "args": [f"--api-key={MARK}", f"--model={ALL}", "--served-model-name=$(HF_TOKEN)"],
        "image": f"engine:1.0 {ALL}",
        "env": [{"name": "HF_TOKEN", "value": f"{MARK}-env"}, {"name": "NOTE", "value": ALL}],
    }
    pod = {"containers": [container], "nodeSelector": {"gpu.product": f"GPU {ALL}"}}
    path = folder / "pod.yaml"
    # JSON is YAML; the two keys in front are what tells the kind.
    path.write_text(f"apiVersion: v1\nkind: Pod\nspec: {json.dumps(pod)}\n")
    return path


MADE = {
    "kubernetes": kubernetes,
    "torch-profiler trace": torch_trace, "nsys_sqlite": nsys, "nsys_parquetdir": nsys_parquet, "rocpd": rocpd,
    "rocprofv3_json": rocprof_json, "rocprofv3_csv": rocprof_csv,
}  # fmt: skip


def put(name: str, folder: Path, scratch: Path) -> None:
    """All files of a format, with secrets, in a folder."""
    if name in MADE:
        MADE[name](folder)
    for at, (file, data) in enumerate(planted(scratch).get(name, [])):
        (folder / str(at)).mkdir()
        (folder / str(at) / file).write_bytes(data)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


def bytes_under(folder: Path) -> bytes:
    found = [path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".parquet"]
    tables = [pl.read_parquet(path) for path in sorted(folder.rglob("*.parquet"))]
    return b"\n".join((*found, *(repr(table.to_dicts()[:50]).encode() for table in tables)))


def test_every_secret_is_seen() -> None:
    for secret in (*SECRETS, ALL):
        assert MARK in secret and MARK not in redact_text(secret), redact_text(secret)
        assert redact_text(redact_text(secret)) == redact_text(secret)


@pytest.mark.parametrize("name", READ)
def test_no_secret_reaches_the_run_or_its_cache(
    name: str, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "CACHED_FROM", 0)
    put(name, tmp_path, scratch)
    files = [p for p in sorted(tmp_path.rglob("*")) if p.is_file()]
    raw = bytes_under(tmp_path)
    assert raw.count(MARK.encode()) >= 5, "the format holds no secret to be found"
    first = open_run(tmp_path)
    assert name in {record.format for record in first.files}
    for run in (first, open_run(tmp_path)):
        assert MARK not in repr(run), around(repr(run))
    kept = [p for p in sorted((tmp_path / ".profiler").rglob("*")) if p.is_file()]
    assert MARK.encode() not in b"".join(p.read_bytes() for p in kept if p.suffix == ".json")
    # What gives no trace is never kept.
    assert files and (name not in MADE or kept or name == "kubernetes")


def around(text: str) -> str:
    at = text.find(MARK)
    return text[max(at - 200, 0) : at + 80]


def test_no_secret_reaches_what_is_printed_or_written(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for run in ("run-A", "run-B"):
        for name in READ:
            folder = tmp_path / run / name.replace(" ", "-")
            folder.mkdir(parents=True)
            put(name, folder, scratch)
    a, b, out = str(tmp_path / "run-A"), str(tmp_path / "run-B"), tmp_path / "out"
    out.mkdir()
    commands = [
        ["inspect", a, "-v"],
        ["inspect", a, "--json"],
        ["diagnose", a, b, "-v", "--html", str(out / "x.html"), "--json", str(out / "x.json"), "--markdown", str(out / "x.md")],
        ["diagnose", a, str(tmp_path / "run-B" / "server_log")],
    ]  # fmt: skip
    for command in commands:
        monkeypatch.setattr(sys, "argv", ["profiler", *command])
        with pytest.raises(SystemExit) as left:
            main()
        printed = "\n".join(capfd.readouterr())
        assert left.value.code in (0, 2, 3) and "internal error" not in printed, (command, printed[-2000:])
        assert printed and MARK not in printed, (command, around(printed))
    assert {p.suffix for p in out.iterdir()} == {".html", ".json", ".md"}
    assert MARK not in bytes_under(out).decode(), around(bytes_under(out).decode())
