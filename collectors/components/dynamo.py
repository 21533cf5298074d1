"""NVIDIA Dynamo's front end, router and workers. Read off live scrapes of 1.6.1 (CPU mocker).

``queued_requests`` counts until the first response, prefill included; in-flight requests are all that came in and did
not go out. ``gpu_cache_usage_percent`` is a fraction. The router's ``kv_hit_rate`` is its own prediction, so the share
of prompt tokens that the workers reported as cached is taken.
"""

from __future__ import annotations

from typing import Final

from profiler.collectors.json_text import mapping, string
from profiler.model.extension import Answer, Component
from profiler.model.live import Ask, Identity


def identify(ask: Ask) -> Identity | None:
    """A front end: ``/health`` lists the instances behind it, with the address of their request plane only. Metrics are
    on another port, which only a worker's own environment names; they hold the instance's number in hexadecimal."""
    answer = ask("/health").fields
    instances = answer.get("instances")
    if not isinstance(instances, list) or "endpoints" not in answer:
        return None
    models = ask("/v1/models").fields.get("data")
    first = mapping(models[0]) if isinstance(models, list) and models else {}
    named = [one for one in map(mapping, instances) if one.get("endpoint") == "generate"]
    numbers = [one.get("instance_id") for one in named]  # unsigned, of 64 bits
    return Identity(
        model=string(first.get("id")),
        unnamed=tuple(
            f"{one.get('component', '?')} instance {one.get('instance_id', '?')}: its metrics are on the port of its "
            "DYN_SYSTEM_PORT"
            for one in named
        ),
        marks=tuple(f'worker_id="{number:x}"' if isinstance(number, int) else "" for number in numbers),
    )


COMPONENT: Final = Component(
    name="dynamo",
    title="a Dynamo component",
    prefixes=("dynamo_",),
    answers=(
        Answer("running_requests", "dynamo_frontend_inflight_requests"),
        Answer("running_requests", "dynamo_component_inflight_requests", label=("dynamo_endpoint", "generate")),
        Answer("waiting_requests", "dynamo_frontend_queued_requests"),
        Answer("waiting_requests", "dynamo_work_handler_queue_depth"),
        Answer("kv_usage", "dynamo_component_gpu_cache_usage_percent", average=True),
        Answer("hit_rate", "dynamo_frontend_cached_tokens_sum", per="dynamo_frontend_input_sequence_tokens_sum"),
        Answer("hit_rate", "dynamo_component_kv_cache_hit_rate", average=True),
        Answer("requests", "dynamo_frontend_requests_total"),
        Answer("requests", "dynamo_component_requests_total", label=("dynamo_endpoint", "generate")),
        Answer("output_tokens", "dynamo_frontend_output_tokens_total"),
        Answer("ttft_seconds", "dynamo_frontend_time_to_first_token_seconds_sum",
               per="dynamo_frontend_time_to_first_token_seconds_count"),
        Answer("itl_seconds", "dynamo_frontend_inter_token_latency_seconds_sum",
               per="dynamo_frontend_inter_token_latency_seconds_count"),
        Answer("e2e_seconds", "dynamo_frontend_request_duration_seconds_sum",
               per="dynamo_frontend_request_duration_seconds_count"),
    ),
    identify=identify,
    worker_port="DYN_SYSTEM_PORT",
)  # fmt: skip
