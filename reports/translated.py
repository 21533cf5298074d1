"""A diagnosis with everything that is prose in the language in force; numbers, files, flags and names stay.

The problems of files stay as their readers wrote them: they quote what stands in a file.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from profiler.model.diagnosis import Cause, Diagnosis, Evidence, FairnessRule, Gap, Part, SummaryLine, Verdict
from profiler.model.goodput import Goodput
from profiler.model.timeline import Lane, StepPair
from profiler.reports.breakdown import parted
from profiler.reports.language import named, said, tag


def translated(diagnosis: Diagnosis) -> Diagnosis:
    """The same document; itself in English."""
    if tag() == "en":
        return diagnosis
    return replace(
        diagnosis,
        verdict=_verdict(diagnosis.verdict),
        gaps=tuple(map(_gap, diagnosis.gaps)),
        fairness=tuple(map(_rule, diagnosis.fairness)),
        recommendations=tuple(
            replace(knob, why=said(knob.why), check=said(knob.check)) for knob in diagnosis.recommendations
        ),
        missing=_lines(diagnosis.missing),
        method=_lines(diagnosis.method),
        curves=tuple(replace(curve, title=said(curve.title)) for curve in diagnosis.curves),
        timelines=tuple(map(_steps, diagnosis.timelines)),
        moments=tuple(
            replace(m, bucket=said(m.bucket), name=said(m.bucket)) if m.name == m.bucket else m
            for m in diagnosis.moments
        ),
        loads=None if diagnosis.loads is None else _loads(diagnosis.loads),
        summary=tuple(map(_line, diagnosis.summary)),
    )


def _lines(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(said(line) for line in lines)


def _verdict(verdict: Verdict) -> Verdict:
    headline, rest = parted(verdict)
    first, second = said(headline), said(rest) if rest else ""
    return replace(verdict, headline=first, text=f"{first} {second}".strip(), reasons=_lines(verdict.reasons))


def _gap(gap: Gap) -> Gap:
    rest = replace(gap.unexplained, summary=said(gap.unexplained.summary), parts=_parts(gap.unexplained.parts))
    return replace(gap, causes=tuple(map(_cause, gap.causes)), unexplained=rest)


def _cause(cause: Cause) -> Cause:
    return replace(cause, summary=said(cause.summary), evidence=_evidence(cause.evidence), parts=_parts(cause.parts))


def _parts(parts: Iterable[Part]) -> tuple[Part, ...]:
    """A part of one word is a kernel category or a phase, which keeps its name."""
    return tuple(
        replace(part, name=(said if " " in part.name else named)(part.name), evidence=_evidence(part.evidence))
        for part in parts
    )


def _evidence(every: Iterable[Evidence]) -> tuple[Evidence, ...]:
    return tuple(
        replace(item, name=said(item.name), a=_value(item.a), b=_value(item.b), source=named(item.source))
        for item in every
    )


def _value(value: float | str | None) -> float | str | None:
    return named(value) if isinstance(value, str) else value


def _rule(rule: FairnessRule) -> FairnessRule:
    return replace(rule, detail=said(rule.detail), fix=said(rule.fix), evidence=_evidence(rule.evidence))


def _line(line: SummaryLine) -> SummaryLine:
    return replace(line, a=_value(line.a), b=_value(line.b))


def _steps(pair: StepPair) -> StepPair:
    steps = tuple(
        replace(step, composition=said(step.composition), lanes=tuple(map(_lane, step.lanes))) for step in pair.steps
    )
    return replace(pair, steps=steps, absent={side: said(reason) for side, reason in pair.absent.items()})


def _lane(lane: Lane) -> Lane:
    """Idle causes are ours; categories, phases and calls are the field's or the trace's."""
    groups = tuple(said(group) for group in lane.groups) if lane.kind == "idle" else lane.groups
    return replace(lane, title=said(lane.title), groups=groups)


def _loads(loads: Goodput) -> Goodput:
    return replace(loads, headline=said(loads.headline), notes=_lines(loads.notes))
