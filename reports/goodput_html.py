"""Goodput and latency against load as one HTML page that needs nothing but a browser."""

from __future__ import annotations

from typing import Any, Final

from markupsafe import Markup

from profiler.model.goodput import Goodput, LoadPoint
from profiler.reports import curve_figures, wording
from profiler.reports.goodput_tables import objective, tables
from profiler.reports.page import Drawn, asset, embedded, fragment, whole

_LATENCIES: Final = ("ttft", "tpot", "itl", "e2e")


def to_goodput_html(document: Goodput) -> str:
    """The whole page: a curve a number, and every number as a table."""
    sections = [
        Drawn("curves", "Against load", fragment("load_curves.html.j2", figures=_figures(document))),
        Drawn("tables", "The numbers", fragment("goodput_tables.html.j2", tables=tables(document))),
        Drawn(
            "notes",
            "What is not known",
            fragment("lines.html.j2", lines=document.notes) if document.notes else Markup(""),
        ),
    ]
    return whole(
        kind="Goodput",
        title=" and ".join(dict.fromkeys(run.name for run in document.runs)),
        head=fragment("goodput_head.html.j2", document=document, objective=objective(document)),
        sections=[section for section in sections if section.content],
        scripts=[asset("plotly-basic.min.js"), asset("report.js")],
        left_out=(),
    )


def _figures(document: Goodput) -> list[dict[str, Any]]:
    axes = dict.fromkeys(p.axis for run in document.runs for p in run.points if p.axis is not None)
    found: list[dict[str, Any]] = []
    for axis in axes:
        if document.slo:
            data = curve_figures.over_load(document, axis, _goodput, "requests/s within the SLO", _bounds)
            found.append(_figure(len(found), f"Goodput against {axis}", data))
        data = curve_figures.over_load(document, axis, _per_device, document.throughput_unit, _nothing)
        found.append(_figure(len(found), f"Output throughput against {axis}", data))
        for sample in _LATENCIES:
            name = f"p99_{sample}"
            data = curve_figures.over_load(document, axis, _latency(name), "s", _nothing)
            found.append(_figure(len(found), f"{wording.title(name)} against {axis}", data))
    found.append(_figure(len(found), "Throughput against the tokens/s of one user", curve_figures.front(document)))
    return [figure for figure in found if figure["drawn"]]


def _figure(index: int, title: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"id": f"curve-{index}", "title": title, "data": embedded(data), "drawn": bool(data["data"])}


def _goodput(point: LoadPoint) -> float | None:
    return point.goodput


def _per_device(point: LoadPoint) -> float | None:
    return point.per_device


def _bounds(point: LoadPoint) -> tuple[float, float] | None:
    return point.goodput_interval


def _nothing(_: LoadPoint) -> None:
    return None


def _latency(name: str) -> curve_figures.Value:
    return lambda point: point.latencies.get(name)
