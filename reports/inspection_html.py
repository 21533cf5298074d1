"""One run as an HTML page that needs nothing but a browser: the same content as the terminal page, all of it."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from markupsafe import Markup

from profiler.model.inspection import InspectedDevice, Inspection
from profiler.reports import numbers, wording
from profiler.reports.language import said
from profiler.reports.page import Drawn, asset, fragment, whole
from profiler.reports.translated import translated_inspection

# A page holds at most this many lines of one table; the JSON document holds all.
_MOST: Final = 300
_TIMED: Final = ("Time", "Calls", "Time of a call")


def to_inspection_html(inspection: Inspection) -> str:
    """The whole page. Long tables are cut, and the page says so."""
    inspection = translated_inspection(inspection)
    cut: list[str] = []
    sections = [
        Drawn("files", "Files", _files(inspection, cut)),
        Drawn("steps", "Steps", _steps(inspection)),
        Drawn("devices", "Devices", _devices(inspection, cut)),
        Drawn("totals", "Totals", _totals(inspection, cut)),
        *_figures(inspection, cut),
        Drawn("components", "Beside the engine", _components(inspection, cut)),
        Drawn("trust", "Completeness of the traces", _trust(inspection, cut)),
        Drawn("metrics", "Metrics", _metrics(inspection)),
        Drawn("problems", "Problems in the files", _problems(inspection, cut)),
    ]
    head = fragment("inspection_head.html.j2", inspection=inspection)
    return whole(
        kind="Inspection",
        title=inspection.run,
        head=head,
        sections=[section for section in sections if section.content],
        scripts=[asset("report.js")],
        left_out=tuple(cut),
    )


def _table(
    label: str, columns: list[str], rows: list[list[str]], cut: list[str], shares: list[float] | None = None
) -> Markup:
    if not rows:
        return Markup("")
    if len(rows) > _MOST:
        cut.append(said("{n} lines of {what}", n=f"{len(rows) - _MOST:,}", what=said(label).lower()))
    bars = [None] * len(rows) if shares is None else [100 * min(max(share, 0.0), 1.0) for share in shares]
    return fragment(
        "inspection_table.html.j2",
        captioned=shares is not None,
        label=said(label),
        columns=[said(column) for column in columns],
        rows=list(zip(rows, bars, strict=True))[:_MOST],
    )


def _files(inspection: Inspection, cut: list[str]) -> Markup:
    rows = [
        [f.path, f.format, numbers.quantity(f.bytes, "bytes"), said("yes" if f.read else "no"), f"{len(f.problems):,}"]
        for f in inspection.files
    ]
    return _table("Files", ["File", "Format", "Size", "Read", "Problems"], rows, cut)


def _steps(inspection: Inspection) -> Markup:
    rows = [
        [
            said("{source} (inferred)", source=s.source) if s.inferred else s.source,
            *(f"{count:,}" for count in (s.steps, s.prefill, s.decode, s.mixed)),
            numbers.quantity(s.mean_sequences, ""),
            numbers.quantity(s.mean_seconds, "s"),
        ]
        for s in inspection.step_sources
    ]
    return _table("Steps", ["Source", "Steps", "Prefill", "Decode", "Mixed", "Sequences", "Mean time"], rows, [])


def _devices(inspection: Inspection, cut: list[str]) -> Markup:
    parts = []
    for device in inspection.devices:
        trace = wording.in_trace(device.trace, device.rank if len(inspection.devices) > 1 else None)
        where = said("{n} kernels in {trace}", n=f"{device.kernels:,}", trace=trace)
        title = f"{device.device} {device.name or ''}".strip() + f": {where}"
        window = device.window_seconds or float("nan")
        buckets = [(f"{said('busy')}: {name}", s, device.calls.get(name)) for name, s in device.categories.items()]
        buckets += [(f"{said('idle')}: {name}", s, None) for name, s in device.idle.items()]
        rows = [[name, *_timed(s, calls), numbers.percent(s / window)] for name, s, calls in buckets]
        columns = ["Bucket", *_TIMED, "Of the window"]
        parts.append(_table(title, columns, rows, cut, [s / window for _, s, _ in buckets]))
        busy = device.busy_seconds or float("nan")
        if device.roles:
            rows = [
                [role, *_timed(s, device.role_calls.get(role)), numbers.percent(s / busy)]
                for role, s in device.roles.items()
            ]
            label = said("Roles, {n} layers: {title}", n=str(device.layers), title=title)
            if device.layers is None:
                label = said("Roles: {title}", title=title)
            shares = [s / busy for s in device.roles.values()]
            parts.append(_table(label, ["Role", *_TIMED, "Of the busy time"], rows, cut, shares))
        if device.operators:
            parts.append(_operators(device, busy, said("By operator: {title}", title=title), cut))
        if device.captured:
            rows = [[name, numbers.quantity(s, "s"), numbers.percent(s / busy)] for name, s in device.captured.items()]
            shares = [s / busy for s in device.captured.values()]
            label = said("Replayed work by the ranges that it was captured in: {title}", title=title)
            parts.append(_table(label, ["Captured in", "Time", "Of the busy time"], rows, cut, shares))
    return Markup("").join(parts)


def _operators(device: InspectedDevice, busy: float, label: str, cut: list[str]) -> Markup:
    """On a CPU the operators are the work, else they launched it."""
    hosted = any(row.host_seconds is not None for row in device.operators)
    rows = []
    for row in device.operators:
        host = "" if row.host_seconds is None else numbers.quantity(row.host_seconds, "s")
        cells = [wording.launched_by(row), *_timed(row.seconds, row.calls), *((host,) if hosted else ())]
        rows.append([*cells, numbers.percent(row.seconds / busy)])
    columns = ["Launching operator", *_TIMED, "Time on the host"] if hosted else ["Operator", *_TIMED]
    shares = [row.seconds / busy for row in device.operators]
    return _table(label, [*columns, "Of the busy time"], rows, cut, shares)


def _timed(seconds: float, calls: int | None) -> list[str]:
    """The cells of ``_TIMED``."""
    return [numbers.quantity(seconds, "s"), "" if calls is None else f"{calls:,}", numbers.each(seconds, calls)]


def _totals(inspection: Inspection, cut: list[str]) -> Markup:
    """Summary tables of a tool: durations added up, so nothing in them is a share of time that passed."""
    parts = []
    for table in inspection.totals:
        whole_time = table.seconds or float("nan")
        rows = [
            [name, numbers.quantity(seconds, "s"), numbers.percent(seconds / whole_time)]
            for name, seconds in (*table.categories.items(), *table.largest.items())
        ]
        title = said("{what} in {source} ({tool})", what=table.what, source=table.source, tool=table.tool)
        shares = [seconds / whole_time for seconds in (*table.categories.values(), *table.largest.values())]
        parts.append(_table(title, ["Category or name", "Time added up", "Of the total"], rows, cut, shares))
    return Markup("").join(parts)


def _components(inspection: Inspection, cut: list[str]) -> Markup:
    rows = [
        [f"{component.title}: {question}", numbers.quantity(value, ""), component.source]
        for component in inspection.components
        for question, value in component.values.items()
    ]
    return _table("Beside the engine", ["Question", "Value", "Source"], rows, cut)


def _figures(inspection: Inspection, cut: list[str]) -> list[Drawn]:
    drawn = []
    for section, group in groupby(inspection.figures, key=lambda figure: figure.section):
        rows = [[f.name, numbers.quantity(f.value, f.unit), f.detail, f.source] for f in group]
        title = section[0].upper() + section[1:]
        content = _table(title, ["Figure", "Value", "Detail", "Source"], rows, cut)
        drawn.append(Drawn(section.replace(" ", "-").lower(), title, content))
    return drawn


def _trust(inspection: Inspection, cut: list[str]) -> Markup:
    rows = [
        [
            t.trace,
            t.check,
            wording.trusted(t),
            t.detail,
        ]
        for t in inspection.trust
    ]
    return _table("Completeness", ["Trace", "Check", "Outcome", "Detail"], rows, cut)


def _metrics(inspection: Inspection) -> Markup:
    rows = [
        [wording.metric(name), numbers.quantity(value, wording.metric_unit(name))]
        for name, value in inspection.metrics.items()
    ]
    return _table("Metrics", ["Metric", "Value"], rows, [])


def _problems(inspection: Inspection, cut: list[str]) -> Markup:
    rows = [[said(p.severity), p.file, p.place or "", p.detail, f"{p.count:,}"] for p in inspection.problems]
    return _table("Problems", ["Severity", "File", "Place", "Problem", "Count"], rows, cut)
