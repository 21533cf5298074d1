"""A profiler's SQLite file, read without trusting it: read-only, bounded, with columns that may be missing."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Protocol
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from profiler.errors import BadInput
from profiler.model.extension import Source
from profiler.model.requests import Ints

try:
    from profiler.collectors import _rows
except ImportError:  # built without a C compiler; SQLite reads everything
    _rows = None  # type: ignore[assignment]

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

    def coded(self, table: str, column: str) -> tuple[NDArray[np.int32], list[str]]:
        """A text column as indexes into its different texts, MISSING where it is empty or has no value."""
        ...

    def pairs(self, table: str, key: str, value: str) -> list[tuple[str, str]]:
        """(key, value) texts of a table."""
        ...


class Database:
    """One open file. A damaged table raises ``sqlite3.DatabaseError`` where it is read."""

    def __init__(self, connection: sqlite3.Connection, file: BinaryIO) -> None:
        self._connection, self._file = connection, file
        self._counts: dict[str, int] = {}
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
        if self._filled(table, {name: found[name] for name in chosen}) is not None:
            return found
        expressions = ", ".join(f"COALESCE(CAST({_quoted(name)} AS INTEGER), {MISSING})" for name in chosen)
        cursor = self._connection.execute(f"SELECT {expressions} FROM {self._source(table)}")
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
        query = f"SELECT COALESCE({_quoted(column)}, '') FROM {self._source(table)}"
        return [str(row[0]) for row in self._connection.execute(query)]

    def coded(self, table: str, column: str) -> tuple[NDArray[np.int32], list[str]]:
        """A text column as indexes into its different texts, MISSING where it is empty or has no value."""
        codes = np.full(self._count(table), MISSING, np.int32)
        if column not in self.columns(table):
            return codes, []
        found = self._filled(table, {}, column, codes)
        if found is not None:
            return codes, [text.decode("utf-8", "replace") for text in found]
        return code_texts(self.texts(table, column))

    def pairs(self, table: str, key: str, value: str) -> list[tuple[str, str]]:
        """(key, value) texts of a table; none where it or a column is missing."""
        if not {key, value} <= self.columns(table):
            return []
        query = f"SELECT {_quoted(key)}, {_quoted(value)} FROM {_quoted(table)}"
        return [(str(row[0]), str(row[1])) for row in self._connection.execute(query)]

    def _filled(
        self, table: str, columns: Mapping[str, Ints], text: str = "", codes: NDArray[np.int32] | None = None
    ) -> list[bytes] | None:
        """Fill the columns from the table's pages; None where SQLite has to read them (they then hold anything)."""
        layout = None if _rows is None else self._layout(table)
        if layout is None:
            return None
        root, positions, rowid = layout
        wanted = sorted((positions[name], column) for name, column in columns.items())
        rows = self._count(table)
        return _rows.read(self._file.fileno(), root, rows, wanted, rowid, positions.get(text, -1), codes)

    def _layout(self, table: str) -> tuple[int, dict[str, int], int] | None:
        """(first page, position of each column in a row, position of the one that is the row's number or -1)."""
        query = "SELECT rootpage, sql FROM sqlite_master WHERE type = 'table' AND name = ?"
        stored = self._connection.execute(query, (table,)).fetchone()
        columns = self._connection.execute(f"PRAGMA table_xinfo({_quoted(table)})").fetchall()
        if stored is None or not isinstance(stored[1], str) or any(hidden for *_, hidden in columns):
            return None
        keys = [(position, str(kind)) for position, _, kind, _, _, key, _ in columns if key]
        rowid = -1
        if len(keys) == 1 and keys[0][1].upper() == "INTEGER":
            # Sorted downwards, the key would be a column like any other; rare enough to leave that to SQLite.
            if "DESC" in stored[1].upper():
                return None
            rowid = keys[0][0]
        return int(stored[0]), {str(name): position for position, name, *_ in columns}, rowid

    def _source(self, table: str) -> str:
        # Rows come in the order in which they are stored, whatever index would also hold the columns.
        return _quoted(table) + (" NOT INDEXED" if table in self.tables else "")

    def _count(self, table: str) -> int:
        if table not in self.tables | self.views:
            return 0
        if table not in self._counts:
            query = f"SELECT COUNT(*) FROM {_quoted(table)}"
            self._counts[table] = int(self._connection.execute(query).fetchone()[0])
        return self._counts[table]


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
        with closing(sqlite3.connect(address, uri=True)) as connection, path.open("rb") as file:
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            connection.execute("PRAGMA trusted_schema = OFF")
            yield Database(connection, file)


def code_texts(texts: Sequence[str]) -> tuple[NDArray[np.int32], list[str]]:
    """Texts as indexes into the different ones, in the order in which they first occur; MISSING where empty."""
    known: dict[str, int] = {}
    codes = [known.setdefault(text, len(known)) if text else MISSING for text in texts]
    return np.array(codes, np.int32), list(known)


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
