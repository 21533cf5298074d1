"""workload: the two runs did not do the same work."""

from __future__ import annotations

from profiler.analyzers.causes.kind import CauseKind
from profiler.analyzers.gap.view import View, evidence
from profiler.model.diagnosis import Evidence


def _evidence(view: View) -> tuple[Evidence, ...]:
    a, b, source = view.a.bench, view.b.bench, view.source("bench")
    return (
        *evidence("requests completed", (a.completed, b.completed), "count", source),
        *evidence("input tokens", (a.total_input_tokens, b.total_input_tokens), "tokens", source),
        *evidence("output tokens", (a.total_output_tokens, b.total_output_tokens), "tokens", source),
        *evidence("requests in flight, at most", (a.max_concurrency, b.max_concurrency), "count", source),
    )


def _summary(view: View, amount: float) -> str:
    a, b = view.a.bench, view.b.bench
    same = (a.completed, a.total_input_tokens, a.total_output_tokens, a.max_concurrency) == (
        b.completed, b.total_input_tokens, b.total_output_tokens, b.max_concurrency,
    )  # fmt: skip
    if same and not amount:
        return "the same number of requests, input tokens and output tokens"
    if same:
        return "the same work; the arrival rate, which both runs kept up with, sets the throughput"
    return (
        f"{a.completed:,} requests with {a.total_input_tokens:,} input and {a.total_output_tokens:,} output tokens "
        f"against {b.completed:,} with {b.total_input_tokens:,} and {b.total_output_tokens:,}"
    )


CAUSE = CauseKind("workload", "Workload", "the benchmark result", _evidence, _summary)
