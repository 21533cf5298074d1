"""Triton Inference Server, with its TensorRT-LLM backend. Read off their documentation.

``nv_inference_…`` counts Triton's own requests and batches, not the batch in flight; the backend's gauges do. Durations
are sums of microseconds over requests.
"""

from __future__ import annotations

from typing import Final

from profiler.model.extension import Answer, Component

COMPONENT: Final = Component(
    name="triton",
    title="a Triton server",
    prefixes=("nv_inference_", "nv_trt_llm_"),
    answers=(
        Answer("running_requests", "nv_trt_llm_request_metrics", label=("request_type", "scheduled")),
        Answer("waiting_requests", "nv_trt_llm_request_metrics", label=("request_type", "waiting")),
        Answer("waiting_requests", "nv_inference_pending_request_count"),
        Answer("kv_usage", "nv_trt_llm_kv_cache_block_metrics", label=("kv_cache_block_type", "fraction"),
               average=True),
        Answer("requests", "nv_inference_request_success"),
        Answer("ttft_seconds", "nv_inference_first_response_histogram_ms_sum",
               per="nv_inference_first_response_histogram_ms_count", scale=1e-3),
        Answer("e2e_seconds", "nv_inference_request_duration_us", per="nv_inference_request_success", scale=1e-6),
    ),
)  # fmt: skip
