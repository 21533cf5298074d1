"""Nsight Systems exports as a folder of Parquet files (``nsys export --type parquetdir``): one file a table.

The kernel table's file stands for the folder and reads the others with it; where a capture has no kernels, the file of
the export's own metadata does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from profiler.collectors.database import MISSING
from profiler.collectors.nsys.sqlite import CALLS, COPIES, FILLS, GRAPHS, KERNELS, RANGES, read_tables
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.requests import Ints
from profiler.model.run import Reading

_MAGIC: Final = b"PAR1"
_KNOWN: Final = frozenset({KERNELS, COPIES, FILLS, CALLS, GRAPHS, RANGES, "StringIds", "META_DATA_EXPORT",
                           "META_DATA_CAPTURE", "PROCESSES", "ThreadNames", "DIAGNOSTIC_EVENT"})  # fmt: skip
_FIRST: Final = (KERNELS, GRAPHS, CALLS, RANGES, "META_DATA_EXPORT")


class ParquetTables:
    """A folder of tables; the same questions as ``Database`` answers."""

    def __init__(self, folder: Path) -> None:
        self._files = {path.stem: path for path in sorted(folder.glob("*.parquet"))}
        self.tables: set[str] = set(self._files)

    def columns(self, table: str) -> set[str]:
        """The table's columns; none where it has no file."""
        if table not in self._files:
            return set()
        return set(pl.read_parquet_schema(self._files[table]))

    def integers(self, table: str, wanted: Sequence[str]) -> dict[str, Ints]:
        """Integer columns of equal length; a missing column, a null and a text that is no integer are MISSING."""
        present = [name for name in wanted if name in self.columns(table)]
        if table not in self._files or not present:
            rows = self._count(table)
            return {name: np.full(rows, MISSING, np.int64) for name in wanted}
        frame = pl.read_parquet(self._files[table], columns=present)
        cast = frame.select(pl.col(name).cast(pl.Int64, strict=False).fill_null(MISSING) for name in present)
        none = np.full(len(frame), MISSING, np.int64)
        return {name: cast[name].to_numpy().copy() if name in present else none for name in wanted}

    def texts(self, table: str, column: str) -> list[str]:
        """A text column; nulls and a missing column are empty strings."""
        if column not in self.columns(table):
            return [""] * self._count(table)
        return pl.read_parquet(self._files[table], columns=[column])[column].cast(pl.String).fill_null("").to_list()

    def pairs(self, table: str, key: str, value: str) -> list[tuple[str, str]]:
        """(key, value) texts of a table; none where it or a column is missing."""
        if not {key, value} <= self.columns(table):
            return []
        return list(zip(self.texts(table, key), self.texts(table, value), strict=True))

    def _count(self, table: str) -> int:
        if table not in self._files:
            return 0
        return int(pl.scan_parquet(self._files[table]).select(pl.len()).collect().item())


class NsysParquet:
    """The format; see ``profiler.model.extension.Format``."""

    name = "nsys_parquetdir"
    version = 2

    def sniff(self, head: bytes, name: str) -> float:
        """A Parquet file named like one of Nsight's tables."""
        return 0.97 if head.startswith(_MAGIC) and Path(name).stem in _KNOWN else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """All processes with device work, from the whole folder. Raises BadInput where a table is damaged."""
        folder = source.path.parent
        first = next((table for table in _FIRST if (folder / f"{table}.parquet").is_file()), source.path.stem)
        if source.path.stem != first:
            detail = f"read together with {first}.parquet, which stands for this export"
            return Reading(problems=(Problem(source.name, "info", detail),))
        try:
            return read_tables(ParquetTables(folder), source.name, engines)
        except (pl.exceptions.PolarsError, OSError) as error:
            reason = str(error).splitlines()[0]
            advice = "Export the report again: nsys export --type parquetdir report.nsys-rep"
            raise BadInput(source.name, f"a table of the export is damaged: {reason}", advice) from error


FORMAT: Final = NsysParquet()
