"""What the programs beside the engines say in a scrape, in questions that all of them share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from profiler.collectors.components import COMPONENTS
from profiler.collectors.scheduler.exposition import Sample
from profiler.model.extension import Answer, Component
from profiler.model.metrics import QUESTIONS, ComponentSnapshot


def components_in(series: Sequence[Sample]) -> list[Component]:
    """The components whose metrics are among the series."""
    names = {sample.name for sample in series}
    bare = {name.partition(":")[2] for name in names}
    return [
        one
        for one in COMPONENTS
        if any(name.startswith(one.prefixes) for name in names if one.prefixes) or bare.intersection(one.borrows)
    ]


def component_snapshot(component: Component, series: Sequence[Sample], path: str, order: float) -> ComponentSnapshot:
    """The component's answers."""
    by_name: dict[str, list[Sample]] = {}
    for sample in series:
        name = sample.name.partition(":")[2] if component.borrows else sample.name
        by_name.setdefault(name, []).append(sample)
    values: dict[str, float] = {}
    for answer in component.answers:
        if answer.question not in values and (value := _value(answer, by_name)) is not None:
            values[answer.question] = value
    ordered = {question: values[question] for question in QUESTIONS if question in values}
    return ComponentSnapshot(path, component.name, component.title, order, ordered)


def _value(answer: Answer, by_name: Mapping[str, Sequence[Sample]]) -> float | None:
    found = _numbers(by_name, answer.metric, answer)
    if not found:
        return None
    total = math.fsum(found) / (len(found) if answer.average else 1)
    if answer.per is None:
        return total * answer.scale
    whole = math.fsum(_numbers(by_name, answer.per, answer))
    return total / whole * answer.scale if whole else None


def _numbers(by_name: Mapping[str, Sequence[Sample]], metric: str, answer: Answer) -> list[float]:
    """The finite values; a counter's name may or may not end in ``_total``, which its client adds."""
    rows = by_name.get(metric) or by_name.get(metric.removesuffix("_total")) or by_name.get(f"{metric}_total") or ()
    return [
        row.value for row in rows if math.isfinite(row.value) and (answer.label is None or answer.label in row.labels)
    ]
