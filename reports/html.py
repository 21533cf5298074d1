"""The diagnosis as one HTML file that needs nothing but a browser."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

from profiler.model.diagnosis import Diagnosis
from profiler.reports.breakdown import names
from profiler.reports.page import Section, asset, fragment, hash_source
from profiler.reports.sections import fairness, gaps, kernels, measurement, metrics, problems, recommendations, verdict
from profiler.reports.trimming import LIMITS, trim

_LARGEST: Final = 3_000_000

# read top down; the verdict stands above them
_SECTIONS: Final[tuple[Section, ...]] = (
    gaps.SECTION,
    kernels.SECTION,
    metrics.SECTION,
    fairness.SECTION,
    recommendations.SECTION,
    problems.SECTION,
    measurement.MISSING,
    measurement.SECTION,
)


def to_html(diagnosis: Diagnosis) -> str:
    """The whole page. Long lists are cut until it is at most 3 MB; what was cut is said on the page."""
    page = ""
    for limits in LIMITS:
        page = _page(*trim(diagnosis, limits))
        if len(page.encode()) <= _LARGEST:
            break
    return page


def _page(diagnosis: Diagnosis, left_out: tuple[str, ...]) -> str:
    drawn = [(section, section.draw(diagnosis)) for section in _SECTIONS]
    # plotly looks for the second, empty style element and then adds no rules of its own
    styles, scripts = [asset("report.css"), Markup("")], [asset("plotly-basic.min.js"), asset("report.js")]
    return str(
        fragment(
            "page.html.j2",
            title=" and ".join(dict.fromkeys(names(diagnosis))),
            policy=_policy(styles, scripts),
            style=styles[0],
            scripts=scripts,
            verdict=verdict.draw(diagnosis),
            sections=[(section, content) for section, content in drawn if content],
            left_out=left_out,
        )
    )


def _policy(styles: list[Markup], scripts: list[Markup]) -> Markup:
    style, script = (" ".join(hash_source(str(text)) for text in texts) for texts in (styles, scripts))
    rules = (
        "default-src 'none'",
        f"script-src {script}",
        f"style-src {style}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return Markup("; ".join(rules))
