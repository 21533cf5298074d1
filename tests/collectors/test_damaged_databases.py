"""SQLite files that are damaged where SQLite itself stumbles: one line says so, whatever it raises."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from profiler.collectors.nsys.sqlite import FORMAT as NSYS
from profiler.collectors.rocprof.rocpd import FORMAT as ROCPD
from profiler.errors import BadInput
from profiler.model.extension import Format
from profiler.store.source import FileSource

STATEMENTS: dict[str, tuple[Format, str]] = {
    "nsys": (NSYS, 'CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (\n  start INTEGER,\n  "end" INTEGER\n)'),
    "rocpd": (ROCPD, "CREATE TABLE rocpd_kernel_dispatch (\n  start INTEGER,\n  stop INTEGER\n)"),
}


@pytest.fixture(params=STATEMENTS)
def format_and_file(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Format, Path]:
    reader, statement = STATEMENTS[request.param]
    path = tmp_path / "export.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA page_size = 512")
        connection.execute(statement)
    return reader, path


def refusal(reader: Format, path: Path) -> str:
    assert reader.sniff(path.read_bytes(), path.name) > 0.2
    with pytest.raises(BadInput, match="the SQLite file is damaged") as raised:
        reader.read(FileSource(path), ())
    return str(raised.value)


def test_schema_text_that_sqlite_quotes_stays_on_one_line(format_and_file: tuple[Format, Path]) -> None:
    reader, path = format_and_file
    data = path.read_bytes()
    path.write_bytes(data.replace(b"CREATE TABLE ", b"CREATE TABLE[", 1))
    said = refusal(reader, path)
    assert "\n" not in said
    assert len(said) < 400


def test_a_length_that_no_memory_holds_is_damage(format_and_file: tuple[Format, Path]) -> None:
    reader, path = format_and_file
    data = bytearray(path.read_bytes())
    cell = int.from_bytes(data[108:110], "big")
    data[cell : cell + 10] = b"\x81" + b"\xff" * 9
    path.write_bytes(data)
    assert "more memory than there is" in refusal(reader, path)
