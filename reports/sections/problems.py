"""What was wrong with the input files, errors first."""

from __future__ import annotations

from markupsafe import Markup

from profiler.model.diagnosis import Diagnosis
from profiler.reports.breakdown import ordered_problems
from profiler.reports.page import Section, fragment


def draw(diagnosis: Diagnosis) -> Markup:
    """Every problem with file and place; empty where nothing was odd."""
    if not diagnosis.problems:
        return Markup("")
    return fragment("problems.html.j2", problems=ordered_problems(diagnosis.problems))


SECTION = Section("problems", "Problems in the files", draw)
