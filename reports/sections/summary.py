"""The engineer's summary: both runs side by side, each value with the file that it was read from."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from markupsafe import Markup

from profiler.model.diagnosis import Diagnosis, SummaryLine
from profiler.reports import numbers, wording
from profiler.reports.breakdown import names
from profiler.reports.language import said
from profiler.reports.page import Section, fragment

_METRICS: Final = "service at this load"


def draw(diagnosis: Diagnosis) -> Markup:
    """One table, its lines grouped by topic; empty where the document has none."""
    if not diagnosis.summary:
        return Markup("")
    topics = [
        (topic, [_cells(line) for line in lines])
        for topic, lines in groupby(diagnosis.summary, key=lambda line: line.topic)
    ]
    return fragment("summary.html.j2", side=names(diagnosis), topics=topics)


SECTION: Final = Section("summary", "Engineer's summary", draw)


def _cells(line: SummaryLine) -> tuple[str, str, str, str, str]:
    """Name, then value and source of each side."""
    name = wording.metric(line.name) if line.topic == _METRICS else said(line.name)
    unit = "" if line.unit == "files" else line.unit
    return name, numbers.quantity(line.a, unit), line.a_source, numbers.quantity(line.b, unit), line.b_source
