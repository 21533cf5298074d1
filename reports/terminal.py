"""The diagnosis and the inspection on a terminal, or in a pipe: through the console that is given, never past it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from profiler.model.diagnosis import Cause, Diagnosis, FairnessRule, Gap
from profiler.model.document import DocumentProblem
from profiler.model.inspection import Inspection
from profiler.reports import numbers, terminal_tables, wording
from profiler.reports.breakdown import (
    counted,
    names,
    ordered_gaps,
    ordered_problems,
    ordered_rules,
    parted,
    rowless,
    rows,
)
from profiler.reports.kernel_basis import basis_of
from profiler.reports.language import said
from profiler.reports.safe_text import plain
from profiler.reports.translated import translated, translated_inspection

_MARK = {"error": "red", "warning": "yellow", "fail": "red", "unknown": "yellow"}
_FEW, _MANY = 5, 50
_MOST_FIGURES = 12


def print_diagnosis(diagnosis: Diagnosis, console: Console, verbose: bool) -> None:
    """The verdict, the gap as a table that adds up, what is not fair, what was wrong and what was missing."""
    diagnosis = translated(diagnosis)
    _verdict(diagnosis, console)
    side = names(diagnosis)
    gaps = ordered_gaps(diagnosis)
    detailed = gaps if verbose else gaps[:1]
    for gap in detailed:
        _gap(gap, side, console, verbose)
    if gaps[len(detailed) :]:
        _heading(console, "Other metrics")
        console.print(terminal_tables.gaps(gaps[len(detailed) :], side, console.width))
    if diagnosis.kernels and (verbose or not gaps):
        basis = basis_of(diagnosis)
        _heading(console, said("Kernel time {per}", per=basis.per))
        for one in (one for one in diagnosis.shown if one.of > 1):
            console.print(_indented(Text(plain(wording.shown(one, side["ab".index(one.run)])), "dim"), 2))
        console.print(terminal_tables.kernels(map(basis.of, diagnosis.kernels), side, console.width))
    _fairness(diagnosis.fairness, console, side, verbose)
    _recommendations(diagnosis, console)
    _problems(diagnosis.problems, console, verbose)
    _list(console, "Missing evidence", diagnosis.missing, _MANY if verbose else _FEW)
    if verbose:
        _list(console, "How it was measured", diagnosis.method, _MANY)


def print_inspection(inspection: Inspection, console: Console, verbose: bool) -> None:
    """What is in a run: files, engine, facts, steps, what each device did, and every problem found."""
    inspection = translated_inspection(inspection)
    console.print(Text(plain(inspection.run), "bold"))
    console.print(terminal_tables.facts(_identity(inspection)))
    _heading(console, "Files")
    console.print(terminal_tables.files(inspection.files, verbose))
    if inspection.step_sources:
        _heading(console, "Steps")
        console.print(terminal_tables.steps(inspection.step_sources))
    for device in inspection.devices[: None if verbose else _FEW]:
        title = f"{device.device} {device.name or ''}".strip()
        trace = wording.in_trace(device.trace, device.rank if len(inspection.devices) > 1 else None)
        _heading(console, title, said("{n} kernels in {trace}", n=f"{device.kernels:,}", trace=trace))
        console.print(terminal_tables.device(device))
        if device.roles:
            console.print(terminal_tables.roles(device))
            found = said("{n} layers found in the order of the kernels", n=str(device.layers))
            if device.layers is None:
                found = said("the number of layers is not known from the order of the kernels")
            console.print(Text(f"  {found}", "dim"))
        if device.operators:
            console.print(terminal_tables.operators(device, _MANY if verbose else _MOST_FIGURES))
        if device.captured:
            most = _MANY if verbose else _MOST_FIGURES
            console.print(terminal_tables.captured(device, most))
            _rest(console, len(device.captured) - most, "ranges")
    _rest(console, 0 if verbose else len(inspection.devices) - _FEW, "devices")
    for section, figures in groupby(inspection.figures, key=lambda figure: figure.section):
        rows = list(figures)
        shown = rows if verbose else rows[:_MOST_FIGURES]
        _heading(console, section[0].upper() + section[1:])
        console.print(terminal_tables.figures(shown, verbose))
        _rest(console, len(rows) - len(shown), "figures")
    for totals in inspection.totals[: None if verbose else _FEW]:
        names = said("{n} names in {source} ({tool})", n=f"{totals.names:,}", source=totals.source, tool=totals.tool)
        calls = names if totals.calls is None else said("{n} calls of {names}", n=f"{totals.calls:,}", names=names)
        _heading(console, said("Totals: {what}", what=totals.what), calls)
        console.print(terminal_tables.totals(totals, _MANY if verbose else _FEW))
    for component in inspection.components[: None if verbose else _FEW]:
        where = said("{name} in {source}", name=component.title, source=component.source)
        _heading(console, "Beside the engine", where)
        console.print(terminal_tables.component(component))
    failed = [check for check in inspection.trust if check.passed is False]
    if inspection.trust and (failed or verbose):
        _heading(console, "Completeness of the traces")
        for check in inspection.trust if verbose else failed:
            _marked(console, wording.trusted(check), check.trace, f"{check.check}: {check.detail}")
    if inspection.metrics:
        _heading(console, "Metrics")
        console.print(terminal_tables.facts(_metrics(inspection)))
    _problems(inspection.problems, console, verbose)


def _rest(console: Console, hidden: int, what: str) -> None:
    """How much of a list is not shown, where some is not."""
    if hidden > 0:
        console.print(Text(f"  {wording.more(hidden)} {said(what)}", "dim"))


def _verdict(diagnosis: Diagnosis, console: Console) -> None:
    verdict = diagnosis.verdict
    headline, rest = parted(verdict)
    console.print(Text(plain(headline) or said(wording.STATUS[verdict.status]), "bold"))
    if rest:
        console.print(Text(plain(rest)))
    for reason in verdict.reasons:
        console.print(Text(plain(reason)))
    if verdict.status != "winner":
        console.print(Text(said("Verdict: {status}.", status=said(wording.STATUS[verdict.status])), "yellow"))
    for run in diagnosis.runs:
        if run.simulated:
            console.print(
                Text(said("{run} is simulated: not measured on a real engine.", run=plain(run.name)), "yellow")
            )


def _gap(gap: Gap, side: tuple[str, str], console: Console, verbose: bool) -> None:
    scale, change = numbers.level_scale(gap), numbers.gap_scale(gap)
    interval = numbers.level(change.interval(gap.interval))
    head = (
        f"{side[0]} {scale.full(gap.a)}, {side[1]} {scale.full(gap.b)}: {change.signed(gap.gap)} {change.unit}".strip()
    )
    relative = numbers.signed_percent(gap.relative)
    outcome = wording.outcome(gap, *side)
    _heading(console, wording.title(gap.metric), f"{head} ({relative}; {interval}); {outcome}")
    for renderable in terminal_tables.breakdown(gap, console.width):
        console.print(renderable)
    if left := rowless(gap):
        console.print(_indented(Text(left, "dim"), 2))
    if not verbose:
        return
    for row in rows(gap):
        if row.cause is not None and (row.cause.evidence or row.cause.parts):
            _evidence(row.label, row.cause, gap, side, console)
    if gap.unexplained.parts:
        console.print(Text(f"\n  {said(wording.UNEXPLAINED)}", "bold"))
        console.print(_indented(terminal_tables.parts(gap.unexplained.parts, change), 2))


def _evidence(label: str, cause: Cause, gap: Gap, side: tuple[str, str], console: Console) -> None:
    console.print(Text(f"\n  {label}", "bold"))
    if cause.evidence:
        console.print(_indented(terminal_tables.evidence(cause.evidence, side), 2))
    if cause.parts:
        console.print(_indented(terminal_tables.parts(cause.parts, numbers.gap_scale(gap)), 2))


def _fairness(rules: Iterable[FairnessRule], console: Console, side: tuple[str, str], verbose: bool) -> None:
    every = ordered_rules(list(rules))
    shown = every if verbose else [rule for rule in every if rule.status == "fail"]
    if not every:
        return
    _heading(console, "Fairness", counted(every))
    for rule in shown:
        _marked(console, rule.status, f"{wording.rule(rule.rule)} ({said(rule.severity)})", rule.detail)
        if rule.fix and rule.status != "pass":
            console.print(_indented(Text(plain(f"{said('to fix:')} {rule.fix}")), 4))
        if verbose and rule.evidence:
            console.print(_indented(terminal_tables.evidence(rule.evidence, side), 4))


def _recommendations(diagnosis: Diagnosis, console: Console) -> None:
    if not diagnosis.recommendations:
        return
    _heading(console, "Recommendations")
    for knob in diagnosis.recommendations:
        change = f"{knob.flag} {knob.to or ''}".strip()
        predicted = "; ".join(
            f"{wording.metric(name)} {numbers.signed_percent(value.change)} ({numbers.predicted(knob, name)})"
            for name, value in knob.predicted.items()
        )
        console.print(Text.assemble("  ", plain(knob.run), ": ", (plain(change), "bold"), plain(wording.now(knob))))
        told = (wording.price(knob), wording.confidence(knob))
        for line in (predicted, wording.why(knob), *told, f"{said('check:')} {knob.check}" if knob.check else ""):
            if line:
                console.print(_indented(Text(plain(line)), 4))


def _problems(problems: Iterable[DocumentProblem], console: Console, verbose: bool) -> None:
    every = ordered_problems(list(problems))
    shown = every if verbose else [problem for problem in every if problem.severity != "info"][:_FEW]
    shown = shown[:_MANY]
    if not every:
        return
    _heading(console, "Problems in the files")
    for problem in shown:
        place = said(" (at {place})", place=problem.place) if problem.place else ""
        times = said(" [{count} times]", count=f"{problem.count:,}") if problem.count > 1 else ""
        _marked(console, problem.severity, f"{problem.run}/{problem.file}", f"{problem.detail}{place}{times}")
    hidden = len(every) - len(shown)
    if hidden and not shown:
        notes = said("notes on the files: {n} (-v shows them)", n=f"{hidden:,}")
        console.print(Text(f"  {notes}", "dim"))
    elif hidden:
        console.print(Text(f"  {wording.more(hidden)}", "dim"))


def _marked(console: Console, mark: str, subject: str, detail: str) -> None:
    style = _MARK.get(mark, "dim")
    line = Text.assemble((plain(said(mark)), style), " ", (plain(subject), "bold"), ": ", plain(detail))
    console.print(_indented(line, 2))


def _list(console: Console, title: str, lines: tuple[str, ...], limit: int) -> None:
    if not lines:
        return
    _heading(console, title)
    for line in lines[:limit]:
        console.print(_indented(Text(plain(line)), 2))
    if len(lines) > limit:
        console.print(Text(f"  {wording.more(len(lines) - limit)}", "dim"))


def _heading(console: Console, title: str, detail: str = "") -> None:
    name, rest = plain(said(title)), plain(detail)
    fits = cell_len(name) + cell_len(rest) + 2 <= console.width
    console.print()
    console.print(Text.assemble((name, "bold cyan"), ("  " if fits else "\n") if rest else "", rest))


def _indented(content: RenderableType, by: int) -> Padding:
    return Padding(content, (0, 0, 0, by), expand=False)


def _identity(inspection: Inspection) -> dict[str, str]:
    engine = inspection.engine
    known = f"{engine.name} {engine.version or ''}".strip() if engine.name else said(wording.NOT_KNOWN)
    read = said(" (from {source})", source=engine.source) if engine.source else ""
    return {
        said("engine"): known + read,
        **inspection.facts,
        said("requests"): f"{inspection.requests:,}",
        said("steps"): f"{inspection.steps:,}",
        said("kernel time not classified"): numbers.percent(inspection.unclassified_share),
    }


def _metrics(inspection: Inspection) -> dict[str, str]:
    return {
        wording.metric(name): numbers.quantity(value, wording.metric_unit(name))
        for name, value in inspection.metrics.items()
    }
