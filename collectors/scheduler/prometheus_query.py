"""What Prometheus itself answers to a query: JSON of a range (matrix) or of one moment (vector).

Every time stamp becomes one snapshot of each engine that claims the names. Series without a name are results of
functions such as ``rate`` and are not what an engine exposed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from profiler.collectors.json_text import mapping, number
from profiler.collectors.load.document import object_of
from profiler.collectors.scheduler.component_metrics import component_snapshot, components_in
from profiler.collectors.scheduler.exposition import Sample
from profiler.collectors.scheduler.prometheus import snapshot
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.metrics import ComponentSnapshot, MetricsSnapshot
from profiler.model.problem import Problem
from profiler.model.run import Reading

_SURE: Final = re.compile(rb'"resultType"\s*:\s*"(?:matrix|vector)"')


class PrometheusQuery:
    """See ``profiler.model.extension.Format``."""

    name = "prometheus_query"
    version = 2

    def sniff(self, head: bytes, name: str) -> float:
        """By the kind of result that the answer names."""
        return 0.92 if head.lstrip()[:1] == b"{" and _SURE.search(head) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """Snapshots in the order of their time stamps."""
        record, problems = object_of(source)
        data = mapping(record.get("data")) or record
        listed = data.get("result")
        if not isinstance(listed, list):
            raise BadInput(source.name, "no result of a query", "Save the answer of /api/v1/query_range as it is")
        moments: dict[float, list[Sample]] = {}
        unnamed = bad = 0
        for one in listed:
            labels = {str(key): str(value) for key, value in mapping(mapping(one).get("metric")).items()}
            name = labels.pop("__name__", "")
            if not name:
                unnamed += 1
                continue
            own = tuple(sorted(labels.items()))
            for pair in _pairs(mapping(one)):
                if pair is None:
                    bad += 1
                elif not name.endswith(("_bucket", "_created")):
                    moments.setdefault(pair[0], []).append(Sample(name, own, pair[1]))
        if unnamed:
            detail = "a series has no metric's name (the result of a function): query the metric itself"
            problems.append(Problem(source.name, "warning", detail, count=unnamed))
        if bad:
            problems.append(Problem(source.name, "warning", "a sample has no time and number, left out", count=bad))
        snapshots: list[MetricsSnapshot] = []
        beside: list[ComponentSnapshot] = []
        for time in sorted(moments):
            components = components_in(moments[time])
            beside += [component_snapshot(one, moments[time], source.name, time) for one in components]
            for engine in () if any(one.borrows for one in components) else engines:
                found = snapshot(engine, moments[time], source.name)
                if found is not None:
                    snapshots.append(replace(found, order=time, seconds=None))
        facts: dict[str, Fact[object]] = {}
        for engine in engines:
            if any(one.engine == engine.name for one in snapshots):
                facts["engine.name"] = Fact(engine.name, f"{source.name}: prefix of the metric names")
        if not snapshots and not beside:
            problems.append(Problem(source.name, "info", "the answer holds no metric that a known engine exposes"))
        return Reading(snapshots=tuple(snapshots), components=tuple(beside), facts=facts, problems=tuple(problems))


def _pairs(one: Mapping[str, object]) -> Iterator[tuple[float, float] | None]:
    raw = one.get("values", [one.get("value")])
    for pair in raw if isinstance(raw, list) else []:
        if not isinstance(pair, list) or len(pair) != 2:
            yield None
            continue
        time, value = number(pair[0]), number(pair[1])
        yield None if time is None or value is None or abs(time) == float("inf") else (time, value)


FORMAT: Final = PrometheusQuery()
