"""The rows of a gap, the same in every report: causes, what is unexplained, and the total they add up to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from msgspec.structs import replace

from profiler.model.diagnosis import ALWAYS_SHOWN, Cause, Diagnosis, FairnessRule, Gap, Part, Verdict
from profiler.model.document import DocumentProblem, Interval
from profiler.reports import numbers, wording
from profiler.reports.language import said
from profiler.reports.safe_text import plain

_NAME: Final = 60
_SEVERITY: Final = ("error", "warning", "info")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the breakdown, in the unit of the gap; ``gap`` None where a cause was not told apart."""

    kind: Literal["cause", "unexplained", "total"]
    label: str
    gap: float | None
    share: float | None
    interval: Interval | None
    summary: str
    per_token: float | None
    cause: Cause | None = None

    def bounds(self, scale: numbers.Scale) -> str:
        """The interval; none is formed for what is left over, nor for what the runs do not differ in."""
        if self.kind == "unexplained" or (self.interval is None and self.gap == 0.0):
            return wording.NO_SHARE
        return scale.interval(self.interval)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The second level, where there is one."""
        return self.cause.parts if self.cause is not None else ()


def rows(gap: Gap) -> list[Row]:
    """Causes from the largest to the smallest, the four that are always shown among them, then unexplained and total.

    The total is the measured gap, not a sum of the rows: a table that does not add up must be seen not to.
    """
    causes = sorted(gap.causes, key=lambda cause: -_size(cause.gap))
    present = {cause.cause for cause in causes}
    lines = [_cause(gap, cause) for cause in causes]
    lines += [
        Row("cause", said(wording.CAUSE[name]), None, None, None, said(wording.NO_EVIDENCE), None)
        for name in ALWAYS_SHOWN
        if name not in present
    ]
    rest = gap.unexplained
    lines.append(
        Row(
            "unexplained",
            said(wording.UNEXPLAINED),
            rest.gap,
            rest.share,
            None,
            rest.summary,
            _per_token(gap, rest.gap),
        )
    )
    additive = gap.seconds_per_output_token
    total = None if additive is None else additive.gap
    lines.append(
        Row("total", said(wording.TOTAL), gap.gap, None if rest.share is None else 1.0, gap.interval, "", total)
    )
    return lines


def rowless(gap: Gap) -> str:
    """Which causes were looked for and have no row, in a sentence; empty where every cause has one."""
    shown = {*ALWAYS_SHOWN, *(cause.cause for cause in gap.causes)}
    left = [said(label) for name, label in wording.CAUSE.items() if name not in shown]
    if not left:
        return ""
    return said("Looked for too, with no difference or no evidence of one: {list}.", list=", ".join(left))


def ordered_gaps(diagnosis: Diagnosis) -> list[Gap]:
    """Throughput first, then as in the document; without shares where the interval holds zero, for there they are
    fractions of noise."""
    ordered = sorted(
        diagnosis.gaps, key=lambda gap: (gap.metric != "output_throughput", "throughput" not in gap.metric)
    )
    return [_shareless(gap) if gap.interval and gap.interval[0] <= 0.0 <= gap.interval[1] else gap for gap in ordered]


def parted(verdict: Verdict) -> tuple[str, str]:
    """The verdict's first sentence and the rest of its text; all of it is the first where no headline is set apart."""
    if verdict.headline and verdict.text.startswith(verdict.headline):
        return verdict.headline, verdict.text[len(verdict.headline) :].strip()
    return verdict.text, ""


def names(diagnosis: Diagnosis) -> tuple[str, str]:
    """What the two sides are called, short enough for the head of a column and never the same."""
    known = [plain(run.name, _NAME) for run in diagnosis.runs[:2]]
    a, b = (known[0] if known else "A"), (known[1] if len(known) > 1 else "B")
    return (a, b) if a != b else (f"{a} (A)", f"{b} (B)")


def ordered_problems(problems: Sequence[DocumentProblem]) -> list[DocumentProblem]:
    """Errors first, then warnings."""
    return sorted(problems, key=lambda problem: _rank(problem.severity))


def ordered_rules(rules: Sequence[FairnessRule]) -> list[FairnessRule]:
    """What failed first, then what is not known; blocking rules before warnings."""
    status = ("fail", "unknown", "pass", "not applicable")
    severity = ("block", "warn", "info")
    return sorted(rules, key=lambda rule: (status.index(rule.status), severity.index(rule.severity)))


def counted(rules: Sequence[FairnessRule]) -> str:
    """``60 rules: 12 failed, 20 not known, 25 passed, 3 not applicable``."""
    named = (("fail", "failed"), ("unknown", "not known"), ("pass", "passed"), ("not applicable", "not applicable"))
    counts = [(sum(rule.status == status for rule in rules), word) for status, word in named]
    told = ", ".join(f"{count} {said(word)}" for count, word in counts if count)
    return said("{count} rules: {told}", count=str(len(rules)), told=told)


def _shareless(gap: Gap) -> Gap:
    def bare(parts: Sequence[Part]) -> tuple[Part, ...]:
        return tuple(replace(part, share=None) for part in parts)

    causes = tuple(replace(cause, share=None, parts=bare(cause.parts)) for cause in gap.causes)
    rest = replace(gap.unexplained, share=None, parts=bare(gap.unexplained.parts))
    return replace(gap, causes=causes, unexplained=rest)


def _cause(gap: Gap, cause: Cause) -> Row:
    summary = f"{cause.summary} ({said(wording.EXTRAPOLATED)})" if cause.extrapolated else cause.summary
    return Row(
        "cause",
        said(wording.CAUSE[cause.cause]),
        cause.gap,
        cause.share,
        cause.interval,
        summary,
        _per_token(gap, cause.gap),
        cause,
    )


def _per_token(gap: Gap, part: float) -> float | None:
    additive = gap.seconds_per_output_token
    return None if additive is None or additive.factor == 0 else part / additive.factor


def _size(value: float) -> float:
    return abs(value) if math.isfinite(value) else math.inf


def _rank(severity: str) -> int:
    return _SEVERITY.index(severity) if severity in _SEVERITY else len(_SEVERITY)
