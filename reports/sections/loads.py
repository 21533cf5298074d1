"""Goodput and latency against load, where a run was measured at several; the gaps above are those of one load."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

from profiler.model.diagnosis import Diagnosis
from profiler.reports.goodput_tables import objective, tables
from profiler.reports.load_figures import load_figures
from profiler.reports.page import Section, fragment


def draw(diagnosis: Diagnosis) -> Markup:
    """The curves with the SLO, every number as a table, and what is not known; empty where there is one load."""
    loads = diagnosis.loads
    if loads is None:
        return Markup("")
    return Markup("").join(
        (
            fragment("loads.html.j2", headline=loads.headline, objective=objective(loads)),
            fragment("load_curves.html.j2", figures=load_figures(loads)),
            fragment("goodput_tables.html.j2", tables=tables(loads)),
            fragment("lines.html.j2", lines=loads.notes),
        )
    )


SECTION: Final = Section("loads", "Against load", draw)
