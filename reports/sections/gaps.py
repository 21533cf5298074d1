"""The gap: per metric a waterfall and the same as a table that adds up; further down the evidence of every cause."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from profiler.model.diagnosis import CAUSES, Diagnosis, Gap
from profiler.reports import figures, numbers, wording
from profiler.reports.breakdown import names, ordered_gaps, rowless, rows
from profiler.reports.language import said
from profiler.reports.page import Section, embedded, fragment
from profiler.reports.sections.timelines import moments_of


def draw(diagnosis: Diagnosis) -> Markup:
    """One panel a metric, throughput first; empty where no metric could be compared."""
    if not diagnosis.gaps:
        return Markup("")
    side = names(diagnosis)
    panels = [_panel(gap, side, index) for index, gap in enumerate(ordered_gaps(diagnosis))]
    return fragment("gaps.html.j2", panels=panels, side=side, knobs=bool(diagnosis.recommendations))


def draw_evidence(diagnosis: Diagnosis) -> Markup:
    """What every cause of each metric rests on, and where in the traces it is to be seen; empty without gaps."""
    if not diagnosis.gaps:
        return Markup("")
    side = names(diagnosis)
    panels = [_proof(gap, index) for index, gap in enumerate(ordered_gaps(diagnosis))]
    moments = {cause: moments_of(diagnosis, cause) for cause in CAUSES}
    return fragment("evidence.html.j2", panels=panels, side=side, moments=moments)


SECTION = Section("gap", "The gap", draw)
EVIDENCE = Section("evidence", "Evidence", draw_evidence)


def _proof(gap: Gap, index: int) -> dict[str, Any]:
    """The rows that have evidence, and the places on the page of it and of what is unexplained."""
    evidence = [row for row in rows(gap) if row.cause is not None and (row.cause.evidence or row.cause.parts)]
    places = {row.label: f"metric-{index}-{row.cause.cause}" for row in evidence if row.cause is not None}
    if gap.unexplained.parts:
        places[said(wording.UNEXPLAINED)] = f"metric-{index}-unexplained"
    return {
        "anchor": f"metric-{index}",
        "gap": gap,
        "title": wording.title(gap.metric),
        "change": numbers.gap_scale(gap),
        "evidence": evidence,
        "places": places,
    }


def _panel(gap: Gap, side: tuple[str, str], index: int) -> dict[str, Any]:
    every = rows(gap)
    proof = _proof(gap, index)
    places = proof["places"]
    drawn = [None, *(places.get(row.label) for row in every if row.kind != "total" and row.gap is not None), None]
    return proof | {
        "level": numbers.level_scale(gap),
        "token": numbers.scale_for("s", *(row.per_token for row in every)),
        "levels": _levels(gap),
        "additive": any(row.per_token is not None for row in every if row.kind != "total"),
        "outcome": wording.outcome(gap, *side),
        "rows": every,
        "figure": embedded(figures.waterfall(gap, side) | {"targets": drawn}),
        "described": figures.described(gap, side),
        "from_zero": figures.starts_at_zero(gap),
        "rowless": rowless(gap),
        "hatched": any(cause.extrapolated for cause in gap.causes),
    }


def _levels(gap: Gap) -> tuple[str, str] | None:
    additive = gap.seconds_per_output_token
    if additive is None:
        return None
    scale = numbers.scale_for("s", additive.a, additive.b)
    return scale.full(additive.a), scale.full(additive.b)
