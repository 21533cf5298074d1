"""Is the comparison fair: what failed first, then what is not known; the rest is folded away."""

from __future__ import annotations

from markupsafe import Markup

from profiler.model.diagnosis import Diagnosis
from profiler.reports.breakdown import counted, names, ordered_rules
from profiler.reports.page import Section, fragment


def draw(diagnosis: Diagnosis) -> Markup:
    """Every rule with its status in words; empty where none was checked."""
    if not diagnosis.fairness:
        return Markup("")
    rules = ordered_rules(diagnosis.fairness)
    titles = (("unknown", "not known"), ("pass", "passed"), ("not applicable", "not applicable"))
    return fragment(
        "fairness.html.j2",
        counted=counted(rules),
        failed=[rule for rule in rules if rule.status == "fail"],
        folded=[(title, [rule for rule in rules if rule.status == status]) for status, title in titles],
        side=names(diagnosis),
    )


SECTION = Section("fairness", "Fairness", draw)
