"""The curves of runs over their loads, ready for a page: on that of ``goodput`` and on that of a diagnosis."""

from __future__ import annotations

from typing import Any, Final

from profiler.model.goodput import Goodput, LoadPoint
from profiler.reports import curve_figures, wording
from profiler.reports.language import said
from profiler.reports.page import embedded

_LATENCIES: Final = ("ttft", "tpot", "itl", "e2e")


def load_figures(document: Goodput) -> list[dict[str, Any]]:
    """A curve a number against each kind of load, and throughput against what one user sees."""
    axes = dict.fromkeys(p.axis for run in document.runs for p in run.points if p.axis is not None)
    found: list[dict[str, Any]] = []
    for axis in axes:
        if document.slo:
            data = curve_figures.over_load(document, axis, _goodput, "requests/s within the SLO", _bounds)
            found.append(_figure(len(found), said("Goodput against {axis}", axis=said(axis)), data))
        data = curve_figures.over_load(document, axis, _per_device, document.throughput_unit, _nothing)
        found.append(_figure(len(found), said("Output throughput against {axis}", axis=said(axis)), data))
        for sample in _LATENCIES:
            name = f"p99_{sample}"
            bound = document.slo.get(sample)
            data = curve_figures.over_load(document, axis, _latency(name), "s", _nothing, bound)
            found.append(
                _figure(len(found), said("{metric} against {axis}", metric=wording.title(name), axis=said(axis)), data)
            )
    found.append(
        _figure(len(found), said("Throughput against the tokens/s of one user"), curve_figures.front(document))
    )
    return [figure for figure in found if figure["drawn"]]


def _figure(index: int, title: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"id": f"load-{index}", "title": title, "data": embedded(data), "drawn": bool(data["data"])}


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
