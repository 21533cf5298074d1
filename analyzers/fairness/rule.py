"""What a rule is, and the few shapes that its answer has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from profiler.analyzers.fairness.side import Side
from profiler.model.diagnosis import Evidence, FairnessRule

Status = Literal["pass", "fail", "unknown", "not applicable"]
Severity = Literal["block", "warn", "info"]


@dataclass(frozen=True)
class Finding:
    """What a rule found. ``severity`` None: the rule's own."""

    status: Status
    detail: str
    evidence: tuple[Evidence, ...] = ()
    fix: str = ""
    severity: Severity | None = None


@dataclass(frozen=True)
class Rule:
    """A rule of a fair comparison. ``label`` is its place in the list of docs/fairness.md."""

    label: str
    name: str
    severity: Severity
    judge: Callable[[Side, Side], Finding]

    def over(self, a: Side, b: Side) -> FairnessRule:
        """The rule's answer on a pair, as the result document holds it."""
        found = self.judge(a, b)
        return FairnessRule(
            rule=self.name,
            status=found.status,
            severity=found.severity or self.severity,
            detail=found.detail,
            evidence=found.evidence,
            fix=found.fix,
        )


def passed(detail: str, *evidence: Evidence) -> Finding:
    """The rule was checked and holds."""
    return Finding("pass", detail, evidence)


def failed(detail: str, *evidence: Evidence, fix: str, severity: Severity | None = None) -> Finding:
    """The rule was checked and does not hold."""
    return Finding("fail", detail, evidence, fix, severity)


def unknown(detail: str, *evidence: Evidence, fix: str) -> Finding:
    """What the rule needs is not there; ``fix`` says what would be needed."""
    return Finding("unknown", detail, evidence, fix)


def inapplicable(detail: str) -> Finding:
    """The rule is about something that this pair does not have."""
    return Finding("not applicable", detail)


def pair(
    name: str, values: Sequence[float | str | None], unit: str = "", source: str = "benchmark results"
) -> Evidence:
    """Both runs' values of one number."""
    return Evidence(name=name, a=values[0], b=values[1], unit=unit, source=source)


def stated(name: str, a: Side, b: Side, *keys: str) -> Evidence:
    """Both runs' values of a fact, with the places where they were read."""
    values = [side.fact(*keys) for side in (a, b)]
    shown = [v if isinstance(v, float | int) and not isinstance(v, bool) else _text(v) for v in values]
    return pair(name, shown, source=sources(a, b, *keys))


def sources(a: Side, b: Side, *keys: str) -> str:
    """The places of a fact in both runs; one where they are called alike."""
    return "; ".join(dict.fromkeys(place for side in (a, b) if (place := side.source(*keys)))) or "no file"


def compared(a: Side, b: Side, keys: Sequence[str], *, equal: str, other: str, fix: str, need: str) -> Finding:
    """Facts that must be the same. Only those that both runs state are compared; the first that differs decides."""
    known = [key for key in keys if a.fact(key) is not None and b.fact(key) is not None]
    for key in known:
        if str(a.fact(key)) != str(b.fact(key)):
            shown = f"{key} is {a.fact(key)} in {a.run.name} and {b.fact(key)} in {b.run.name}"
            return failed(f"{other}: {shown}", stated(key, a, b, key), fix=fix)
    if not known:
        return unknown(f"not both runs state {'one of ' if len(keys) > 1 else ''}{', '.join(keys)}", fix=need)
    return passed(f"{equal} ({', '.join(known)})", *(stated(key, a, b, key) for key in known))


def _text(value: object) -> str | None:
    return None if value is None else str(value)
