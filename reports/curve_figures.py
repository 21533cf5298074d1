"""Curves over load, as plotly JSON without any colour of the theme: the page adds those when it draws.

A run is told by its marker's shape as well as by its colour (Okabe-Ito).
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, Final

import plotly.graph_objects as go

from profiler.model.goodput import Goodput, LoadPoint
from profiler.reports.figures import LEGEND_ABOVE, RUN_A, RUN_B, drawn_json, text
from profiler.reports.language import said

_COLOURS: Final = (RUN_A, RUN_B, "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#999999")
_SHAPES: Final = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star")
_SLO: Final = "#999999"
_HEIGHT: Final = 360
_NAME: Final = 40
Value = Callable[[LoadPoint], float | None]


def over_load(
    document: Goodput, axis: str, value: Value, unit: str, bounds: Callable[[LoadPoint], Any], slo: float | None = None
) -> dict[str, Any]:
    """A value of every run against the load, with its interval where ``bounds`` gives one; ``slo`` is a line across."""
    lines = []
    for index, run in enumerate(document.runs):
        rows = [(p.load, value(p), bounds(p)) for p in run.points if p.axis == axis and _drawable(p.load, value(p))]
        if not rows:
            continue
        line = _line(index, run.name, [x for x, _, _ in rows], [y for _, y, _ in rows])
        if all(b is not None for _, _, b in rows):
            line.update(error_y={
                "array": [b[1] - y for _, y, b in rows], "arrayminus": [y - b[0] for _, y, b in rows],
                "symmetric": False, "thickness": 1, "width": 3,
            })  # fmt: skip
        lines.append(line)
    if slo is not None and lines:
        across = max(max(line.x) for line in lines)
        lines.append(go.Scatter(name="SLO", x=[0, across], y=[slo, slo], mode="lines",
                                line={"color": _SLO, "width": 2, "dash": "dot"}))  # fmt: skip
    return _json(lines, axis, unit)


def front(document: Goodput) -> dict[str, Any]:
    """Throughput against the tokens/s of one user."""
    lines = []
    for index, run in enumerate(document.runs):
        rows = sorted((p.interactivity, p.per_device) for p in run.points if _drawable(p.interactivity, p.per_device))
        if rows:
            lines.append(_line(index, run.name, [x for x, _ in rows], [y for _, y in rows]))
    return _json(lines, "tokens/s of one user", document.throughput_unit)


def _drawable(*values: float | None) -> bool:
    """Whether a point has a place: broken files give durations of zero, and rates without end."""
    return all(value is not None and isfinite(value) for value in values)


def _line(index: int, name: str, xs: list[Any], ys: list[Any]) -> go.Scatter:
    colour = _COLOURS[index % len(_COLOURS)]
    return go.Scatter(
        name=text(name, _NAME),
        x=xs,
        y=ys,
        mode="lines+markers",
        line={"color": colour, "width": 2},
        marker={"symbol": _SHAPES[index % len(_SHAPES)], "size": 9, "color": colour},
    )


def _json(lines: list[go.Scatter], across: str, up: str) -> dict[str, Any]:
    figure = go.Figure(lines, layout={"template": "none"})
    figure.update_layout(height=_HEIGHT, **LEGEND_ABOVE, xaxis=_axis(across), yaxis=_axis(up))
    return drawn_json(figure)


def _axis(title: str) -> dict[str, Any]:
    return {
        "automargin": True,
        "zeroline": False,
        "rangemode": "tozero",
        "title": {"text": said(title), "standoff": 8},
    }
