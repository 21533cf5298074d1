"""Lines: the scheduler and the device over time, and how latencies are distributed; each with its numbers below."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, Final

from markupsafe import Markup

from profiler.model.diagnosis import Curve, Diagnosis
from profiler.reports import figures, numbers
from profiler.reports.breakdown import names
from profiler.reports.language import said
from profiler.reports.page import Section, embedded, fragment

_OVER_TIME: Final = ("sequences", "queue", "cache", "clock")
_LATENCIES: Final = ("ttft", "tpot", "e2e")
_ROWS: Final = 12


def draw_time(diagnosis: Diagnosis) -> Markup:
    """Batch, queue, cache and clock of both runs; empty where no file carries them."""
    return _draw(diagnosis, _OVER_TIME)


def draw_latency(diagnosis: Diagnosis) -> Markup:
    """TTFT, TPOT and end-to-end latency by the share of requests; empty without single requests."""
    return _draw(diagnosis, _LATENCIES)


OVER_TIME: Final = Section("over-time", "Over time", draw_time)
LATENCY: Final = Section("latency", "Latencies", draw_latency)


def _draw(diagnosis: Diagnosis, topics: tuple[str, ...]) -> Markup:
    side = names(diagnosis)
    panels = []
    for topic in topics:
        curves = [curve for curve in diagnosis.curves if curve.topic == topic]
        if curves:
            panels.append(_panel(topic, curves, side))
    return fragment("curves.html.j2", panels=panels) if panels else Markup("")


def _panel(topic: str, curves: Sequence[Curve], side: tuple[str, str]) -> dict[str, Any]:
    first = curves[0]
    named = [(side[0] if curve.run == "a" else side[1], curve) for curve in curves]
    runs = " / ".join(name for name, _ in named)
    return {
        "id": f"curve-{topic}",
        "title": first.title[0].upper() + first.title[1:],
        "figure": embedded(figures.lines(named)),
        "described": said("{title} of {runs}. The numbers are in the table below.", title=first.title, runs=runs),
        "columns": [
            f"{name}: {said('share of requests' if curve.x_unit == 'fraction' else 'at')}, {curve.title}"
            for name, curve in named
        ],
        "rows": [list(cells) for cells in zip_longest(*(_cells(curve) for _, curve in named), fillvalue="")],
        "sources": "; ".join(dict.fromkeys(curve.source for curve in curves)),
    }


def _cells(curve: Curve) -> list[str]:
    """A few evenly spaced points of the line, or all where there are no more."""
    last = len(curve.x) - 1
    rows = dict.fromkeys(round(index * last / (_ROWS - 1)) for index in range(_ROWS))
    return [f"{_place(curve, at)}: {numbers.quantity(curve.y[at], curve.y_unit)}" for at in rows]


def _place(curve: Curve, at: int) -> str:
    return numbers.percent(curve.x[at]) if curve.x_unit == "fraction" else numbers.quantity(curve.x[at], curve.x_unit)
