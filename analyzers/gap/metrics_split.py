"""Each metric's ledger: throughput (as engine seconds per output token), TPOT, TTFT.

Other latencies have no ledger of their own here; their gap is shown with its interval and stays unexplained.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from profiler.analyzers.gap.accounting import (
    per_decoded_token,
    per_output_token,
    per_prefill,
    split,
)
from profiler.analyzers.gap.ledger import UNEXPLAINED, Context, Ledger, book
from profiler.analyzers.gap.measured import Measured
from profiler.analyzers.gap.model import RunModel
from profiler.model.requests import BenchResult

# Time outside the steps differs more between starts than the whole does (26% in the vLLM null pair of spread.py).
OUTSIDE_SPREAD: Final = 2.0
SIDE_BY_SIDE: Final = "engines side by side"


def keeps_up(bench: BenchResult) -> bool:
    """Whether an open-loop run completed requests as fast as they were sent: then arrivals set its throughput."""
    rate = bench.request_rate
    return rate is not None and rate < float("inf") and bench.completed / bench.duration >= 0.9 * rate


def throughput(context: Context, model_a: RunModel, model_b: RunModel) -> Ledger:
    """Seconds per output token, B minus A."""
    a, b = context.a, context.b
    assert a.steps is not None and b.steps is not None
    ledger = Ledger()
    gap = b.duration / b.tokens - a.duration / a.tokens
    if keeps_up(a.bench) and keeps_up(b.bench):
        ledger.add("workload", "arrivals set the throughput of both runs", gap, gap)
        return ledger
    shares = 1.0 / a.steps.parallel, 1.0 / b.steps.parallel
    if shares[0] != shares[1]:
        # What more engines bring is apart from what their steps take: steps are laid against each other at one share.
        share = 0.5 * (shares[0] + shares[1])
        model_a, model_b = (model.times(share / own) for model, own in zip((model_a, model_b), shares, strict=True))
        engine = 0.5 * (a.steps.alone.total / a.tokens + b.steps.alone.total / b.tokens)
        change = (shares[1] - shares[0]) * engine
        ledger.add("hardware", SIDE_BY_SIDE, change, abs(change))
    part = split(model_a, per_output_token(a.steps.load, a.tokens), model_b, per_output_token(b.steps.load, b.tokens))
    book(ledger, part, context, per_token=True)
    outside = b.outside / b.tokens - a.outside / a.tokens
    level = 0.5 * (b.outside / b.tokens + a.outside / a.tokens)
    ledger.add("scheduling", "outside the timed steps", outside, OUTSIDE_SPREAD * level)
    ledger.add(UNEXPLAINED, "rest", gap - sum(ledger.amounts.values()))
    return ledger


def mean_tpot(
    context: Context, model_a: RunModel, model_b: RunModel, metrics: tuple[Mapping[str, float], Mapping[str, float]]
) -> Ledger:
    """Mean TPOT, B minus A: the mean step that a decoding sequence takes part in or waits for."""
    a, b = context.a, context.b
    assert a.steps is not None and b.steps is not None
    ledger = Ledger()
    decode_a, stall_a = per_decoded_token(a.steps.load)
    decode_b, stall_b = per_decoded_token(b.steps.load)
    book(ledger, split(model_a, decode_a, model_b, decode_b), context)
    book(ledger, split(model_a, stall_a, model_b, stall_b), context, stall=True)
    gap = metrics[1]["mean_tpot"] - metrics[0]["mean_tpot"]
    engine = _engine_tpot(b), _engine_tpot(a)
    if engine[0] is not None and engine[1] is not None:
        client_b, client_a = metrics[1]["mean_tpot"] - engine[0], metrics[0]["mean_tpot"] - engine[1]
        ledger.add("frontend", "between engine and client", client_b - client_a, 0.5 * (abs(client_a) + abs(client_b)))
    ledger.add(UNEXPLAINED, "rest", gap - sum(ledger.amounts.values()))
    return ledger


def mean_ttft(
    context: Context, model_a: RunModel, model_b: RunModel, metrics: tuple[Mapping[str, float], Mapping[str, float]]
) -> Ledger:
    """Mean TTFT, B minus A: queue, the steps of the prefill, and the way to the client."""
    a, b = context.a, context.b
    assert a.steps is not None and b.steps is not None
    ledger = Ledger()
    prefill_a = per_prefill(a.steps.load, a.bench.completed, a.steps.lagged)
    prefill_b = per_prefill(b.steps.load, b.bench.completed, b.steps.lagged)
    book(ledger, split(model_a, prefill_a, model_b, prefill_b), context)
    gap = metrics[1]["mean_ttft"] - metrics[0]["mean_ttft"]
    queue_a, queue_b = _mean(a, "queue_seconds"), _mean(b, "queue_seconds")
    prefill_seconds = _mean(a, "prefill_seconds"), _mean(b, "prefill_seconds")
    if queue_a is not None and queue_b is not None:
        _queue(ledger, context, queue_a, queue_b, model_a, model_b)
        if prefill_seconds[0] is not None and prefill_seconds[1] is not None:
            client_a = metrics[0]["mean_ttft"] - queue_a - prefill_seconds[0]
            client_b = metrics[1]["mean_ttft"] - queue_b - prefill_seconds[1]
            ledger.add(
                "frontend", "between client and engine", client_b - client_a, 0.5 * (abs(client_a) + abs(client_b))
            )
        ledger.add(UNEXPLAINED, "rest", gap - sum(ledger.amounts.values()))
    else:
        ledger.add(UNEXPLAINED, "queue, or the way to the client", gap - sum(ledger.amounts.values()))
    return ledger


def _queue(
    ledger: Ledger, context: Context, queue_a: float, queue_b: float, model_a: RunModel, model_b: RunModel
) -> None:
    """Queue time is a number of steps waited times the time of a step. More steps waited is what the limit did, or,
    where no limit explains it, what slower steps did by letting the queue grow."""
    a, b = context.a, context.b
    assert a.steps is not None and b.steps is not None
    step_a = a.steps.alone.total / max(float(a.steps.load.weight.sum()), 1e-12)
    step_b = b.steps.alone.total / max(float(b.steps.load.weight.sum()), 1e-12)
    waited_a, waited_b = queue_a / max(step_a, 1e-12), queue_b / max(step_b, 1e-12)
    longer = (waited_b - waited_a) * 0.5 * (step_a + step_b)
    slower = (step_b - step_a) * 0.5 * (waited_a + waited_b)
    level = 0.5 * (queue_a + queue_b)
    pace = Ledger()
    book(
        pace,
        split(model_a, per_output_token(a.steps.load, a.tokens), model_b, per_output_token(b.steps.load, b.tokens)),
        context,
        per_token=True,
    )
    cause, name = context.steps_cause(longer)
    limits = (b if longer > 0 else a).limits
    limited = cause in ("batching", "memory", "workload") and any(share > 0.1 for share in limits.values())
    grown = slower if limited else slower + longer
    if limited:
        ledger.add(cause, f"queue: {name}", longer, level)
    total = sum(pace.amounts.values())
    if abs(total) > 0.2 * sum(abs(amount) for amount in pace.amounts.values()):
        for (row_cause, part), amount in pace.amounts.items():
            ledger.add(row_cause, f"queue: {part}", grown * amount / total, level * abs(amount / total))
    else:
        ledger.add(UNEXPLAINED, "queue", grown, level)


def _mean(measured: Measured, histogram: str) -> float | None:
    count, total = measured.counters.get(f"{histogram}_count"), measured.counters.get(f"{histogram}_sum")
    return total / count if count and total is not None else None


def _engine_tpot(measured: Measured) -> float | None:
    """The engine's own mean decode time per token after the first; requests weigh alike, as in the client's mean."""
    seconds = _mean(measured, "decode_seconds")
    if seconds is None or measured.bench.completed == 0:
        return None
    decoded = measured.tokens / measured.bench.completed - 1
    return seconds / decoded if decoded > 0 else None
