"""speculation: speculative decoding on one side, or with another acceptance."""

from __future__ import annotations

from profiler.analyzers.causes.kind import CauseKind
from profiler.analyzers.gap.view import View, evidence
from profiler.model.diagnosis import Evidence


def _evidence(view: View) -> tuple[Evidence, ...]:
    return (
        *evidence("draft tokens", view.counter("draft_tokens"), "tokens", view.source("metrics")),
        *evidence("accepted draft tokens", view.counter("accepted_tokens"), "tokens", view.source("metrics")),
    )


def _summary(view: View, amount: float) -> str:
    drafted = view.counter("draft_tokens")
    if not any(drafted):
        return "no draft token was seen in either run"
    return "speculative decoding was on; its share is contained in the steps' composition and not separated here"


CAUSE = CauseKind("speculation", "Speculation", "counters of draft and accepted tokens", _evidence, _summary)
