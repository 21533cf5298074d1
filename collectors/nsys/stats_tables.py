"""The tables in ``nsys stats`` output: CSV, JSON or drawn as text, as ``nsys profile --stats=true`` prints them.

One file may hold several reports between lines of progress and of the profiled program. A column's unit stands in its
heading (``Total Time (ns)``, older: ``Start(nsec)``) and follows ``--timeunit``; drawn tables of 2019 and 2020 have it
in their title, always ns. Drawn tables group digits and end a text after 100 characters with an ellipsis.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from json import JSONDecoder
from typing import Final

from profiler.collectors.call_totals import nanoseconds

_HEADING: Final = re.compile(r"([^()]+)\(([^()]+)\)\s*")
_PROGRESS: Final = re.compile(
    r"\s*(?:(?:Processing|Generating|Exporting|NOTICE|SKIPPED|Using|It is assumed|Consider) ?\b|\*\* |\[\d+/\d+\] )"
)
_HEADED: Final = re.compile(r'\s{0,9}"?(?:Time|Start|Total|NVTX Range|Name|Range)\b')
_REPORT: Final = re.compile(
    r"Processing \[[^\]]*\] with \[(?:[^\]]*/)?(\w+)(?:\.py)?[^\]]*\]|Executing '(\w+)'|\*\* .*\((\w+)\):\s*$"
)
# The line under the headings of a drawn table: where it has dashes, there are the columns.
_RULE: Final = re.compile(r"[ \t]*-{2,}(?: +-{2,})+[ \t]*")
_DRAWN: Final = re.compile(
    r"(?m)^([^\n]*\b(?:Total Time|Duration|Total Proj Time)\b[^\n]*)\n([ \t]*-{2,}(?: +-{2,})+[ \t\r]*)$"
)
_GROUPED: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
CUT: Final = "…"
_UNITS: Final = {"ns": 1, "nsec": 1, "us": 1000, "usec": 1000, "μs": 1000, "ms": 10**6, "msec": 10**6, "s": 10**9,
                 "sec": 10**9}  # fmt: skip
_MARKS: Final = ({"Total Time", "Time"}, {"Start", "Duration"}, {"Total", "Count", "Operation"},
                 {"Range", "Total Proj Time"}, {"Projected Start", "Projected Duration"})  # fmt: skip


@dataclass
class StatsTable:
    """One report: ``columns`` without their units, ``units`` of those that have one, rows of text.

    ``ragged`` lines had other columns and were left out; of ``cut`` rows a text is shortened.
    """

    columns: tuple[str, ...]
    units: dict[str, str]
    line: int
    report: str = ""
    rows: list[list[str]] = field(default_factory=list[list[str]])
    ragged: int = 0
    cut: int = 0

    def cells(self, *names: str) -> list[str]:
        """The first of these columns that is there; empty texts where none is."""
        at = next((self.columns.index(name) for name in names if name in self.columns), None)
        return [""] * len(self.rows) if at is None else [row[at] for row in self.rows]

    def times(self, column: str) -> list[int | None]:
        """A column of times in ns; None where a cell is none."""
        unit = _UNITS.get(self.units.get(column, "ns"), 1)
        return [nanoseconds(ungrouped(cell), unit) for cell in self.cells(column)]

    def whole(self, *names: str) -> list[int | None]:
        """A column of counts or ids; None where a cell is none."""
        cells = map(ungrouped, self.cells(*names))
        return [int(cell) if cell.isdecimal() and len(cell) < 19 else None for cell in cells]


def ungrouped(cell: str) -> str:
    """A number without the commas between groups of three digits; any other text as it is."""
    return cell.replace(",", "") if _GROUPED.fullmatch(cell) else cell


def is_drawn(text: str) -> bool:
    """Whether the text holds a drawn table of times."""
    return any(is_heading(_drawn_cells(match[1], _spans(match[2]))) for match in _DRAWN.finditer(text))


def tables(text: str) -> list[StatsTable]:
    """Every table of the text, in order; one without rows is kept."""
    lines = text.splitlines()
    first = next((line for line in lines if line.strip() and not _PROGRESS.match(line)), "")
    if first.lstrip().startswith("["):
        return list(_json(lines))
    return list(_drawn(lines) if is_drawn(text) else _csv(lines))


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
            report = _named(line) or report
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


def _named(line: str) -> str:
    """The report that a line of progress or a title announces; an empty text where it names none."""
    match = _REPORT.search(line)
    return "" if match is None else next(filter(None, match.groups()))


def _drawn(lines: Sequence[str]) -> Iterator[StatsTable]:
    table: StatsTable | None = None
    spans: list[tuple[int, int]] = []
    report = above = ""
    for number, line in enumerate(lines, 1):
        if not line.strip() or _PROGRESS.match(line):
            report = _named(line) or report
            if table is not None:
                yield table
            table = None
        elif _RULE.fullmatch(line):
            spans = _spans(line)
            heading = _drawn_cells(above, spans)
            if is_heading(heading):
                table, report = StatsTable(*_headings(heading), number - 1, report), ""
        elif table is not None:
            if any(line[end:start].strip() for (_, end), (start, _) in pairwise(spans)):
                table.ragged += 1
            else:
                table.rows.append(cells := _drawn_cells(line, spans))
                table.cut += any(cell.endswith(CUT) for cell in cells)
        above = line
    if table is not None:
        yield table


def _spans(rule: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer("-+", rule)]


def _drawn_cells(line: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """A line's cells; the last reaches to the line's end."""
    return [line[start:end].strip() for start, end in spans[:-1]] + [line[spans[-1][0] :].strip()]


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
