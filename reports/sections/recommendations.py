"""Knobs to turn, best first."""

from __future__ import annotations

from markupsafe import Markup

from profiler.model.diagnosis import Diagnosis
from profiler.reports.page import Section, fragment


def draw(diagnosis: Diagnosis) -> Markup:
    """Flag, predicted change with its interval, why, and how to check it; empty where there are none."""
    if not diagnosis.recommendations:
        return Markup("")
    return fragment("recommendations.html.j2", recommendations=diagnosis.recommendations)


SECTION = Section("recommendations", "Recommendations", draw)
