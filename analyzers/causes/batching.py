"""batching: steps that carried fewer sequences or tokens than they could: limits, token budget, chunk size."""

from __future__ import annotations

from profiler.analyzers.causes.kind import CauseKind
from profiler.analyzers.gap.measured import Limit
from profiler.analyzers.gap.view import View, evidence
from profiler.model.diagnosis import Evidence


def _evidence(view: View) -> tuple[Evidence, ...]:
    source = view.source("steps")
    limits_a, limits_b = view.a.limits, view.b.limits
    names: tuple[Limit, ...] = ("sequence limit", "token budget", "KV cache")
    at_limit = tuple(
        item
        for name in names
        for item in evidence(f"steps at the {name}", (limits_a.get(name), limits_b.get(name)), "fraction", source)
    )
    per_thousand = tuple(None if v is None else 1e3 * v for v in view.steps_per_token())
    return (
        *evidence("sequences a step with decodes", view.sequences(), "count", source),
        *evidence("steps per 1,000 output tokens", (per_thousand[0], per_thousand[1]), "count", source),
        *at_limit,
        *evidence("max_num_seqs in force", view.setting("max_num_seqs"), "count", "settings"),
        *evidence("token budget in force", view.setting("token_budget"), "tokens", "settings"),
        *evidence("requests waiting, mean", view.gauge("waiting_requests"), "count", view.source("metrics")),
    )


def _summary(view: View, amount: float) -> str:
    a, b = view.names()
    sequences, steps = view.sequences(), view.steps_per_token()
    if sequences[0] is None or sequences[1] is None or steps[0] is None or steps[1] is None:
        return "not known: needs the steps of both runs (iteration log, batch log, or an annotated trace)"
    text = (
        f"{a}'s steps with decodes carry {sequences[0]:.1f} sequences and {b}'s {sequences[1]:.1f}; "
        f"{1e3 * steps[0]:.0f} and {1e3 * steps[1]:.0f} steps per 1,000 output tokens"
    )
    held = view.b if amount > 0 else view.a
    limits = {name: share for name, share in held.limits.items() if share > 0.2}
    if amount and limits:
        name, share = max(limits.items(), key=lambda item: item[1])
        text += f"; {share:.0%} of {held.name}'s steps are at its {name}"
    return text


CAUSE = CauseKind(
    "batching",
    "Batching",
    "the steps of both runs",
    _evidence,
    _summary,
    ("max_num_seqs", "token_budget", "chunked_prefill"),
)
