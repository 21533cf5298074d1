"""A profiler's SQLite file, read without trusting it: read-only, bounded, with columns that may be missing."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
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
# Bytes of a value that is read as such; payloads are some dozens.
LONGEST_BLOB: Final = 4096
_PIECE: Final = 16 << 20


# What reading a damaged file raises: SQLite asks for memory by lengths that it finds in the file, and names damaged
# schema text in its messages, which then need not be UTF-8.
DAMAGED: Final = (sqlite3.Error, UnicodeDecodeError, MemoryError)
_LONGEST_REASON: Final = 200


Take = Callable[[Mapping[str, Ints], NDArray[np.int32], list[str]], None]


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

    def each(self, table: str, wanted: Sequence[str], take: Take, text: str = "") -> None:
        """Call ``take`` with the table's rows in their order, some BATCH of them at once: integer columns as
        ``integers`` gives them (buffers that are used again), and the column ``text`` as indexes into a list of its
        different texts, which grows from call to call; MISSING where it is empty, has no value, or is not asked for."""
        ...

    def blobs(self, table: str, wanted: Sequence[str], column: str) -> Iterator[tuple[dict[str, Ints], list[bytes]]]:
        """The rows of which ``column`` holds bytes, LONGEST_BLOB at most, some BATCH of them at once: integer columns
        as ``integers`` gives them, and the bytes."""
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
        at = 0

        def take(columns: Mapping[str, Ints], codes: NDArray[np.int32], texts: list[str]) -> None:
            nonlocal at
            fitting = min(len(codes), rows - at)
            for name in chosen:
                found[name][at : at + fitting] = columns[name][:fitting]
            at += fitting

        if chosen and rows:
            self.each(table, chosen, take)
        return {name: column[:at] for name, column in found.items()} if chosen else found

    def each(self, table: str, wanted: Sequence[str], take: Take, text: str = "") -> None:
        """See ``Tables.each``; the compiled reader goes as far as it can, SQLite reads the rest."""
        present = self.columns(table)
        size = self._at_most(table, BATCH) if present else 0
        chosen = [name for name in dict.fromkeys(wanted) if name in present]
        if not size:
            return
        columns = {name: np.full(size, MISSING, np.int64) for name in wanted}
        codes = np.full(size, MISSING, np.int32)
        known: dict[str, int] = {}
        texts: list[str] = []
        given = 0

        def give(count: int, new: list[bytes]) -> None:
            nonlocal given
            texts.extend(raw.decode("utf-8", "replace") for raw in new)
            given += count
            take({name: column[:count] for name, column in columns.items()}, codes[:count], texts)

        coded = text if text in present else ""
        if self._quick(table, {name: columns[name] for name in chosen}, coded, codes, give):
            return
        known.update((name, code) for code, name in reversed(list(enumerate(texts))))
        expressions = [f"COALESCE(CAST({_quoted(name)} AS INTEGER), {MISSING})" for name in chosen]
        if coded:
            expressions.append(f"COALESCE({_quoted(coded)}, '')")
        # Where none of the columns exists the rows still count.
        query = f"SELECT {', '.join(expressions or ['0'])} FROM {self._source(table)} LIMIT -1 OFFSET {given}"
        cursor = self._connection.execute(query)
        while batch := cursor.fetchmany(size):
            block = np.array([row[:-1] for row in batch] if coded else batch, np.int64)
            for index, name in enumerate(chosen):
                columns[name][: len(batch)] = block[:, index]
            for at, row in enumerate(batch if coded else ()):
                word = str(row[-1])
                if word and word not in known:
                    known[word] = len(texts)
                    texts.append(word)
                codes[at] = known[word] if word else MISSING
            give(len(batch), [])

    def texts(self, table: str, column: str) -> list[str]:
        """A text column; NULL and a missing column are empty strings."""
        if column not in self.columns(table):
            return [""] * self._count(table)
        query = f"SELECT COALESCE({_quoted(column)}, '') FROM {self._source(table)}"
        return [str(row[0]) for row in self._connection.execute(query)]

    def blobs(self, table: str, wanted: Sequence[str], column: str) -> Iterator[tuple[dict[str, Ints], list[bytes]]]:
        """See ``Tables.blobs``; a text counts as its bytes."""
        present = self.columns(table)
        if column not in present:
            return
        expressions = [
            f"COALESCE(CAST({_quoted(name)} AS INTEGER), {MISSING})" if name in present else str(MISSING)
            for name in wanted
        ]
        value = f"CAST({_quoted(column)} AS BLOB)"
        query = f"SELECT {', '.join([*expressions, value])} FROM {self._source(table)} "
        there = f"{_quoted(column)} IS NOT NULL AND LENGTH({value}) BETWEEN 1 AND {LONGEST_BLOB}"
        cursor = self._connection.execute(f"{query}WHERE {there}")
        while batch := cursor.fetchmany(BATCH):
            block = np.array([row[:-1] for row in batch], np.int64)
            yield {name: block[:, index] for index, name in enumerate(wanted)}, [row[-1] for row in batch]

    def pairs(self, table: str, key: str, value: str) -> list[tuple[str, str]]:
        """(key, value) texts of a table; none where it or a column is missing."""
        if not {key, value} <= self.columns(table):
            return []
        query = f"SELECT {_quoted(key)}, {_quoted(value)} FROM {_quoted(table)}"
        return [(str(row[0]), str(row[1])) for row in self._connection.execute(query)]

    def _quick(
        self, table: str, columns: Mapping[str, Ints], text: str, codes: NDArray[np.int32],
        give: Callable[[int, list[bytes]], None],
    ) -> bool:  # fmt: skip
        """Read the table's pages into the buffers; False where SQLite has to read what was not given."""
        layout = None if _rows is None or not (columns or text) else self._layout(table)
        if layout is None:
            return False
        root, positions, rowid = layout
        wanted = sorted((positions[name], column) for name, column in columns.items())
        place = positions[text] if text else -1
        return _rows.read(self._file.fileno(), root, wanted, rowid, place, codes, give)

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

    def _at_most(self, table: str, most: int) -> int:
        """The table's rows, ``most`` where there are more: that is known without going through all of it."""
        query = f"SELECT COUNT(*) FROM (SELECT 1 FROM {self._source(table)} LIMIT {most})"
        return int(self._connection.execute(query).fetchone()[0])

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


def damage(error: BaseException) -> str:
    """Why a file raised one of DAMAGED, on one line, however much of the file stands in the message."""
    said = "it asks for more memory than there is" if isinstance(error, MemoryError) else " ".join(str(error).split())
    return said if len(said) <= _LONGEST_REASON else f"{said[:_LONGEST_REASON]}…"


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
