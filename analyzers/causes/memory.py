"""memory: work done again or not saved: prefix-cache misses, preemption and recompute, KV capacity."""

from __future__ import annotations

from profiler.analyzers.causes.kind import CauseKind
from profiler.analyzers.gap.view import View, evidence
from profiler.model.diagnosis import Evidence


def _evidence(view: View) -> tuple[Evidence, ...]:
    ratio = view.a.computed_ratio(), view.b.computed_ratio()
    return (
        *evidence("prompt tokens computed per token asked for", ratio, "fraction", view.source("steps")),
        *evidence("prefix-cache hits", view.counter("prefix_hits"), "tokens", view.source("metrics")),
        *evidence("preemptions", view.counter("preemptions"), "count", view.source("metrics")),
        *evidence("KV cache in use, at most", view.gauge("kv_usage_max"), "fraction", view.source("metrics")),
    )


def _summary(view: View, amount: float) -> str:
    a, b = view.names()
    ratio = view.a.computed_ratio(), view.b.computed_ratio()
    if ratio[0] is None or ratio[1] is None:
        return "not known: needs prefix-cache counters, or a log of every step, of both runs"
    text = f"of each prompt token asked for, {a} computed {ratio[0]:.0%} and {b} {ratio[1]:.0%}"
    preempted = view.counter("preemptions")
    if any(p for p in preempted if p is not None):
        counts = ["not known" if p is None else f"{p:.0f}" for p in preempted]
        text += f"; preemptions: {counts[0]} and {counts[1]}"
    return text


CAUSE = CauseKind(
    "memory", "Memory", "prefix-cache and preemption counters, or a log of every step", _evidence, _summary
)
