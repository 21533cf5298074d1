"""The compiled reader of SQLite tables against SQLite, which is its oracle: equal columns or no answer, on anything."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from profiler.collectors import database
from profiler.collectors.database import opened
from profiler.model.requests import Ints
from profiler.store.source import FileSource

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus" / "nsys" / "nsys-ai"
REAL = sorted(CORPUS.glob("*.sqlite"))
SOURCE = Path(__file__).parents[2] / "collectors" / "_rows.c"
COLUMNS = ("a", "b", "c")

needs_reader = pytest.mark.skipif(database._rows is None, reason="the reader was not built (no C compiler)")

Answer = tuple[dict[str, list[int]], list[str]]


def quick(path: Path, table: str, integers: tuple[str, ...], text: str) -> tuple[object, object]:
    """What the compiled reader alone says of the integers and of the text; None where it refuses."""
    columns = {name: np.zeros(7, np.int64) for name in integers}
    codes = np.full(7, -1, np.int32)
    values: dict[str, list[int]] = {name: [] for name in integers}
    known: list[str] = []
    words: list[str] = []

    def give_numbers(count: int, new: list[bytes]) -> None:
        assert not new
        for name, column in columns.items():
            values[name] += column[:count].tolist()

    def give_text(count: int, new: list[bytes]) -> None:
        known.extend(t.decode("utf-8", "replace") for t in new)
        words.extend("" if code < 0 else known[code] for code in codes[:count].tolist())

    with opened(FileSource(path)) as tables:
        numbers = tables._quick(table, columns, "", codes, give_numbers)
        texts = text in tables.columns(table) and tables._quick(table, {}, text, codes, give_text)
    return values if numbers else None, words if texts else None


def both_ways(path: Path, table: str, integers: tuple[str, ...], text: str) -> Answer:
    """What a reader makes of the table, batch by batch: the compiled one as far as it goes, then SQLite."""
    values: dict[str, list[int]] = {name: [] for name in integers}
    words: list[str] = []

    def take(columns: Mapping[str, Ints], codes: NDArray[np.int32], texts: list[str]) -> None:
        for name in integers:
            values[name] += columns[name].tolist()
        words.extend("" if code < 0 else texts[code] for code in codes.tolist())

    with opened(FileSource(path)) as tables:
        tables.each(table, integers, take, text)
    return values, words


def oracle(path: Path, table: str, integers: tuple[str, ...], text: str, monkeypatch: pytest.MonkeyPatch) -> Answer:
    with monkeypatch.context() as patched, opened(FileSource(path)) as tables:
        patched.setattr(database, "_rows", None)
        found = tables.integers(table, integers)
        return {name: column.tolist() for name, column in found.items()}, tables.texts(table, text)


@needs_reader
@pytest.mark.skipif(not REAL, reason="the corpus is not beside the checkout")
@pytest.mark.parametrize("path", REAL, ids=lambda p: p.stem)
def test_every_table_of_a_real_export_is_read_alike(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accepted = 0
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {t: connection.execute(f'PRAGMA table_info("{t}")').fetchall() for t in tables}
    for table in tables:
        integers = tuple(name for _, name, kind, *_ in columns[table] if kind == "INTEGER")
        texts = [name for _, name, kind, *_ in columns[table] if kind == "TEXT"]
        expected = oracle(path, table, integers, texts[0] if texts else "none", monkeypatch)
        numbers, words = quick(path, table, integers, texts[0] if texts else "none")
        assert numbers in (None, expected[0])
        if texts:
            assert words in (None, expected[1])
        accepted += numbers is not None or not integers
    assert accepted == len(tables)


values = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-300, 300),
    st.none(),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.sampled_from(["kernel_a", "kernel_b", "", "ü", "17", "x" * 700, b"blob"]),
)
schemas = st.sampled_from(
    [
        "(a INTEGER, b INTEGER, c TEXT)",
        "(a INTEGER PRIMARY KEY, b, c TEXT)",
        "(c TEXT, b INTEGER, a INT PRIMARY KEY)",
        "(a INTEGER PRIMARY KEY DESC, b INTEGER, c TEXT)",
        "(a INTEGER, b REAL, c, PRIMARY KEY (a, b))",
        "(b INTEGER, a INTEGER, c TEXT, PRIMARY KEY (a))",
        "(a INTEGER PRIMARY KEY, b INTEGER, c TEXT) WITHOUT ROWID",
        "(a INTEGER, g INTEGER AS (a + 1) VIRTUAL, b INTEGER, c TEXT)",
        "(a INTEGER, g INTEGER AS (a + 1) STORED, b INTEGER, c TEXT)",
    ]
)


def written(path: Path, schema: str, rows: list[tuple[object, ...]], page: int, encoding: str = "UTF-8") -> Path:
    """A table of these rows, as far as the schema takes them; and some deleted again."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"PRAGMA page_size = {page}")
        connection.execute(f"PRAGMA encoding = '{encoding}'")
        connection.execute(f"CREATE TABLE t {schema}")
        connection.execute("CREATE INDEX covering ON t (c, b, a)")
        for row in rows:
            with suppress(sqlite3.IntegrityError):  # a key that is no integer
                connection.execute("INSERT OR IGNORE INTO t (a, b, c) VALUES (?, ?, ?)", row)
        connection.execute("DELETE FROM t WHERE b % 3 = 0")
    return path


@needs_reader
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    schema=schemas,
    rows=st.lists(st.tuples(values, values, values), max_size=12),
    copies=st.sampled_from([1, 1, 40]),
    page=st.sampled_from([512, 4096, 65536]),
    encoding=st.sampled_from(["UTF-8", "UTF-8", "UTF-16le"]),
)
def test_what_the_reader_accepts_it_reads_as_sqlite_does(
    schema: str, rows: list[tuple[object, ...]], copies: int, page: int, encoding: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    rows = [row for row in rows if not any(isinstance(v, str) and "\0" in v for v in row)]
    path = written(tmp_path / "t.sqlite", schema, rows * copies, page, encoding)
    numbers, words = quick(path, "t", COLUMNS[:2], "c")
    expected = oracle(path, "t", COLUMNS[:2], "c", monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr(database, "BATCH", 5)
        assert both_ways(path, "t", COLUMNS[:2], "c") == expected
        patched.setattr(database, "_rows", None)
        assert both_ways(path, "t", COLUMNS[:2], "c") == expected
    assert numbers in (None, expected[0])
    assert words in (None, expected[1])


def test_rows_of_a_table_without_any_wanted_column_are_counted(tmp_path: Path) -> None:
    path = written(tmp_path / "t.sqlite", "(a INTEGER, b INTEGER, c TEXT)", [(1, 1, "x"), (2, 2, "y")], 512)
    assert both_ways(path, "t", ("absent",), "none") == ({"absent": [-1, -1]}, ["", ""])


@needs_reader
@pytest.mark.parametrize("page", [512, 1024, 65536])
def test_a_plain_table_of_many_pages_is_accepted(page: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[tuple[object, ...]] = [(i - 50, i * 2**40, f"name {i % 7}") for i in range(5000)]
    path = written(tmp_path / "t.sqlite", "(a INTEGER PRIMARY KEY, b INTEGER, c TEXT)", rows, page)
    assert quick(path, "t", COLUMNS[:2], "c") == oracle(path, "t", COLUMNS[:2], "c", monkeypatch)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("ALTER TABLE t ADD COLUMN d INTEGER DEFAULT 5")
    assert quick(path, "t", ("d",), "c")[0] is None
    assert oracle(path, "t", ("d",), "c", monkeypatch)[0]["d"][0] == 5


@needs_reader
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_pages_are_refused_or_read_as_sqlite_does(
    data: st.DataObject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[tuple[object, ...]] = [(i, i % 500 + 1, f"name {i % 7}") for i in range(200)]
    path = written(tmp_path / "t.sqlite", "(a INTEGER, b INTEGER, c TEXT)", rows, 512)
    body = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        body[data.draw(st.integers(16, len(body) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(body[: data.draw(st.sampled_from([len(body), len(body), len(body) - 700]))])
    try:
        expected = oracle(path, "t", COLUMNS[:2], "c", monkeypatch)
        numbers, words = quick(path, "t", COLUMNS[:2], "c")
    except (sqlite3.Error, UnicodeDecodeError):
        return
    assert numbers in (None, expected[0])
    assert words in (None, expected[1])


FUZZ = """
import importlib.util, os, random, sys, time
spec = importlib.util.spec_from_file_location("_rows", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
rng = random.Random(int(sys.argv[2]))
good = open(sys.argv[4], "rb").read()
a, b, codes = bytearray(8 * 16), bytearray(8 * 16), bytearray(4 * 16)
def take(rows, new):
    assert 0 < rows <= 16
    if rng.random() < 0.01: raise KeyError(rows)
end, count = time.monotonic() + float(sys.argv[3]), 0
while time.monotonic() < end:
    body = bytearray(good)
    for _ in range(rng.randint(0, 8)):
        kind, at = rng.random(), rng.randrange(len(body))
        if rng.random() < 0.5: at = at // 512 * 512 + rng.randrange(24)
        if kind < 0.6: body[at] = rng.choice([0, 1, 2, 5, 10, 13, 127, 128, 255, rng.randrange(256)])
        elif kind < 0.8: body[at:at + 9] = b"\\xff" * min(9, len(body) - at)
        else: body[at:at + 2] = rng.choice([b"\\0\\0", b"\\x02\\x00", b"\\xff\\xff", b"\\x01\\xff"])
    if rng.random() < 0.1: del body[rng.randrange(len(body)):]
    with open(sys.argv[4] + ".fuzz", "wb") as out: out.write(body)
    fd = os.open(sys.argv[4] + ".fuzz", os.O_RDONLY)
    for root in (2, rng.randrange(40)):
        try: module.read(fd, root, [(0, a), (1, b)], rng.choice([-1, 0]), rng.choice([-1, 2]), codes, take)
        except KeyError: pass
        count += 1
    os.close(fd)
print(count)
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_the_reader_survives_damaged_files_under_the_address_and_undefined_behaviour_sanitizers(
    tmp_path: Path,
) -> None:
    library = tmp_path / "_rows.so"
    flags = ["-O1", "-g", "-shared", "-fPIC", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    include = sysconfig.get_paths()["include"]
    build = subprocess.run(
        ["gcc", *flags, f"-I{include}", str(SOURCE), "-o", str(library)], capture_output=True, text=True
    )
    if build.returncode:
        pytest.skip(f"the sanitizers or Python's headers are missing: {build.stderr.strip()[-200:]}")
    rows: list[tuple[object, ...]] = [(i, i * 3 + 1, f"name {i % 7}") for i in range(200)]
    path = written(tmp_path / "t.sqlite", "(a INTEGER, b INTEGER, c TEXT)", rows, 512)
    asan = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    environment = os.environ | {"LD_PRELOAD": asan, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    seed, seconds = str(random.randrange(2**31)), os.environ.get("FUZZ_SECONDS", "5")
    run = subprocess.run(
        [sys.executable, "-c", FUZZ, str(library), seed, seconds, str(path)],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-4000:]
    assert int(run.stdout) > 500
