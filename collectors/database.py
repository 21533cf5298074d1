"""A profiler's SQLite file, read without trusting it: read-only, bounded, with columns that may be missing."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote

import numpy as np

from profiler.errors import BadInput
from profiler.model.extension import Source
from profiler.model.requests import Ints

MAGIC: Final = b"SQLite format 3\x00"
BATCH: Final = 65_536
MISSING: Final = -1
_PIECE: Final = 16 << 20


class Tables(Protocol):
    """What readers of an export ask its tables, however they are stored."""

    tables: set[str]

    def columns(self, table: str) -> set[str]:
        """The table's columns; none where it does not exist."""
        ...

    def integers(self, table: str, wanted: Sequence[str]) -> dict[str, Ints]:
        """Integer columns of equal length, MISSING where there is no value."""
        ...

    def texts(self, table: str, column: str) -> list[str]:
        """A text column, empty strings where there is no value."""
        ...

    def pairs(self, table: str, key: str, value: str) -> list[tuple[str, str]]:
        """(key, value) texts of a table."""
        ...


class Database:
    """One open file. A damaged table raises ``sqlite3.DatabaseError`` where it is read."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        found = connection.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
        self.tables: set[str] = {str(name) for name, kind in found if kind == "table"}
        self.views: Final = {str(name) for name, kind in found if kind == "view"}

    def columns(self, table: str) -> set[str]:
        """The table's columns; none where it does not exist (tables are created only when they have rows)."""
        if table not in self.tables | self.views:
            return set()
        return {str(row[1]) for row in self._connection.execute(f"PRAGMA table_info({_quoted(table)})")}

    def integers(self, table: str, wanted: Sequence[str]) -> dict[str, Ints]:
        """Integer columns of equal length; a missing column, a NULL and a text that is no integer are MISSING."""
        present = self.columns(table)
        chosen = [name for name in wanted if name in present]
        rows = self._count(table) if present else 0
        found = {name: np.full(rows, MISSING, np.int64) for name in wanted}
        if not chosen or not rows:
            return found
        expressions = ", ".join(f"COALESCE(CAST({_quoted(name)} AS INTEGER), {MISSING})" for name in chosen)
        cursor = self._connection.execute(f"SELECT {expressions} FROM {_quoted(table)}")
        at = 0
        while batch := cursor.fetchmany(BATCH):
            block = np.array(batch, np.int64)
            for index, name in enumerate(chosen):
                found[name][at : at + len(block)] = block[:, index]
            at += len(block)
        return {name: column[:at] for name, column in found.items()}

    def texts(self, table: str, column: str) -> list[str]:
        """A text column; NULL and a missing column are empty strings."""
        if column not in self.columns(table):
            return [""] * self._count(table)
        query = f"SELECT COALESCE({_quoted(column)}, '') FROM {_quoted(table)}"
        return [str(row[0]) for row in self._connection.execute(query)]

    def pairs(self, table: str, key: str, value: str) -> list[tuple[str, str]]:
        """(key, value) texts of a table; none where it or a column is missing."""
        if not {key, value} <= self.columns(table):
            return []
        query = f"SELECT {_quoted(key)}, {_quoted(value)} FROM {_quoted(table)}"
        return [(str(row[0]), str(row[1])) for row in self._connection.execute(query)]

    def _count(self, table: str) -> int:
        if table not in self.tables | self.views:
            return 0
        return int(self._connection.execute(f"SELECT COUNT(*) FROM {_quoted(table)}").fetchone()[0])


@contextmanager
def opened(source: Source) -> Iterator[Database]:
    """The file as a database; a compressed one is unpacked to a temporary file first. Nothing is written beside it."""
    with source.path.open("rb") as raw:
        plain = raw.read(len(MAGIC)) == MAGIC
    with tempfile.TemporaryDirectory() as folder:
        path = source.path
        if not plain:
            path = Path(folder) / "export.sqlite"
            _unpack(source, path)
        address = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            connection.execute("PRAGMA trusted_schema = OFF")
            yield Database(connection)


def _unpack(source: Source, path: Path) -> None:
    """Write the decompressed file to ``path``. Raises BadInput where it would take most of the disk."""
    room = shutil.disk_usage(path.parent).free // 2
    with source.open() as stream, path.open("wb") as target:
        while piece := stream.read(_PIECE):
            room -= len(piece)
            if room < 0:
                advice = "Unpack it yourself where there is room, and name the unpacked file"
                raise BadInput(
                    source.name, f"unpacked it takes more than half of what is free in {path.parent}", advice
                )
            target.write(piece)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
