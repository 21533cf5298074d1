"""llm-d's endpoint picker, and the lightweight one of the Gateway API Inference Extension. Read off their source.

Names of before ``llm_d_epp_`` (``inference_objective_…``, ``inference_pool_…``) are still written beside the new ones,
so each answer takes the new name first. Queue and cache are averages over the pool's servers, as the picker last
polled them.
"""

from __future__ import annotations

import re
from typing import Final

from profiler.model.extension import Answer, Component
from profiler.model.live import Ask, Identity

_ENDPOINT: Final = re.compile(r'per_endpoint_queue_size\{[^}]*\bmodel_server_endpoint="([^"]+)"')


def identify(ask: Ask) -> Identity | None:
    """By its metrics' prefix. A label names its servers; it is no address that a collector can use as it is."""
    text = ask("/metrics").text
    if "\nllm_d_epp_" not in text and "\ninference_pool_" not in text:
        return None
    return Identity(unnamed=tuple(dict.fromkeys(_ENDPOINT.findall(text))))


COMPONENT: Final = Component(
    name="llmd",
    title="an llm-d endpoint picker (inference gateway)",
    prefixes=("llm_d_epp_", "inference_objective_", "inference_pool_", "inference_extension_", "inference_model_"),
    answers=(
        Answer("running_requests", "llm_d_epp_request_running"),
        Answer("running_requests", "inference_objective_running_requests"),
        Answer("waiting_requests", "llm_d_epp_flow_control_queue_size"),
        Answer("waiting_requests", "llm_d_epp_average_queue_size", average=True),
        Answer("waiting_requests", "inference_pool_average_queue_size", average=True),
        Answer("kv_usage", "llm_d_epp_average_kv_cache_utilization", average=True),
        Answer("kv_usage", "inference_pool_average_kv_cache_utilization", average=True),
        Answer("hit_rate", "llm_d_epp_request_cached_tokens_sum", per="llm_d_epp_request_input_tokens_sum"),
        Answer("requests", "llm_d_epp_request_total"),
        Answer("requests", "inference_objective_request_total"),
        Answer("output_tokens", "llm_d_epp_request_output_tokens_sum"),
        Answer("output_tokens", "inference_objective_output_tokens_sum"),
        Answer("ttft_seconds", "llm_d_epp_request_ttft_seconds_sum", per="llm_d_epp_request_ttft_seconds_count"),
        Answer("itl_seconds", "llm_d_epp_request_streaming_itl_seconds_sum",
               per="llm_d_epp_request_streaming_itl_seconds_count"),
        Answer("e2e_seconds", "llm_d_epp_request_duration_seconds_sum", per="llm_d_epp_request_duration_seconds_count"),
        Answer("e2e_seconds", "inference_objective_request_duration_seconds_sum",
               per="inference_objective_request_duration_seconds_count"),
    ),
    identify=identify,
)  # fmt: skip
