"""Cutting a document to what one page can hold, and saying what was cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

import msgspec

from profiler.model.diagnosis import Cause, Diagnosis, Gap, KernelRow, Unexplained
from profiler.model.goodput import Goodput
from profiler.reports import wording
from profiler.reports.breakdown import ordered_gaps, ordered_problems, ordered_rules
from profiler.reports.language import said
from profiler.reports.safe_text import plain

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """How many lines a list may have and how many characters a kernel's name."""

    lines: int
    kernels: int
    gaps: int
    name: int
    timelines: int


# from what a reader may want to what always fits
LIMITS: Final = (Limits(100, 600, 40, 400, 2), Limits(30, 150, 12, 200, 1), Limits(4, 10, 2, 100, 0))


def trim(diagnosis: Diagnosis, limits: Limits) -> tuple[Diagnosis, tuple[str, ...]]:
    """The document within ``limits``, and one sentence for every list that was cut."""
    cut: list[str] = []

    def head(items: Sequence[T], what: str, most: int = limits.lines) -> tuple[T, ...]:
        if len(items) > most:
            cut.append(
                said("{left} of {all} {what}", left=f"{len(items) - most:,}", all=f"{len(items):,}", what=said(what))
            )
        return tuple(items[:most])

    shorter = msgspec.structs.replace(
        diagnosis,
        runs=tuple(
            msgspec.structs.replace(run, metrics=_head(run.metrics, limits.lines), facts=_head(run.facts, limits.lines))
            for run in head(diagnosis.runs, "runs")
        ),
        verdict=msgspec.structs.replace(diagnosis.verdict, reasons=head(diagnosis.verdict.reasons, "reasons")),
        gaps=tuple(_gap(gap, limits) for gap in head(ordered_gaps(diagnosis), "metrics", limits.gaps)),
        fairness=head(ordered_rules(diagnosis.fairness), "fairness rules"),
        recommendations=head(diagnosis.recommendations, "recommendations"),
        problems=head(ordered_problems(diagnosis.problems), "problems"),
        kernels=_kernels(diagnosis.kernels, limits),
        missing=head(diagnosis.missing, "missing pieces of evidence"),
        timelines=head(diagnosis.timelines, "timelines", limits.timelines),
        loads=_loads(diagnosis.loads, limits.lines, cut),
        method=head(diagnosis.method, "notes on the method"),
    )
    return shorter, tuple(cut)


def _loads(loads: Goodput | None, most: int, cut: list[str]) -> Goodput | None:
    """All of it, or nothing: a part of a curve would be another curve."""
    if loads is None or max((len(run.points) for run in loads.runs), default=0) <= most:
        return loads
    cut.append(said("the curves against load"))
    return None


def _head(values: dict[str, T], most: int) -> dict[str, T]:
    return dict(islice(values.items(), most))


def _gap(gap: Gap, limits: Limits) -> Gap:
    def cause(whole: Cause) -> Cause:
        evidence, parts = whole.evidence[: limits.lines], whole.parts[: limits.lines]
        return msgspec.structs.replace(whole, evidence=evidence, parts=parts)

    rest: Unexplained = msgspec.structs.replace(gap.unexplained, parts=gap.unexplained.parts[: limits.lines])
    return msgspec.structs.replace(gap, causes=tuple(map(cause, gap.causes)), unexplained=rest)


def _kernels(rows: Sequence[KernelRow], limits: Limits) -> tuple[KernelRow, ...]:
    """The kernels that matter most, by time in either run; the others of a category become one row with their sum."""
    kept = {id(row) for row in sorted((row for row in rows if row.name is not None), key=_time)[: limits.kernels]}
    shown: list[KernelRow] = []
    for category in dict.fromkeys(row.category for row in islice(rows, limits.kernels * 20)):
        members = [row for row in rows if row.category == category]
        shown += [row for row in members if row.name is None]
        named = [row for row in members if row.name is not None]
        shown += [
            msgspec.structs.replace(row, name=plain(row.name or "", limits.name)) for row in named if id(row) in kept
        ]
        others = [row for row in named if id(row) not in kept]
        if others:
            shown.append(_together(category, others))
    return tuple(shown)


def _together(category: str, rows: Sequence[KernelRow]) -> KernelRow:
    return KernelRow(
        category=category,
        name=f"({wording.more(len(rows))})",
        a_seconds=_sum(row.a_seconds for row in rows),
        b_seconds=_sum(row.b_seconds for row in rows),
        a_calls=_sum(row.a_calls for row in rows),
        b_calls=_sum(row.b_calls for row in rows),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _time(row: KernelRow) -> float:
    return -max(row.a_seconds or 0.0, row.b_seconds or 0.0)
