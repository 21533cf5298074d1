"""The figures of several workers behind a router, one beside the other, and how evenly the work fell on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from profiler.analyzers.gap.measured import counters_of
from profiler.model.inspection import Figure
from profiler.model.run import Run

# (counter, what it is, unit), over the recording.
_COUNTED: Final = (("generation_tokens", "output tokens", "tokens"), ("requests", "requests", "count"))
_GAUGES: Final = (
    ("running_requests", "requests running", "requests"),
    ("waiting_requests", "requests waiting", "requests"),
    ("kv_usage", "KV cache in use", "fraction"),
)
_MEANS: Final = (("queue_seconds", "time in the queue, a request"), ("ttft_seconds", "TTFT, as the worker saw it"))


def worker_figures(run: Run) -> tuple[Figure, ...]:
    """What each worker did while it was recorded; nothing for a run of one engine."""
    found: list[Figure] = []
    made: dict[str, float] = {}
    for folder, series in run.workers.items():
        counters, gauges = counters_of(series, None)
        found += _of_one(folder, series[0].engine, counters, gauges)
        if "generation_tokens" in counters:
            made[folder] = counters["generation_tokens"]
    total = sum(made.values())
    if len(made) > 1 and total > 0:
        most = max(made, key=made.__getitem__)
        detail = f"{most}: {made[most] / total:.1%} of the output tokens of {len(made)} workers; 1 is even"
        ratio = made[most] * len(made) / total
        found.insert(0, _figure("most work of one worker over the mean", ratio, "", detail, most))
    return tuple(found)


def _of_one(folder: str, engine: str, counters: Mapping[str, float], gauges: Mapping[str, float]) -> list[Figure]:
    rows = []
    for name, title, unit in _COUNTED:
        if name in counters:
            rows.append(_figure(f"{folder}: {title}", counters[name], unit, engine, folder))
    for name, title, unit in _GAUGES:
        if name in gauges:
            most = gauges[f"{name}_max"]
            detail = f"at most {most:.1%}" if unit == "fraction" else f"at most {most:.0f}"
            rows.append(_figure(f"{folder}: {title}", gauges[name], unit, detail, folder))
    for name, title in _MEANS:
        count = counters.get(f"{name}_count", 0.0)
        if count:
            rows.append(_figure(f"{folder}: {title}", counters.get(f"{name}_sum", 0.0) / count, "s", "", folder))
    queries = counters.get("prefix_queries")
    if queries:
        share = counters.get("prefix_hits", 0.0) / queries
        title = f"{folder}: prompt tokens found in the prefix cache"
        rows.append(_figure(title, share, "fraction", f"of {queries:,.0f}", folder))
    return rows


def _figure(name: str, value: float, unit: str, detail: str, source: str) -> Figure:
    return Figure(section="workers", name=name, value=value, unit=unit, detail=detail, source=source)
