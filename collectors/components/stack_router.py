"""The production-stack router, which exposes its servers' state under the engine's own prefix, one series a ``server``.

Read off its source. Its gauges are averages over a minute, polled every half: too stale for a run of two minutes, and
never those of an engine.
"""

from __future__ import annotations

import re
from typing import Final

from profiler.model.extension import Answer, Component
from profiler.model.live import Ask, Identity

_SERVER: Final = re.compile(r':num_requests_running\{[^}]*\bserver="([^"]+)"')


def identify(ask: Ask) -> Identity | None:
    """By a metric that only it has; the label ``server`` of the others holds its servers' addresses."""
    text = ask("/metrics").text
    if ":healthy_pods_total" not in text:
        return None
    return Identity(workers=tuple(dict.fromkeys(_SERVER.findall(text))))


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
    identify=identify,
)
