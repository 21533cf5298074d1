"""The production-stack router, which exposes its servers' state under the engine's own prefix, one series a ``server``.

Read off its source. Its gauges are averages over a minute, polled every half: too stale for a run of two minutes, and
never those of an engine.
"""

from __future__ import annotations

from typing import Final

from profiler.model.extension import Answer, Component

COMPONENT: Final = Component(
    name="stack_router",
    title="the production-stack router",
    prefixes=(),
    borrows=("healthy_pods_total", "current_qps"),
    answers=(
        Answer("running_requests", "num_requests_running"),
        Answer("waiting_requests", "num_requests_waiting"),
        Answer("hit_rate", "gpu_prefix_cache_hit_rate", average=True),
        Answer("requests", "num_incoming_requests_total"),
        Answer("output_tokens", "output_tokens_total"),
        Answer("e2e_seconds", "request_latency_seconds_sum", per="request_latency_seconds_count"),
    ),
)
