"""Goodput and latency against load, on a terminal and as Markdown."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from profiler.model.goodput import Goodput
from profiler.reports.goodput_tables import Lines, objective, tables
from profiler.reports.language import said
from profiler.reports.markdown import escape, table
from profiler.reports.safe_text import plain
from profiler.reports.translated import translated_goodput


def print_goodput(document: Goodput, console: Console, verbose: bool) -> None:
    """The headline, the tables, and what is not known; ``verbose`` adds the problems of the files."""
    document = translated_goodput(document)
    console.print(Text(plain(document.headline), "bold"))
    if document.slo:
        console.print(Text(_slo(document)))
    for one in tables(document):
        console.print()
        console.print(Text(one.title, "bold cyan"))
        console.print(_drawn(one))
    shown = [*document.notes, *(f"{p.run}/{p.file}: {p.detail}" for p in document.problems if verbose)]
    if shown:
        console.print()
    for line in shown:
        console.print(Text(plain(line), "dim"))


def _slo(document: Goodput) -> str:
    return said("SLO: {objective}; of requests sent, failed ones are misses.", objective=objective(document))


def _drawn(lines: Lines) -> Table:
    drawn = Table(box=None, pad_edge=False)
    for index, column in enumerate(lines.columns):
        drawn.add_column(column, justify="right" if index else "left", overflow="fold")
    for row in lines.rows:
        drawn.add_row(*(Text(cell) for cell in row))
    return drawn


def to_goodput_markdown(document: Goodput) -> str:
    """The same tables for a pull request."""
    document = translated_goodput(document)
    blocks = [f"**{escape(document.headline)}**"]
    if document.slo:
        blocks.append(_slo(document))
    for one in tables(document):
        body = [[escape(cell) for cell in row] for row in one.rows]
        heads = [escape(column) for column in one.columns]
        blocks.append("\n".join([f"#### {escape(one.title)}", "", *table(heads, body, len(heads) - 1)]))
    blocks += ["\n".join(f"- {escape(note)}" for note in document.notes)] if document.notes else []
    return "\n\n".join(blocks) + "\n"
