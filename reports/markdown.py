"""The diagnosis as a comment for a pull request: Markdown for GitHub and GitLab, under 60,000 characters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from profiler.model.diagnosis import Diagnosis, Gap
from profiler.reports import numbers, wording
from profiler.reports.breakdown import names, ordered_gaps, ordered_problems, ordered_rules, parted, rowless, rows
from profiler.reports.language import said
from profiler.reports.safe_text import plain
from profiler.reports.translated import translated

_LIMIT: Final = 60_000
_FEW: Final = 20
_FIELD: Final = 400
_PUNCTUATION: Final = re.compile(r"([\\`*_\[\]|~$])")
# a mention, an issue number, a link or a commit would notify or link back from the page that the comment is on
_REFERENCE: Final = re.compile(r"(@|#|GH-|://|www\.|mailto:)(?=\w)|\b([0-9a-f]{4})(?=[0-9a-f]{3,})", re.IGNORECASE)
_BREAK: Final = "\u2060"


def escape(text: str, limit: int = _FIELD) -> str:
    """``text`` from a file, shown as it is: no markup, no HTML, no mention, no link."""
    cut = plain(text, limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    literal = _PUNCTUATION.sub(r"\\\1", cut)
    # at the start of a line these would open a heading, a list or a rule
    literal = re.sub(r"^([#+\-=])(?=\s|\1|$)", r"\\\1", literal)
    literal = re.sub(r"^(\d+)([.)])(?=\s|$)", r"\1\\\2", literal)
    return _REFERENCE.sub(lambda match: match.group() + _BREAK, literal)


def to_markdown(diagnosis: Diagnosis) -> str:
    """Verdict, the gap's table, the other metrics, fairness, recommendations, problems and what is missing."""
    shown = translated(diagnosis)
    blocks = [_verdict(shown), *_gaps(shown), *_rest(shown)]
    kept, length = [], 0
    for block in blocks:
        length += len(block) + 2
        if length > _LIMIT - 200:
            kept.append(said(wording.CUT_SHORT))
            break
        kept.append(block)
    return "\n\n".join(kept) + "\n"


def _verdict(diagnosis: Diagnosis) -> str:
    verdict = diagnosis.verdict
    headline, rest = (escape(text, 4 * _FIELD).strip() for text in parted(verdict))
    lines = [f"**{headline or said(wording.STATUS[verdict.status])}**", *([rest] if rest else [])]
    lines += [escape(reason, 2 * _FIELD) for reason in verdict.reasons[:_FEW]]
    if verdict.status != "winner":
        lines.append(said("Verdict: {status}.", status=said(wording.STATUS[verdict.status])))
    simulated = [escape(run.name) for run in diagnosis.runs[:_FEW] if run.simulated]
    lines += [said("{run} is simulated: not measured on a real engine.", run=name) for name in simulated]
    return "\n\n".join(lines)


def _gaps(diagnosis: Diagnosis) -> list[str]:
    gaps = ordered_gaps(diagnosis)
    side = names(diagnosis)
    blocks = [_breakdown(gap, side) for gap in gaps[:1]]
    if gaps[1:]:
        blocks.append("\n".join([f"#### {said('Other metrics')}", "", *_others(gaps[1 : 1 + _FEW], side)]))
    return blocks


def _breakdown(gap: Gap, side: tuple[str, str]) -> str:
    level, scale = numbers.level_scale(gap), numbers.gap_scale(gap)
    every = rows(gap)
    token = numbers.scale_for("s", *(row.per_token for row in every))
    additive = any(row.per_token is not None for row in every if row.kind != "total")
    relative = numbers.signed_percent(gap.relative)
    head = (
        f"{escape(side[0])} {escape(level.full(gap.a))}, {escape(side[1])} {escape(level.full(gap.b))}: "
        f"{scale.signed(gap.gap)} {escape(scale.unit)} "
        f"({relative}; {numbers.level(scale.interval(gap.interval))}); {escape(wording.outcome(gap, *side))}"
    )
    titles = [said("cause"), f"{said('gap')}, {escape(scale.unit)}", said("share"), said(wording.INTERVAL)]
    titles += [f"{token.unit}/token"] if additive else []
    body = []
    for row in every:
        cells = [row.label, scale.signed(row.gap), numbers.percent(row.share), row.bounds(scale)]
        cells += [token.signed(row.per_token)] if additive else []
        cells = [f"**{cell}**" for cell in cells] if row.kind == "total" else cells
        body.append([*cells, escape(row.summary)])
    lines = table([*titles, said("why")], body, figures=len(titles) - 1)
    left = rowless(gap)
    return "\n".join(
        [f"#### {escape(wording.title(gap.metric))}", "", head, "", *lines, *(["", escape(left)] if left else [])]
    )


def _others(gaps: Iterable[Gap], side: tuple[str, str]) -> list[str]:
    body = []
    for gap in gaps:
        level, scale = numbers.level_scale(gap), numbers.gap_scale(gap)
        cells = [
            wording.metric(gap.metric),
            level.full(gap.a),
            level.full(gap.b),
            f"{scale.signed(gap.gap)} {scale.unit}",
        ]
        cells += [numbers.signed_percent(gap.relative), scale.interval(gap.interval), wording.outcome(gap, *side)]
        body.append([escape(cell, 80) for cell in cells])
    titles = [
        said("metric"),
        escape(side[0], 60),
        escape(side[1], 60),
        said("gap"),
        said("relative"),
        said(wording.INTERVAL),
        "",
    ]
    return table(titles, body, figures=5)


def _rest(diagnosis: Diagnosis) -> list[str]:
    rules = [rule for rule in ordered_rules(diagnosis.fairness) if rule.status in ("fail", "unknown")]
    fairness = [
        f"**{said(rule.status)}** {escape(wording.rule(rule.rule))} ({said(rule.severity)}): {escape(rule.detail)}"
        + (f"; {said('to fix:')} {escape(rule.fix)}" if rule.fix else "")
        for rule in rules
    ]
    knobs = [
        f"{escape(knob.run)}: **{escape(f'{knob.flag} {knob.to or str()}'.strip())}** "
        + "; ".join(
            f"{escape(wording.metric(name))} {numbers.signed_percent(value.change)} "
            f"({escape(numbers.predicted(knob, name))})"
            for name, value in list(knob.predicted.items())[:_FEW]
        )
        + "."
        + "".join(
            f" {escape(text)}" for text in (wording.why(knob), wording.price(knob), wording.confidence(knob)) if text
        )
        for knob in diagnosis.recommendations
    ]
    problems = [
        f"**{escape(said(problem.severity), 40)}** {escape(f'{problem.run}/{problem.file}')}: {escape(problem.detail)}"
        + (said(" (at {place})", place=escape(problem.place)) if problem.place else "")
        for problem in ordered_problems(diagnosis.problems)
        if problem.severity != "info"
    ]
    return [
        *_list("Fairness", fairness),
        *_list("Recommendations", knobs),
        *_list("Problems in the files", problems),
        *_list("Missing evidence", [escape(line) for line in diagnosis.missing]),
        *_list("How it was measured", [escape(line) for line in diagnosis.method]),
    ]


def _list(title: str, lines: list[str]) -> list[str]:
    if not lines:
        return []
    shown = [f"- {line}" for line in lines[:_FEW]]
    shown += [f"- {wording.more(len(lines) - _FEW)}"] if len(lines) > _FEW else []
    return ["\n".join([f"#### {said(title)}", "", *shown])]


def table(titles: list[str], body: list[list[str]], figures: int) -> list[str]:
    """The lines of a table; ``figures`` columns after the first hold numbers. Cells are taken as they are."""
    rule = ["---", *["---:"] * figures, *["---"] * (len(titles) - figures - 1)]
    return [f"| {' | '.join(cells)} |" for cells in [titles, rule, *body]]
