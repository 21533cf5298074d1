"""Goodput and latency against load as one HTML page that needs nothing but a browser."""

from __future__ import annotations

from markupsafe import Markup

from profiler.model.goodput import Goodput
from profiler.reports.goodput_tables import objective, tables
from profiler.reports.load_figures import load_figures
from profiler.reports.page import Drawn, asset, fragment, whole
from profiler.reports.translated import translated_goodput


def to_goodput_html(document: Goodput) -> str:
    """The whole page: a curve a number, and every number as a table."""
    document = translated_goodput(document)
    sections = [
        Drawn("curves", "Against load", fragment("load_curves.html.j2", figures=load_figures(document))),
        Drawn("tables", "The numbers", fragment("goodput_tables.html.j2", tables=tables(document))),
        Drawn(
            "notes",
            "What is not known",
            fragment("lines.html.j2", lines=document.notes) if document.notes else Markup(""),
        ),
    ]
    return whole(
        kind="Goodput",
        title=" and ".join(dict.fromkeys(run.name for run in document.runs)),
        head=fragment("goodput_head.html.j2", document=document, objective=objective(document)),
        sections=[section for section in sections if section.content],
        scripts=[asset("plotly-basic.min.js"), asset("report.js")],
        left_out=(),
    )
