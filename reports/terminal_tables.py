"""The tables of the terminal pages. Every cell is a ``Text``, so nothing in a file is read as markup."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from profiler.model.diagnosis import Evidence, Gap, KernelRow, Part, Prediction
from profiler.model.inspection import (
    Figure,
    InspectedComponent,
    InspectedDevice,
    InspectedFile,
    InspectedOperator,
    InspectedSteps,
    InspectedTotals,
)
from profiler.reports import numbers, wording
from profiler.reports.breakdown import Row, rows
from profiler.reports.language import said
from profiler.reports.safe_text import plain

_WIDE = 120
_HEADER = 40
_CALLS = ("calls", "of a call")
# rules under the head and above the total, nothing else
_RULES = box.Box("    \n    \n ── \n    \n ── \n ── \n    \n    \n")


def breakdown(gap: Gap, width: int) -> Iterator[RenderableType]:
    """The rows of a gap. On a narrow page the summaries follow the table, so that neither gets torn."""
    wide = width >= _WIDE
    every = rows(gap)
    scale = numbers.gap_scale(gap)
    token = numbers.scale_for("s", *(row.per_token for row in every))
    additive = any(row.per_token is not None for row in every if row.kind != "total")
    table = _table("cause", _gap(scale), "share", wording.INTERVAL)
    if additive:
        table.add_column(Text(f"{token.unit}/token"), justify="right", no_wrap=True)
    if wide:
        table.add_column(Text(said("why")), overflow="fold", ratio=1)
    for row in every:
        cells = [row.label, scale.signed(row.gap), numbers.percent(row.share), row.bounds(scale)]
        cells += [token.signed(row.per_token)] if additive else []
        cells += [row.summary] if wide else []
        if row.kind == "total":
            table.add_section()
        table.add_row(*_texts(cells), style="bold" if row.kind == "total" else None)
    yield table
    if not wide:
        yield from _summaries(every)


def gaps(every: Sequence[Gap], side: tuple[str, str], width: int) -> Table:
    """Metrics in one line each."""
    table = _table(
        "metric", *map(Text, side), "gap", "relative", *((wording.INTERVAL,) if width >= _WIDE else ()), "better"
    )
    for gap in every:
        level, scale = numbers.level_scale(gap), numbers.gap_scale(gap)
        cells = [wording.metric(gap.metric), level.full(gap.a), level.full(gap.b)]
        cells += [f"{scale.signed(gap.gap)} {scale.unit}", numbers.signed_percent(gap.relative)]
        cells += [scale.interval(gap.interval)] if width >= _WIDE else []
        better = wording.outcome(gap, *side) if gap.winner is None else side["ab".index(gap.winner)]
        table.add_row(*_texts([*cells, better]))
    return table


def evidence(every: Iterable[Evidence], side: tuple[str, str]) -> Table:
    """Both runs' numbers side by side, with the file they were read from."""
    table = _table("evidence", *map(Text, side))
    table.add_column(Text(said("source")), overflow="fold", style="dim")
    for item in every:
        values = (numbers.quantity(item.a, item.unit), numbers.quantity(item.b, item.unit))
        table.add_row(*_texts([item.name, *values, item.source]))
    return table


def parts(every: Sequence[Part], scale: numbers.Scale) -> Table:
    """The second level of a cause; intervals where any is known."""
    bounded = any(part.interval is not None for part in every)
    table = _table("part", _gap(scale), "share", *((wording.INTERVAL,) if bounded else ()))
    for part in every:
        cells = [part.name, scale.signed(part.gap), numbers.percent(part.share)]
        table.add_row(*_texts([*cells, scale.interval(part.interval)] if bounded else cells))
    return table


def kernels(every: Iterable[KernelRow], side: tuple[str, str], width: int) -> Table:
    """Kernel categories, seconds and calls; on a wide page the time of a call too."""
    wide = width >= _WIDE
    categories = [row for row in every if row.name is None]
    scale = numbers.scale_for("s", *(row.a_seconds for row in categories), *(row.b_seconds for row in categories))
    table = _table(
        "category",
        *(Text(f"{name}, {scale.unit}") for name in side),
        "difference",
        *(Text(said("{run}, calls", run=name)) for name in side),
        *(Text(said("{run}, of a call", run=name)) for name in side if wide),
    )
    for row in categories:
        table.add_row(
            *_texts(
                [
                    row.category,
                    scale.plain(row.a_seconds),
                    scale.plain(row.b_seconds),
                    scale.signed((row.b_seconds or 0.0) - (row.a_seconds or 0.0)),
                    numbers.quantity(row.a_calls, ""),
                    numbers.quantity(row.b_calls, ""),
                    *(
                        numbers.each(s, n)
                        for s, n in ((row.a_seconds, row.a_calls), (row.b_seconds, row.b_calls))
                        if wide
                    ),
                ]
            )
        )
    return table


def files(every: Sequence[InspectedFile], verbose: bool) -> Table:
    """Files by format; one by one when verbose."""
    if verbose:
        table = _table("format", "size", "problems", "read")
        table.add_column(Text(said("file")), overflow="fold")
        for file in every:
            amount, read = numbers.quantity(file.bytes, "bytes"), said("yes" if file.read else "no")
            table.add_row(*_texts([file.format, amount, f"{len(file.problems):,}", read, file.path]))
        return table
    table = _table("format", "files", "size", "not read")
    count, unread, size = Counter[str](), Counter[str](), Counter[str]()
    for file in every:
        count[file.format] += 1
        unread[file.format] += not file.read
        size[file.format] += file.bytes
    for name, files_read in count.most_common():
        table.add_row(*_texts([name, f"{files_read:,}", numbers.quantity(size[name], "bytes"), f"{unread[name]:,}"]))
    return table


def steps(every: Iterable[InspectedSteps]) -> Table:
    """What each source states about the steps."""
    table = _table("source", "steps", "prefill", "decode", "mixed", "sequences", "mean time")
    for source in every:
        table.add_row(
            *_texts(
                [
                    said("{source} (inferred)", source=source.source) if source.inferred else source.source,
                    f"{source.steps:,}",
                    f"{source.prefill:,}",
                    f"{source.decode:,}",
                    f"{source.mixed:,}",
                    numbers.quantity(source.mean_sequences, ""),
                    numbers.quantity(source.mean_seconds, "s"),
                ]
            )
        )
    return table


def device(item: InspectedDevice) -> Table:
    """Where the device's window went: busy by category and idle by cause add up to it."""
    scale = numbers.scale_for("s", item.window_seconds)
    table = _table("bucket", said("time, {unit}", unit=scale.unit), "of the window", *_CALLS)
    share = item.window_seconds or float("nan")
    for label, buckets, calls in (("busy", item.categories, item.calls), ("idle", item.idle, {})):
        for name, seconds in sorted(buckets.items(), key=lambda pair: -pair[1]):
            cells = [f"{said(label)}: {name}", scale.plain(seconds), numbers.percent(seconds / share)]
            table.add_row(*_texts([*cells, *_called(seconds, calls.get(name))]))
    table.add_section()
    busy = numbers.percent(item.busy_seconds / share)
    table.add_row(*_texts([said("busy"), scale.plain(item.busy_seconds), busy]))
    table.add_row(*_texts([said("window"), scale.plain(item.window_seconds), numbers.percent(1.0)]), style="bold")
    return table


def roles(item: InspectedDevice) -> Table:
    """The device's busy time by what the kernels do in the model."""
    busy = item.busy_seconds or float("nan")
    scale = numbers.scale_for("s", item.busy_seconds)
    table = _table("role", said("time, {unit}", unit=scale.unit), "of the busy time", *_CALLS)
    for name, seconds in item.roles.items():
        cells = [name, scale.plain(seconds), numbers.percent(seconds / busy)]
        table.add_row(*_texts([*cells, *_called(seconds, item.role_calls.get(name))]))
    return table


def _called(seconds: float, calls: int | None) -> tuple[str, str]:
    return ("", "") if calls is None else (f"{calls:,}", numbers.each(seconds, calls))


def operators(item: InspectedDevice, most: int) -> Table:
    """The device's busy time by the operators that launched the work, the largest ``most`` of them by name."""
    busy = item.busy_seconds or float("nan")
    scale = numbers.scale_for("s", item.busy_seconds)
    # On a CPU the operators are the work.
    hosted = any(row.host_seconds is not None for row in item.operators)
    heads = (said("time, {unit}", unit=scale.unit), "of the busy time", *_CALLS, *(("host",) if hosted else ()))
    table = _table("launching operator" if hosted else "operator", *heads)
    for row in _largest(item.operators, most):
        cells = [wording.launched_by(row), scale.plain(row.seconds), numbers.percent(row.seconds / busy)]
        host = "" if row.host_seconds is None else numbers.quantity(row.host_seconds, "s")
        table.add_row(*_texts([*cells, *_called(row.seconds, row.calls), *((host,) if hosted else ())]))
    return table


def _largest(every: Sequence[InspectedOperator], most: int) -> Iterator[InspectedOperator]:
    """The ``most`` first operators, all others as one row, and what is no operator."""
    operators = [row for row in every if row.kind in ("operator", "others")]
    yield from operators[:most]
    if left := operators[most:]:
        yield InspectedOperator(
            kind="others",
            name="",
            seconds=sum(row.seconds for row in left),
            calls=sum(row.calls or 0 for row in left),
            host_seconds=None if left[0].host_seconds is None else sum(row.host_seconds or 0.0 for row in left),
            names=sum(row.names for row in left),
        )
    yield from every[len(operators) :]


def captured(item: InspectedDevice, most: int) -> Table:
    """The device's replayed work by the ranges that it was captured in."""
    busy = item.busy_seconds or float("nan")
    scale = numbers.scale_for("s", item.busy_seconds)
    table = _table("captured in", said("time, {unit}", unit=scale.unit), "of the busy time")
    for name, seconds in list(item.captured.items())[:most]:
        table.add_row(*_texts([name, scale.plain(seconds), numbers.percent(seconds / busy)]))
    return table


def figures(every: Iterable[Figure], verbose: bool) -> Table:
    """One number a line, with what it rests on; two of a name with their sources, so that they can be told apart."""
    every = list(every)
    twice = {
        name for name, n in Counter(name for name, _ in {(item.name, item.source) for item in every}).items() if n > 1
    }
    table = _table("figure", "value")
    table.add_column(Text(said("detail")), overflow="fold", style="dim")
    if verbose:
        table.add_column(Text(said("source")), overflow="fold", style="dim")
    for item in every:
        read = said("from {source}", source=item.source) if item.name in twice and not verbose else ""
        cells = [item.name, numbers.quantity(item.value, item.unit), "; ".join(x for x in (item.detail, read) if x)]
        table.add_row(*_texts([*cells, item.source] if verbose else cells))
    return table


def totals(item: InspectedTotals, most: int) -> Table:
    """A summary's largest names, by category where they are kernels. Durations are added up, so nothing is a share
    of time that passed."""
    scale = numbers.scale_for("s", item.seconds)
    table = _table("added up", said("time, {unit}", unit=scale.unit), "of the total")
    whole = item.seconds or float("nan")
    for buckets, label in ((item.categories, f"{said('category')}: "), (item.largest, "")):
        for name, seconds in list(buckets.items())[:most]:
            table.add_row(*_texts([f"{label}{name}", scale.plain(seconds), numbers.percent(seconds / whole)]))
    table.add_section()
    table.add_row(*_texts([said("total"), scale.plain(item.seconds), numbers.percent(1.0)]), style="bold")
    return table


def component(item: InspectedComponent) -> Table:
    """What a program beside the engines says."""
    return facts(
        {
            said(name.removesuffix("_seconds").replace("_", " ")): numbers.percent(value)
            if name in ("kv_usage", "hit_rate")
            else numbers.quantity(value, "s" if name.endswith("_seconds") else "")
            for name, value in item.values.items()
        }
    )


def predictions(metrics: Mapping[str, float], every: Mapping[str, Prediction], verbose: bool) -> Table:
    """Metrics as measured, as predicted, and the change; percentiles only when verbose."""
    table = _table("metric", "measured", "predicted", "change", wording.INTERVAL)
    for name, prediction in every.items():
        if not verbose and name.startswith("p"):
            continue
        value, unit = metrics[name], wording.metric_unit(name)
        cells = [
            wording.metric(name),
            numbers.quantity(value, unit),
            numbers.quantity(value * (1.0 + prediction.change), unit),
            numbers.signed_percent(prediction.change),
            numbers.changes(prediction.interval),
        ]
        table.add_row(*_texts(cells))
    return table


def facts(every: Mapping[str, str]) -> Table:
    """Names and values in two columns."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", overflow="fold")
    table.add_column(overflow="fold")
    for name, value in every.items():
        table.add_row(*_texts([f"  {name}", value]))
    return table


def _summaries(every: Iterable[Row]) -> Iterator[RenderableType]:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in every:
        if row.summary:
            table.add_row(Text(f"  {row.label}", "bold"), Text(plain(row.summary)))
    if table.row_count:
        yield Text()
        yield table


def _gap(scale: numbers.Scale) -> str:
    return f"{said('gap')}, {scale.unit}" if scale.unit else said("gap")


def _table(name: str, *figures: str | Text) -> Table:
    """An empty table. Heads are ours and said in the language in force; a ``Text`` is data, such as a run's name."""
    table = Table(box=_RULES, pad_edge=False, show_edge=False, header_style="dim", padding=(0, 1))
    table.add_column(Text(plain(said(name))), overflow="fold")
    for figure in figures:
        head = Text(plain(said(figure), _HEADER)) if isinstance(figure, str) else Text(plain(figure.plain, _HEADER))
        table.add_column(head, justify="right", overflow="fold")
    return table


def _texts(cells: Iterable[str]) -> list[Text]:
    return [Text(plain(cell)) for cell in cells]
