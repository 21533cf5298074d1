"""The diagnosis as one HTML file that needs nothing but a browser."""

from __future__ import annotations

from typing import Final

from profiler.model.diagnosis import Diagnosis
from profiler.reports.breakdown import names
from profiler.reports.language import said
from profiler.reports.page import Drawn, Section, asset, whole
from profiler.reports.sections import (
    configuration,
    fairness,
    gaps,
    kernels,
    loads,
    measurement,
    metrics,
    over_time,
    problems,
    recommendations,
    summary,
    timelines,
    verdict,
)
from profiler.reports.translated import translated
from profiler.reports.trimming import LIMITS, trim

_LARGEST: Final = 3_000_000

# read top down; the verdict stands above them
_SECTIONS: Final[tuple[Section, ...]] = (
    configuration.SECTION,
    gaps.SECTION,
    recommendations.SECTION,
    gaps.EVIDENCE,
    timelines.SECTION,
    kernels.SECTION,
    over_time.OVER_TIME,
    over_time.LATENCY,
    loads.SECTION,
    summary.SECTION,
    metrics.SECTION,
    fairness.SECTION,
    problems.SECTION,
    measurement.MISSING,
    measurement.SECTION,
)


def to_html(diagnosis: Diagnosis) -> str:
    """The whole page. Long lists are cut until it is at most 3 MB; what was cut is said on the page."""
    page, shown = "", translated(diagnosis)
    for limits in LIMITS:
        page = _page(*trim(shown, limits))
        if len(page.encode()) <= _LARGEST:
            break
    return page


def _page(diagnosis: Diagnosis, left_out: tuple[str, ...]) -> str:
    drawn = [Drawn(section.anchor, section.title, section.draw(diagnosis)) for section in _SECTIONS]
    return whole(
        kind="Diagnosis",
        title=said("{a} and {b}", a=names(diagnosis)[0], b=names(diagnosis)[1]),
        head=verdict.draw(diagnosis),
        sections=[section for section in drawn if section.content],
        scripts=[asset(name) for name in ("plotly-basic.min.js", "report.js", "canvas.js", "timeline.js")],
        left_out=left_out,
    )
