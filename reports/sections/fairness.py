"""Is the comparison fair: what failed first, then what is not known."""

from __future__ import annotations

from markupsafe import Markup

from profiler.model.diagnosis import Diagnosis
from profiler.reports.breakdown import names, ordered_rules
from profiler.reports.page import Section, fragment


def draw(diagnosis: Diagnosis) -> Markup:
    """Every rule with its status in words; empty where none was checked."""
    if not diagnosis.fairness:
        return Markup("")
    rules = ordered_rules(diagnosis.fairness)
    passed = sum(rule.status == "pass" for rule in rules)
    return fragment("fairness.html.j2", rules=rules, passed=passed, side=names(diagnosis))


SECTION = Section("fairness", "Fairness", draw)
