"""The figures, as plotly JSON without any colour of the theme: the page adds those when it draws.

Okabe-Ito colours; a sign, a label or a hatch always says the same as the colour.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import plotly.graph_objects as go

from profiler.model.diagnosis import Curve, Gap, KernelRow
from profiler.reports import numbers, wording
from profiler.reports.breakdown import Row, rows
from profiler.reports.language import said
from profiler.reports.safe_text import plain

RUN_A: Final = "#0072B2"
RUN_B: Final = "#E69F00"
_BETTER: Final = "#009E73"
_WORSE: Final = "#D55E00"
_NEUTRAL: Final = "#999999"
_LABEL: Final = 24
_TITLE: Final = 60
# Room for a legend above the plot, and for the title of an axis below it.
LEGEND_ABOVE: Final[dict[str, Any]] = {
    "margin": {"l": 8, "r": 8, "t": 36, "b": 44},
    "showlegend": True,
    "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"},
}
_ROW: Final = 34
_MARGIN: Final = 56
_FROM_ZERO: Final = 0.2
_MOST_CATEGORIES: Final = 16


def waterfall(gap: Gap, side: tuple[str, str]) -> dict[str, Any]:
    """From A to B, cause by cause; each bar begins where the last one ended."""
    steps = [row for row in rows(gap) if row.kind != "total" and row.gap is not None]
    level, change = numbers.level_scale(gap), numbers.gap_scale(gap)
    lengths = [_finite(row.gap) / level.divisor for row in steps]
    a, b = _finite(gap.a) / level.divisor, _finite(gap.b) / level.divisor
    base = [0.0, *accumulate([a, *lengths[:-1]])] if lengths else [0.0]
    colours = [RUN_A, *(_colour(row, gap) for row in steps), RUN_B]
    hatches = ["", *("/" if row.cause is not None and row.cause.extrapolated else "" for row in steps), ""]
    ends = list(accumulate([a, *lengths]))[1:]
    known = [index for index, row in enumerate(steps) if row.interval is not None]
    whiskers = [_whiskers(steps[index], level.divisor) for index in known]
    unit = f" {change.unit}" if change.unit != level.unit else ""
    figure = go.Figure(
        [
            go.Bar(
                orientation="h",
                y=list(range(len(steps) + 2)),
                x=[a, *lengths, b],
                base=[*base, 0.0],
                width=0.62,
                marker={"color": colours, "pattern": {"shape": hatches}, "line": {"width": 0}},
            ),
            go.Scatter(
                x=[ends[index] for index in known],
                y=[index + 1 for index in known],
                mode="markers",
                marker={"opacity": 0},
                error_x={
                    "array": [above for above, _ in whiskers],
                    "arrayminus": [below for _, below in whiskers],
                    "symmetric": False,
                    "thickness": 1,
                    "width": 3,
                },
            ),
            # carries the right-hand axis, which holds the figures
            go.Scatter(x=[a], y=[0], yaxis="y2", mode="markers", opacity=0),
        ],
        layout={"template": "none"},
    )
    labels = [side[0], *(row.label for row in steps), side[1]]
    values = [level.plain(gap.a), *(change.signed(row.gap) + unit for row in steps), level.plain(gap.b)]
    _layout(figure, labels, level.unit)
    figure.update_layout(
        yaxis2={**_axis(values), "overlaying": "y", "side": "right"},
        shapes=[
            {"type": "line", "x0": x, "x1": x, "y0": row, "y1": row + 1, "line": {"width": 1, "color": _NEUTRAL}}
            for row, x in enumerate(accumulate([a, *lengths]))
        ],
    )
    lowest, highest = _extent([*accumulate([a, *lengths]), b])
    figure.update_xaxes(range=[lowest, highest])
    return drawn_json(figure)


def starts_at_zero(gap: Gap) -> bool:
    """Whether the waterfall's axis begins at zero; a small gap could not be seen on such an axis."""
    causes = (row.gap for row in rows(gap) if row.kind != "total")
    ends = accumulate([_finite(gap.a), *map(_finite, causes)])
    return _extent([*ends, _finite(gap.b)])[0] == 0.0


def kernels(every: tuple[KernelRow, ...], side: tuple[str, str], per: str) -> dict[str, Any]:
    """Seconds by kernel category, both runs; ``per`` says of what."""
    categories = sorted((row for row in every if row.name is None), key=lambda row: -_largest(row))[:_MOST_CATEGORIES]
    scale = numbers.scale_for("s", *(_largest(row) for row in categories))
    bars = [
        go.Bar(
            orientation="h",
            name=text(name),
            y=list(range(len(categories))),
            x=[_finite(seconds) / scale.divisor for seconds in values],
            marker={"color": colour},
        )
        for name, colour, values in (
            (side[0], RUN_A, [row.a_seconds for row in categories]),
            (side[1], RUN_B, [row.b_seconds for row in categories]),
        )
    ]
    figure = go.Figure(bars, layout={"template": "none"})
    _layout(figure, [row.category for row in categories], said("{unit} {per}", unit=scale.unit, per=per))
    figure.update_layout(
        showlegend=True, legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"}, margin={"t": 36}
    )
    figure.update_xaxes(rangemode="tozero")
    return drawn_json(figure)


def lines(curves: Sequence[tuple[str, Curve]]) -> dict[str, Any]:
    """Lines of the same quantity, one a run; solid for A and dashed for B, so that colour is not all that tells."""
    first = curves[0][1]
    unit = numbers.scale_for(first.y_unit, *(value for _, curve in curves for value in curve.y))
    shares = first.x_unit == "fraction"
    figure = go.Figure(
        [
            go.Scatter(
                name=text(name),
                x=[100 * x if shares else x for x in curve.x],
                y=[_finite(y) / unit.divisor for y in curve.y],
                mode="lines",
                line={
                    "color": RUN_A if curve.run == "a" else RUN_B,
                    "dash": "solid" if curve.run == "a" else "dash",
                    "width": 2,
                },
            )
            for name, curve in curves
        ],
        layout={"template": "none"},
    )
    figure.update_layout(
        height=260,
        **LEGEND_ABOVE,
        xaxis={
            "title": {"text": said("% of the requests") if shares else said(first.x_unit), "standoff": 8},
            "automargin": True,
            "zeroline": False,
        },
        yaxis={
            "title": {"text": text(unit.unit)},
            "tickformat": ",",
            "automargin": True,
            "rangemode": "tozero",
            "zeroline": False,
        },
    )
    return drawn_json(figure)


def _layout(figure: go.Figure, labels: list[str], unit: str) -> None:
    figure.update_layout(
        height=_ROW * len(labels) + _MARGIN,
        margin={"l": 8, "r": 8, "t": 8, "b": 44},
        showlegend=False,
        bargap=0.3,
        yaxis=_axis(labels),
        xaxis={
            "nticks": 5,
            "tickformat": ",",
            "automargin": True,
            "zeroline": False,
            "title": {"text": text(unit, _TITLE), "standoff": 8},
        },
    )


def _axis(labels: list[str]) -> dict[str, Any]:
    return {
        "tickvals": list(range(len(labels))),
        "ticktext": [text(label) for label in labels],
        "range": [len(labels) - 0.5, -0.5],
        "automargin": True,
        "showgrid": False,
        "zeroline": False,
        "ticks": "outside",
        "ticklen": 8,
        "tickcolor": "rgba(0,0,0,0)",
    }


def text(label: str, limit: int = _LABEL) -> str:
    """A label as plotly takes it: it reads a few HTML tags in its texts and decodes entities."""
    return html.escape(plain(label, limit), quote=False)


def _colour(row: Row, gap: Gap) -> str:
    if row.kind == "unexplained" or not row.gap:
        return _NEUTRAL
    return _BETTER if (row.gap > 0) == gap.higher_is_better else _WORSE


def _whiskers(row: Row, divisor: float) -> tuple[float, float]:
    if row.interval is None or row.gap is None:
        return 0.0, 0.0
    low, high = row.interval
    return max(0.0, _finite(high - row.gap)) / divisor, max(0.0, _finite(row.gap - low)) / divisor


def _extent(ends: list[float]) -> tuple[float, float]:
    low, high = min(ends), max(ends)
    if low >= 0 and (high == 0 or (high - low) / high >= _FROM_ZERO):
        return 0.0, high * 1.04 or 1.0
    pad = (high - low) * 0.25 or abs(high) * 0.01 or 1.0
    return low - pad, high + pad


def _finite(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) else 0.0


def _largest(row: KernelRow) -> float:
    return max(_finite(row.a_seconds), _finite(row.b_seconds))


def drawn_json(figure: go.Figure) -> dict[str, Any]:
    """The figure without a theme: the page adds its own."""
    drawn: dict[str, Any] = figure.to_plotly_json()
    drawn["layout"].pop("template", None)
    return drawn


def described(gap: Gap, side: tuple[str, str]) -> str:
    """The waterfall in one sentence, for who can't see it."""
    level, change = numbers.level_scale(gap), numbers.gap_scale(gap)
    parts = ", ".join(f"{row.label} {change.signed(row.gap)}" for row in rows(gap) if row.kind != "total")
    return said(
        "{metric} from {a} {x} to {b} {y}: {parts}. The numbers are in the table that follows.",
        metric=wording.title(gap.metric), a=side[0], x=level.full(gap.a), b=side[1], y=level.full(gap.b), parts=parts,
    )  # fmt: skip
