"""What is missing, how it was measured, and the command that repeats it."""

from __future__ import annotations

import shlex

from markupsafe import Markup

from profiler.model.diagnosis import Diagnosis
from profiler.reports.page import Section, fragment
from profiler.reports.safe_text import plain


def draw_missing(diagnosis: Diagnosis) -> Markup:
    """What was not there and what it would have told; empty where nothing is missing."""
    return fragment("lines.html.j2", lines=diagnosis.missing) if diagnosis.missing else Markup("")


def draw(diagnosis: Diagnosis) -> Markup:
    """The method in sentences and the command; empty where neither is known."""
    if not diagnosis.method and not diagnosis.runs:
        return Markup("")
    paths = " ".join(shlex.quote(plain(run.path)) for run in diagnosis.runs)
    return fragment(
        "measurement.html.j2", method=diagnosis.method, command=f"profiler diagnose {paths}" if paths else ""
    )


MISSING = Section("missing", "What is missing", draw_missing)
SECTION = Section("method", "How it was measured", draw)
