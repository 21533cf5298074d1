"""The tables of goodput against load, as texts: the same on a terminal, in Markdown and on the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from profiler.model.document import Interval
from profiler.model.goodput import Goodput, LoadPoint, Range, RunCurve, Standing
from profiler.reports import numbers, wording
from profiler.reports.language import named, said
from profiler.reports.safe_text import plain

PERCENTILES: Final = ("p50", "p90", "p99")
SAMPLES: Final = ("ttft", "tpot", "itl", "e2e")


@dataclass(frozen=True, slots=True)
class Lines:
    """A table: its title, its columns' heads, and its rows; the first column is text, the others are figures."""

    title: str
    columns: list[str]
    rows: list[list[str]]


def objective(document: Goodput) -> str:
    """The SLO as it is typed; empty where none was given."""
    return ", ".join(f"{name} {numbers.quantity(bound, 's')}" for name, bound in document.slo.items())


def tables(document: Goodput) -> list[Lines]:
    """Every table of the document that has rows."""
    every = [
        *(_loads(document, run) for run in document.runs),
        *(_latencies(run) for run in document.runs),
        _reached(document),
        *(_standings(title, document, rows) for title, rows in (
            ("At equal load", document.equal_load),
            ("At equal interactivity (between measured points on a line)", document.equal_interactivity),
        )),
        _ranges(document),
        _front(document),
    ]  # fmt: skip
    return [Lines(named(one.title), [named(head) for head in one.columns], one.rows) for one in every if one.rows]


def _loads(document: Goodput, run: RunCurve) -> Lines:
    columns = ["load", "sent", "failed", "requests/s", document.throughput_unit, "tokens/s of one user"]
    columns += ["within the SLO", "goodput, requests/s"] if document.slo else []
    rows = []
    for point in run.points:
        row = [
            _named(point),
            f"{point.sent:,}",
            f"{point.failed:,}",
            _figure(point.request_rate),
            _figure(point.per_device),
            _figure(point.interactivity),
        ]
        if document.slo:
            row += [_share(point), _bounded(point.goodput, point.goodput_interval)]
        rows.append(row)
    return Lines(f"{plain(run.name)}{_engine(run)}", columns, rows)


def _named(point: LoadPoint) -> str:
    return said(plain(point.label)) + (
        said(" ({count} repeats)", count=str(point.repeats)) if point.repeats > 1 else ""
    )


def _engine(run: RunCurve) -> str:
    return f" ({plain(f'{run.engine.name} {run.engine.version or str()}'.strip())})" if run.engine.name else ""


def _figure(value: float | None) -> str:
    return numbers.quantity(value, "")


def _share(point: LoadPoint) -> str:
    if point.attainment is None or point.attainment_interval is None:
        return said(wording.NOT_KNOWN)
    low, high = point.attainment_interval
    bounds = said("{low} to {high}", low=numbers.percent(low), high=numbers.percent(high))
    return f"{numbers.percent(point.attainment)} ({bounds})"


def _bounded(value: float | None, interval: Interval | None) -> str:
    if value is None or interval is None:
        return _figure(value)
    scale = numbers.scale_for("", value, *interval)
    return f"{scale.plain(value)} ({scale.interval(interval)})"


def _latencies(run: RunCurve) -> Lines:
    samples = [s for s in SAMPLES if any(f"{p}_{s}" in point.latencies for p in PERCENTILES for point in run.points)]
    columns = ["load", *(f"{wording.metric(s)} P50 / P90 / P99" for s in samples)]
    rows = []
    for point in run.points if samples else ():
        cells = []
        for sample in samples:
            values = [point.latencies.get(f"{rank}_{sample}") for rank in PERCENTILES]
            scale = numbers.scale_for("s", *values)
            cells.append(" / ".join(scale.plain(value) for value in values) + f" {scale.unit}")
        rows.append([_named(point), *cells])
    return Lines(f"Latency of {plain(run.name)}", columns, rows)


def _reached(document: Goodput) -> Lines:
    words = {"interpolated": "", "at least": " or more", "below the lowest load": "below the lowest load measured"}
    rows = []
    for run in document.runs:
        cells = [plain(run.name)]
        for one in run.reached:
            known = _bounded(one.rate, one.interval) if one.rate is not None else ""
            cells.append(known + said(words.get(one.kind, wording.NOT_KNOWN)))
        if run.reached:
            rows.append(cells)
    targets = [f"{one.attainment:.0%} of requests" for one in (document.runs[0].reached if document.runs else ())]
    return Lines("Highest requests/s within the SLO", ["run", *targets], rows)


def _standings(title: str, document: Goodput, standings: tuple[Standing, ...]) -> Lines:
    columns = ["at", "of", *(plain(run.name) for run in document.runs), "leads"]
    rows = []
    for one in standings:
        scale = numbers.scale_for("", *one.values)
        unit = one.unit if one.metric == "goodput" else document.throughput_unit
        values = [wording.NO_SHARE if value is None else scale.plain(value) for value in one.values]
        leads = said(wording.NO_DIFFERENCE) if one.leader is None else plain(one.leader)
        rows.append([f"{_figure(one.at)} {said(one.axis)}", f"{said(one.metric)}, {unit}", *values, leads])
    return Lines(title, columns, rows)


def _ranges(document: Goodput) -> Lines:
    rows = [
        [f"{_span(one)} {said(one.axis)}",
         said(wording.NO_DIFFERENCE) if one.leader is None else plain(one.leader)]
        for one in document.ranges
    ]  # fmt: skip
    return Lines("Who leads where", ["range", "leads"], rows)


def _span(one: Range) -> str:
    low, high = _figure(one.low), _figure(one.high)
    return low if one.high <= one.low else said("{low} to {high}", low=low, high=high)


def _front(document: Goodput) -> Lines:
    rows = [
        [f"{plain(one.run)}, {plain(one.label)}", _figure(one.interactivity), _figure(one.per_device)]
        for one in document.front
    ]
    columns = ["point", "tokens/s of one user", document.throughput_unit]
    return Lines("Pareto front: no other point is better in both", columns, rows)
