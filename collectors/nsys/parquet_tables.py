"""A folder of Parquet files as an export's tables; imported only where one is read, for polars takes long to load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from profiler.collectors.database import BATCH, LONGEST_BLOB, MISSING, Take
from profiler.collectors.nsys.parquet_bytes import column_bytes
from profiler.model.requests import Ints

# Rows that are decoded together: as many as Arrow's writers put into a row group at most. Smaller pieces would have
# parts of a group decoded again.
PIECE: Final = 1 << 20
# Some damage makes polars panic, which is no Exception.
DAMAGED: Final = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError)


class TableDamaged(Exception):
    """A table's file can't be read; ``reason`` is one line."""

    def __init__(self, table: str, error: BaseException) -> None:
        self.table, self.reason = table, str(error).strip().partition("\n")[0]
        if isinstance(error, pl.exceptions.PanicException):
            self.reason = "its contents are not where its footer says"
        super().__init__(f"{table}: {self.reason}")


class ParquetTables:
    """A folder of tables; the same questions as ``Database`` answers. What can't be read raises TableDamaged."""

    def __init__(self, folder: Path) -> None:
        self._files = {path.stem: path for path in sorted(folder.glob("*.parquet"))}
        self.tables: set[str] = set(self._files)
        # (table, column) -> how many of its texts hold bytes that are no UTF-8 and were replaced.
        self.replaced: dict[tuple[str, str], int] = {}

    def leave_out(self, table: str) -> None:
        """Answer from now on as if the export did not have the table."""
        del self._files[table]
        self.tables.discard(table)

    def columns(self, table: str) -> set[str]:
        """The table's columns; none where it has no file."""
        if table not in self._files:
            return set()
        with _reading(table):
            return set(pl.scan_parquet(self._files[table], glob=False).collect_schema().names())

    def integers(self, table: str, wanted: Sequence[str]) -> dict[str, Ints]:
        """Integer columns of equal length; a missing column, a null and a text that is no integer are MISSING."""
        frame = self._frame(table, wanted)
        with _reading(table):
            return _integers(frame, wanted)

    def texts(self, table: str, column: str) -> list[str]:
        """A text column; nulls and a missing column are empty strings."""
        if column not in self.columns(table):
            return [""] * self._count(table)
        with _reading(table):
            try:
                found = pl.read_parquet(self._files[table], columns=[column], glob=False)[column].cast(pl.String)
            except pl.exceptions.ComputeError:
                # Damage, or bytes that are no UTF-8: then each text is read for itself.
                raw: list[bytes] = column_bytes(self._files[table], column).fill_null(b"").to_list()
            else:
                return found.fill_null("").to_list()
        texts = [value.decode("utf-8", "replace") for value in raw]
        self.replaced[table, column] = sum(text.encode() != value for text, value in zip(texts, raw, strict=True))
        return texts

    def each(self, table: str, wanted: Sequence[str], take: Take, text: str = "") -> None:
        """See ``Tables.each``; some PIECE of rows are held, a column ``text`` whole."""
        known: dict[str, int] = {}
        texts: list[str] = []
        words = self.texts(table, text) if text in self.columns(table) else None
        for first, piece in self._pieces(table, wanted):
            for at in range(0, len(piece), BATCH):
                part = piece.slice(at, BATCH)
                codes = np.full(len(part), MISSING, np.int32)
                if words is not None:
                    new = words[first + at : first + at + len(part)]
                    codes[:] = [known.setdefault(word, len(known)) if word else MISSING for word in new]
                    texts.extend(list(known)[len(texts) :])
                with _reading(table):
                    columns = _integers(part, wanted)
                take(columns, codes, texts)

    def blobs(self, table: str, wanted: Sequence[str], column: str) -> Iterator[tuple[dict[str, Ints], list[bytes]]]:
        """See ``Tables.blobs``; Nsight may call the column a text."""
        if column not in self.columns(table):
            return
        with _reading(table):
            try:
                values = pl.read_parquet(self._files[table], columns=[column], glob=False)[column].cast(pl.Binary)
            except pl.exceptions.ComputeError:
                values = column_bytes(self._files[table], column)
        rows = (values.bin.size() > 0) & (values.bin.size() <= LONGEST_BLOB)
        chosen = rows.fill_null(value=False).to_numpy()
        columns = {name: whole[chosen] for name, whole in self.integers(table, wanted).items()}
        yield columns, values.filter(chosen).to_list()

    def pairs(self, table: str, key: str, value: str) -> list[tuple[str, str]]:
        """(key, value) texts of a table; none where it or a column is missing."""
        if not {key, value} <= self.columns(table):
            return []
        return list(zip(self.texts(table, key), self.texts(table, value), strict=True))

    def _pieces(self, table: str, wanted: Sequence[str]) -> Iterator[tuple[int, pl.DataFrame]]:
        """(number of the first row, rows) of the table, one after the other, with those of the columns that it has."""
        there = self.columns(table)
        present = [name for name in dict.fromkeys(wanted) if name in there]
        rows = self._count(table)
        if not present:
            yield 0, pl.DataFrame(height=rows)
            return
        for first in range(0, rows, PIECE):
            with _reading(table):
                chosen = pl.scan_parquet(self._files[table], glob=False).select(present)
                piece = chosen.slice(first, PIECE).collect()
            yield first, piece

    def _frame(self, table: str, wanted: Sequence[str]) -> pl.DataFrame:
        """Those of the columns that the table has; where it has none, rows without any."""
        there = self.columns(table)
        present = [name for name in dict.fromkeys(wanted) if name in there]
        if not present:
            return pl.DataFrame(height=self._count(table))
        with _reading(table):
            return pl.read_parquet(self._files[table], columns=present, glob=False)

    def _count(self, table: str) -> int:
        if table not in self._files:
            return 0
        with _reading(table):
            return int(pl.scan_parquet(self._files[table], glob=False).select(pl.len()).collect().item())


def _integers(frame: pl.DataFrame, wanted: Sequence[str]) -> dict[str, Ints]:
    none = np.full(len(frame), MISSING, np.int64)
    return {
        name: frame[name].cast(pl.Int64, strict=False).fill_null(MISSING).to_numpy() if name in frame else none
        for name in wanted
    }


@contextmanager
def _reading(table: str) -> Iterator[None]:
    """Whatever is raised for what the table's file holds is said of the table."""
    try:
        yield
    except DAMAGED as error:
        raise TableDamaged(table, error) from error
