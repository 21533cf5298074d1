"""What differs in configuration: of the facts that two runs state, those that are not the same."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

from profiler.model.diagnosis import Diagnosis
from profiler.reports.language import said
from profiler.reports.page import Section, fragment
from profiler.reports.wording import NOT_KNOWN


def draw(diagnosis: Diagnosis) -> Markup:
    """A row a fact, or the sentence that nothing stated differs; empty where not two runs state facts."""
    if len(diagnosis.runs) != 2 or not all(run.facts for run in diagnosis.runs):
        return Markup("")
    a, b = (run.facts for run in diagnosis.runs)
    names = [name for name in dict.fromkeys([*a, *b]) if a.get(name) != b.get(name)]
    rows = [(name, [facts.get(name, said(NOT_KNOWN)) for facts in (a, b)]) for name in names]
    return fragment("configuration.html.j2", runs=diagnosis.runs, rows=rows)


SECTION: Final = Section("configuration", "What differs in configuration", draw)
