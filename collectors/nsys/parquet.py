"""Nsight Systems exports as a folder of Parquet files (``nsys export --type parquetdir``): one file a table.

The kernel table's file stands for the folder and reads the others with it; where a capture has no kernels, the file of
the export's own metadata does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from profiler.collectors.nsys.graph_nodes import NODES
from profiler.collectors.nsys.nccl_payloads import ENTRIES, SCHEMAS
from profiler.collectors.nsys.sqlite import CALLS, COPIES, FILLS, GRAPHS, KERNELS, RANGES, read_tables
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.run import Reading

_MAGIC: Final = b"PAR1"
_KNOWN: Final = frozenset({KERNELS, COPIES, FILLS, CALLS, GRAPHS, RANGES, "StringIds", "META_DATA_EXPORT",
                           "META_DATA_CAPTURE", NODES, SCHEMAS, ENTRIES, "PROCESSES", "ThreadNames",
                           "DIAGNOSTIC_EVENT"})  # fmt: skip
_FIRST: Final = (KERNELS, GRAPHS, CALLS, RANGES, "META_DATA_EXPORT")


class NsysParquet:
    """The format; see ``profiler.model.extension.Format``."""

    name = "nsys_parquetdir"
    version = 5

    def sniff(self, head: bytes, name: str) -> float:
        """A Parquet file named like one of Nsight's tables."""
        return 0.97 if head.startswith(_MAGIC) and Path(name).stem in _KNOWN else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """All processes with device work, from the whole folder. A damaged table is left out; where it is the one that
        stands for the export, BadInput is raised."""
        folder = source.path.parent
        first = next((table for table in _FIRST if (folder / f"{table}.parquet").is_file()), source.path.stem)
        if source.path.stem != first:
            detail = f"read together with {first}.parquet, which stands for this export"
            return Reading(problems=(Problem(source.name, "info", detail),))
        from profiler.collectors.nsys.parquet_tables import ParquetTables, TableDamaged

        tables, problems = ParquetTables(folder), list[Problem]()
        while True:
            try:
                reading = read_tables(tables, source.name, engines)
                break
            except TableDamaged as error:
                if error.table == first:
                    advice = "Export the report again: nsys export --type parquetdir report.nsys-rep"
                    reason = f"a table of the export is damaged: {error.reason}"
                    raise BadInput(source.name, reason, advice) from error
                tables.leave_out(error.table)
                detail = f"a table of the export is damaged and was left out: {error.reason}"
                problems.append(Problem(source.name, "error", detail, error.table))
        for (table, column), count in tables.replaced.items():
            detail = "bytes in names are not UTF-8 and were replaced"
            problems.append(Problem(source.name, "info", detail, f"{table}.{column}", count))
        return replace(reading, problems=(*problems, *reading.problems))


FORMAT: Final = NsysParquet()
