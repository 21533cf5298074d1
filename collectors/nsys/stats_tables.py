"""The tables in ``nsys stats`` output, CSV or JSON: one file may hold several reports between lines of progress.

A column's unit stands in its heading (``Total Time (ns)``, older: ``Start(nsec)``) and follows ``--timeunit``.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from json import JSONDecoder
from typing import Final

from profiler.collectors.call_totals import nanoseconds

_HEADING: Final = re.compile(r"([^()]+)\(([^()]+)\)\s*")
_PROGRESS: Final = re.compile(r"\s*(?:Processing|Generating|Exporting|NOTICE|SKIPPED|Using|It is assumed|Consider) ?\b")
_HEADED: Final = re.compile(r'\s{0,9}"?(?:Time|Start|Total|NVTX Range|Name)\b')
_REPORT: Final = re.compile(r"Processing \[[^\]]*\] with \[(?:[^\]]*/)?(\w+)(?:\.py)?[^\]]*\]")
_UNITS: Final = {"ns": 1, "nsec": 1, "us": 1000, "usec": 1000, "μs": 1000, "ms": 10**6, "msec": 10**6, "s": 10**9,
                 "sec": 10**9}  # fmt: skip
_MARKS: Final = ({"Total Time", "Time"}, {"Start", "Duration"}, {"Total", "Count", "Operation"})


@dataclass
class StatsTable:
    """One report: ``columns`` without their units, ``units`` of those that have one, rows of text."""

    columns: tuple[str, ...]
    units: dict[str, str]
    line: int
    report: str = ""
    rows: list[list[str]] = field(default_factory=list[list[str]])
    ragged: int = 0

    def cells(self, *names: str) -> list[str]:
        """The first of these columns that is there; empty texts where none is."""
        at = next((self.columns.index(name) for name in names if name in self.columns), None)
        return [""] * len(self.rows) if at is None else [row[at] for row in self.rows]

    def times(self, column: str) -> list[int | None]:
        """A column of times in ns; None where a cell is none."""
        unit = _UNITS.get(self.units.get(column, "ns"), 1)
        return [nanoseconds(cell, unit) for cell in self.cells(column)]

    def whole(self, *names: str) -> list[int | None]:
        """A column of counts or ids; None where a cell is none."""
        return [int(cell) if cell.isdecimal() and len(cell) < 19 else None for cell in self.cells(*names)]


def tables(text: str) -> list[StatsTable]:
    """Every table of the text, in order; one without rows is kept."""
    lines = text.splitlines()
    first = next((line for line in lines if line.strip() and not _PROGRESS.match(line)), "")
    return list(_json(lines) if first.lstrip().startswith("[") else _csv(lines))


def is_heading(cells: Sequence[str]) -> bool:
    """Whether a line's cells are the headings of a report that lists events or adds them up."""
    columns, units = _headings(cells)
    return any(marks <= set(columns) for marks in _MARKS) and bool(units)


def _headings(cells: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    columns, units = [], {}
    for cell in cells:
        match = _HEADING.fullmatch(cell)
        name = (match[1] if match else cell).strip()
        columns.append(name)
        if match:
            units[name] = match[2]
    return tuple(columns), units


def _csv(lines: Sequence[str]) -> Iterator[StatsTable]:
    table: StatsTable | None = None
    report = ""
    # A cell of a name never spans lines, so a quote that is cut does not swallow the lines after it.
    for number, line in enumerate(lines, 1):
        if not line.strip() or _PROGRESS.match(line):
            match = _REPORT.search(line)
            report = match[1] if match else report
            if table is not None:
                yield table
            table = None
            continue
        cells = next(csv.reader([line]), [])
        # Of a million rows hardly one has to be looked at closely.
        if _HEADED.match(line) and is_heading(cells):
            if table is not None:
                yield table
            table, report = StatsTable(*_headings(cells), number, report), ""
        elif table is not None:
            # An odd quote is a name that breaks off.
            if len(cells) == len(table.columns) and line.count('"') % 2 == 0:
                table.rows.append(cells)
            else:
                table.ragged += 1
    if table is not None:
        yield table


def _json(lines: Sequence[str]) -> Iterator[StatsTable]:
    decoder = JSONDecoder()
    text = "\n".join("" if _PROGRESS.match(line) else line for line in lines)
    tables: dict[tuple[str, ...], StatsTable] = {}
    at = 0
    while at < len(text):
        if text[at] in " \t\r\n,[]":
            if text[at] == "]":
                # The next list is another report, also where its headings are the same.
                yield from tables.values()
                tables = {}
            at += 1
            continue
        try:
            record, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            for table in tables.values():
                table.ragged += 1
            break
        if isinstance(record, dict):
            keys = tuple(record)
            if keys not in tables:
                tables[keys] = StatsTable(*_headings(keys), text.count("\n", 0, at) + 1)
            cells = ("" if value is None or isinstance(value, bool) else str(value) for value in record.values())
            tables[keys].rows.append(list(cells))
        at = end
    yield from tables.values()
