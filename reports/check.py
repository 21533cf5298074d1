"""The rules of a fair comparison on a terminal and as Markdown: what failed first, then what is not known."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from profiler.model.check import Check
from profiler.model.diagnosis import Evidence, FairnessRule
from profiler.reports import numbers, terminal_tables, wording
from profiler.reports.breakdown import counted, ordered_rules
from profiler.reports.language import said
from profiler.reports.markdown import escape, table
from profiler.reports.safe_text import plain
from profiler.reports.translated import translated_check

_STYLE: Final = {"fail": "red", "unknown": "yellow", "pass": "green", "not applicable": "dim"}


def print_check(check: Check, console: Console, verbose: bool) -> None:
    """What failed and which blocking rules are not known; with ``verbose`` every rule with its numbers."""
    check = translated_check(check)
    console.print(Text(plain(check.headline), "bold"))
    every = ordered_rules(check.fairness)
    shown = (
        every if verbose else [r for r in every if r.status == "fail" or (r.status, r.severity) == ("unknown", "block")]
    )
    if shown:
        console.print()
        console.print(_table(shown))
    if verbose:
        for rule in (rule for rule in shown if rule.evidence):
            console.print(Text(f"\n  {plain(wording.rule(rule.rule))}", "bold"))
            side = plain(check.runs[0].name), plain(check.runs[1].name)
            console.print(Padding(terminal_tables.evidence(rule.evidence, side), (0, 0, 0, 2), expand=False))
    console.print()
    rest = said(".") if verbose else said("; -v shows all of them with their numbers.")
    console.print(Text(counted(every) + rest, "dim"))


def _table(rules: list[FairnessRule]) -> Table:
    drawn = Table(box=None, pad_edge=False)
    for heading in ("", "rule", "weight"):
        drawn.add_column(said(heading), no_wrap=True)
    drawn.add_column(said("what was found, and the cheapest fix"), overflow="fold")
    for rule in rules:
        found = Text(plain(rule.detail))
        if rule.fix:
            found.append(f"\n{said('to fix:')} {plain(rule.fix)}", "dim")
        status = Text(said(rule.status), _STYLE[rule.status])
        drawn.add_row(status, Text(plain(wording.rule(rule.rule)), "bold"), said(rule.severity), found)
    return drawn


def to_check_markdown(check: Check) -> str:
    """The same for a pull request: what failed, what is not known, and the rest folded away."""
    check = translated_check(check)
    every = ordered_rules(check.fairness)
    pressing = [
        rule for rule in every if rule.status == "fail" or (rule.severity == "block" and rule.status == "unknown")
    ]
    rest = [rule for rule in every if rule not in pressing]
    parts = [f"### {said('Is it fair?')} {escape(check.headline)}", ""]
    for title, rules in (("", pressing), (said("{n} more rules", n=str(len(rest))), rest)):
        if not rules:
            continue
        heads = [said(head) for head in ("", "rule", "weight", "what was found", "numbers", "fix")]
        lines = table(heads, [_cells(rule) for rule in rules], 0)
        folded = ["<details>", f"<summary>{title}</summary>", "", *lines, "", "</details>"]
        parts += [*(folded if title else lines), ""]
    return "\n".join([*parts, counted(every) + said(".")]) + "\n"


def _cells(rule: FairnessRule) -> list[str]:
    pairs = "; ".join(_pair(evidence) for evidence in rule.evidence)
    return [
        said(rule.status),
        escape(wording.rule(rule.rule)),
        said(rule.severity),
        escape(rule.detail),
        escape(pairs),
        escape(rule.fix),
    ]


def _pair(evidence: Evidence) -> str:
    a, b = (numbers.quantity(value, evidence.unit) for value in (evidence.a, evidence.b))
    return said("{name}: {a} against {b}", name=evidence.name, a=a, b=b)
