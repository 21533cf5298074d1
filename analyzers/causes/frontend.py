"""frontend: time outside the engine: HTTP, tokenizer, detokenizer, streaming, the client itself."""

from __future__ import annotations

from profiler.analyzers.causes.kind import CauseKind
from profiler.analyzers.gap.view import View, evidence
from profiler.model.diagnosis import Evidence


def _evidence(view: View) -> tuple[Evidence, ...]:
    engine = view.a.first_token(), view.b.first_token()
    return evidence("TTFT inside the engine, mean", engine, "s", view.source("metrics"))


def _summary(view: View, amount: float) -> str:
    engine = view.a.first_token(), view.b.first_token()
    if engine[0] is None or engine[1] is None:
        return "not known: needs the engine's own latency histograms in both runs"
    return "the client's latency less what the engine measured itself" if amount else "no difference seen"


CAUSE = CauseKind(
    "frontend",
    "Frontend",
    "the engine's own latency histograms",
    _evidence,
    _summary,
    ("frontend_processes", "stream_interval"),
)
