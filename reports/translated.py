"""Documents with everything that is prose in the language in force; numbers, files, flags and names stay.

Of a problem the sentence is translated, and what it quotes of a file stays as it stands there.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from profiler.model.check import Check
from profiler.model.diagnosis import (
    Cause,
    Diagnosis,
    Evidence,
    FairnessRule,
    Gap,
    Part,
    Recommendation,
    SummaryLine,
    Verdict,
)
from profiler.model.document import DocumentProblem
from profiler.model.goodput import Goodput
from profiler.model.inspection import Figure, InspectedDevice, InspectedTrust, Inspection
from profiler.model.recommendation import RecommendationDocument, WhatIfDocument
from profiler.model.timeline import Lane, StepPair
from profiler.reports import wording
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
        recommendations=tuple(map(_knob, diagnosis.recommendations)),
        problems=_problems(diagnosis.problems),
        missing=_lines(diagnosis.missing),
        method=_lines(diagnosis.method),
        curves=tuple(replace(curve, title=said(curve.title), source=named(curve.source)) for curve in diagnosis.curves),
        timelines=tuple(map(_steps, diagnosis.timelines)),
        moments=tuple(
            replace(m, bucket=said(m.bucket), name=said(m.bucket)) if m.name == m.bucket else m
            for m in diagnosis.moments
        ),
        loads=None if diagnosis.loads is None else translated_goodput(diagnosis.loads),
        summary=tuple(map(_line, diagnosis.summary)),
    )


def _lines(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(said(line) for line in lines)


def _verdict(verdict: Verdict) -> Verdict:
    headline, rest = parted(verdict)
    first, second = said(headline), said(rest) if rest else ""
    return replace(
        verdict, headline=first, text=f"{first} {second}".strip(), reasons=tuple(map(_reason, verdict.reasons))
    )


def _reason(line: str) -> str:
    """A rule's name stands before what it found."""
    rule, colon, detail = line.partition(": ")
    title = wording.rule(rule) if colon and rule.isidentifier() else rule
    return said(line) if title == rule else said("{a}: {b}", a=title, b=said(detail))


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
    return replace(
        line, a=_value(line.a), b=_value(line.b), a_source=named(line.a_source), b_source=named(line.b_source)
    )


def _steps(pair: StepPair) -> StepPair:
    steps = tuple(
        replace(step, composition=said(step.composition), lanes=tuple(map(_lane, step.lanes))) for step in pair.steps
    )
    return replace(pair, steps=steps, absent={side: said(reason) for side, reason in pair.absent.items()})


def _lane(lane: Lane) -> Lane:
    """Idle causes are ours; categories, phases and calls are the field's or the trace's."""
    groups = tuple(said(group) for group in lane.groups) if lane.kind == "idle" else lane.groups
    return replace(lane, title=said(lane.title), groups=groups)


def translated_goodput(loads: Goodput) -> Goodput:
    """Goodput against load; itself in English."""
    return replace(loads, headline=said(loads.headline), notes=_lines(loads.notes), problems=_problems(loads.problems))


def translated_check(check: Check) -> Check:
    """The rules of a fair comparison; themselves in English."""
    return replace(
        check,
        headline=said(check.headline),
        fairness=tuple(map(_rule, check.fairness)),
        problems=_problems(check.problems),
    )


def translated_inspection(inspection: Inspection) -> Inspection:
    """What is in a run; itself in English."""
    return replace(
        inspection,
        devices=tuple(map(_device, inspection.devices)),
        step_sources=tuple(replace(one, source=said(one.source)) for one in inspection.step_sources),
        figures=tuple(map(_figure, inspection.figures)),
        trust=tuple(map(_trust, inspection.trust)),
        totals=tuple(replace(one, what=said(one.what)) for one in inspection.totals),
        problems=_problems(inspection.problems),
    )


def translated_recommendations(document: RecommendationDocument) -> RecommendationDocument:
    """What to turn; itself in English."""
    return replace(
        document,
        verdict=said(document.verdict),
        recommendations=tuple(map(_knob, document.recommendations)),
        advice=tuple(
            replace(one, symptom=said(one.symptom), evidence=said(one.evidence), text=said(one.text))
            for one in document.advice
        ),
        limits=tuple(replace(one, name=said(one.name), how=said(one.how)) for one in document.limits),
        not_predicted={knob: said(reason) for knob, reason in document.not_predicted.items()},
        without_effect={knob: said(reason) for knob, reason in document.without_effect.items()},
    )


def translated_whatif(document: WhatIfDocument) -> WhatIfDocument:
    """A prediction; itself in English."""
    founded = {name: replace(one, reason=said(one.reason)) for name, one in document.confidence.items()}
    return replace(document, notes=_lines(document.notes), confidence=founded)


def _knob(knob: Recommendation) -> Recommendation:
    bare = knob.flag.removeprefix("without ")
    return replace(
        knob,
        flag=knob.flag if bare == knob.flag else said("without {flag}", flag=bare),
        why=said(knob.why),
        check=said(knob.check),
        default=None if knob.default is None else named(knob.default),
        allowed=None if knob.allowed is None else said(knob.allowed),
        needs=said(knob.needs),
        price=said(knob.price),
        confidence_reason=said(knob.confidence_reason),
        beside={metric: said(text) for metric, text in knob.beside.items()},
    )


def _problems(every: Iterable[DocumentProblem]) -> tuple[DocumentProblem, ...]:
    return tuple(
        replace(one, detail=said(one.detail), place=None if one.place is None else named(one.place)) for one in every
    )


def _device(device: InspectedDevice) -> InspectedDevice:
    def shown(role: str) -> str:
        return named(role) if " " in role else role

    return replace(
        device,
        idle={said(cause): seconds for cause, seconds in device.idle.items()},
        roles={shown(role): seconds for role, seconds in device.roles.items()},
        role_calls={shown(role): calls for role, calls in device.role_calls.items()},
    )


def _figure(figure: Figure) -> Figure:
    name = (named if figure.section == "stacks" else said)(figure.name)  # a frame of the program
    return replace(figure, name=name, detail=said(figure.detail), source=named(figure.source))


def _trust(one: InspectedTrust) -> InspectedTrust:
    return replace(one, check=said(one.check), detail=said(one.detail), concerns=said(one.concerns))
