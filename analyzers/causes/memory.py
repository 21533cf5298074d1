"""memory: too little room for sequences, work done again or not saved: KV capacity, preemption, prefix-cache misses."""

from __future__ import annotations

from profiler.analyzers.causes.kind import CauseKind
from profiler.analyzers.gap.view import View, both, evidence
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
    full = view.a.limits.get("KV cache"), view.b.limits.get("KV cache")
    sequences = view.sequences()
    if amount and "KV cache" in view.leading.get("memory", "") and both(full) and both(sequences):
        text = (
            f"the KV cache is full in {full[0] or 0.0:.0%} of {a}'s steps and in {full[1] or 0.0:.0%} of {b}'s; decode "
            f"steps carry {sequences[0] or 0.0:.1f} and {sequences[1] or 0.0:.1f} sequences"
        )
        return text + _preempted(view)
    ratio = view.a.computed_ratio(), view.b.computed_ratio()
    if ratio[0] is None or ratio[1] is None:
        return "not known: needs prefix-cache counters, or a log of every step, of both runs"
    return f"of each prompt token asked for, {a} computed {ratio[0]:.0%} and {b} {ratio[1]:.0%}" + _preempted(view)


def _preempted(view: View) -> str:
    preempted = view.counter("preemptions")
    if not any(preempted):
        return ""
    counts = ["not known" if p is None else f"{p:.0f}" for p in preempted]
    return f"; preemptions: {counts[0]} and {counts[1]}"


CAUSE = CauseKind(
    "memory",
    "Memory",
    "prefix-cache and preemption counters, or a log of every step",
    _evidence,
    _summary,
    ("prefix_cache", "kv_tokens", "kv_dtype"),
)
