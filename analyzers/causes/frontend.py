"""frontend: time outside the engine: HTTP, tokenizer, detokenizer, streaming, the client itself."""

from __future__ import annotations

from profiler.analyzers.causes.kind import CauseKind
from profiler.analyzers.gap.measured import Measured
from profiler.analyzers.gap.view import View, evidence
from profiler.model.diagnosis import Evidence


def engine_first_token(measured: Measured) -> float | None:
    """Mean seconds from arrival at the engine to the first token, by the engine's own queue and prefill histograms."""
    total = 0.0
    for name in ("queue_seconds", "prefill_seconds"):
        count, seconds = measured.counters.get(f"{name}_count"), measured.counters.get(f"{name}_sum")
        if not count or seconds is None:
            return None
        total += seconds / count
    return total


def _evidence(view: View) -> tuple[Evidence, ...]:
    engine = engine_first_token(view.a), engine_first_token(view.b)
    return evidence("TTFT inside the engine, mean", engine, "s", view.source("metrics"))


def _summary(view: View, amount: float) -> str:
    engine = engine_first_token(view.a), engine_first_token(view.b)
    if engine[0] is None or engine[1] is None:
        return "not known: needs the engine's own latency histograms in both runs"
    return "the client's latency less what the engine measured itself" if amount else "no difference seen"


CAUSE = CauseKind("frontend", "Frontend", "the engine's own latency histograms", _evidence, _summary)
