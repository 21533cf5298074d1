"""Every metric of both runs, and what else is known about them."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup

from profiler.model.diagnosis import Diagnosis
from profiler.reports import numbers, wording
from profiler.reports.language import said
from profiler.reports.page import Section, fragment


def draw(diagnosis: Diagnosis) -> Markup:
    """Metrics and facts, a column a run; empty where no run has any."""
    runs = diagnosis.runs
    units = {gap.metric: gap.unit for gap in diagnosis.gaps}
    metrics = [
        (
            wording.metric(name),
            [numbers.quantity(run.metrics.get(name), units.get(name, wording.metric_unit(name))) for run in runs],
        )
        for name in _keys(run.metrics for run in runs)
    ]
    facts = [
        (name, [run.facts.get(name, said(wording.NOT_KNOWN)) for run in runs])
        for name in _keys(run.facts for run in runs)
    ]
    if not metrics and not facts:
        return Markup("")
    return fragment("metrics.html.j2", runs=runs, metrics=metrics, facts=facts)


SECTION = Section("metrics", "Metrics of the runs", draw)


def _keys(tables: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(name for table in tables for name in table))
