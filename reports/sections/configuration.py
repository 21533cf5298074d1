"""What differs in configuration: of the facts that two runs state, those that are not the same."""

from __future__ import annotations

import re
from typing import Final

from markupsafe import Markup

from profiler.analyzers.recording_cost import COST, TOLL
from profiler.model.diagnosis import Diagnosis
from profiler.reports.language import said
from profiler.reports.page import Section, fragment
from profiler.reports.wording import NOT_KNOWN


def draw(diagnosis: Diagnosis) -> Markup:
    """A row a fact, or the sentence that nothing stated differs; empty where not two runs state facts."""
    if len(diagnosis.runs) != 2 or not all(run.facts for run in diagnosis.runs):
        return Markup("")
    a, b = (run.facts for run in diagnosis.runs)
    # What recording it cost is told where it says how it was measured.
    names = [
        name for name in dict.fromkeys([*a, *b]) if a.get(name) != b.get(name) and not name.startswith((COST, TOLL))
    ]
    rows = [(name, _told(a.get(name, said(NOT_KNOWN)), b.get(name, said(NOT_KNOWN)))) for name in names]
    return fragment("configuration.html.j2", runs=diagnosis.runs, rows=rows)


_WORD: Final = re.compile(r"'([^']*)'|\"([^\"]*)\"")


def _told(a: str, b: str) -> tuple[str, str]:
    """Both values; of two command lines the words that the other lacks."""
    if not all(text.startswith("[") and text.endswith("]") for text in (a, b)):
        return a, b
    words = [[one or two for one, two in _WORD.findall(text)] for text in (a, b)]
    common = set(words[0]) & set(words[1])
    left = [[word for word in ours if word not in common] for ours in words]
    return (f"… {' '.join(left[0])}", f"… {' '.join(left[1])}") if any(left) else (a, b)


SECTION: Final = Section("configuration", "What differs in configuration", draw)
