"""NVIDIA Dynamo's front end, router and workers. Read off live scrapes of 1.6.1 (CPU mocker).

``queued_requests`` counts until the first response, prefill included; in-flight requests are all that came in and did
not go out. ``gpu_cache_usage_percent`` is a fraction. The router's ``kv_hit_rate`` is its own prediction, so the share
of prompt tokens that the workers reported as cached is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from profiler.collectors.json_text import mapping, string
from profiler.model.extension import Answer, Component
from profiler.model.live import Ask, Identity, Registrations

_DIGITS: Final = 20  # of an unsigned number of 64 bits


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
        marks=tuple((mark(str(number)) or "") if isinstance(number, int) else "" for number in numbers),
    )


def publisher(registered: Mapping[str, object]) -> str | None:
    """The address in the registration of an event channel; None of one that goes through a broker (NATS)."""
    transport = mapping(registered.get("transport"))
    return string(mapping(transport.get("config")).get("endpoint")) if transport.get("kind") == "Zmq" else None


def mark(number: str) -> str | None:
    """What the metrics of an instance hold: its number, which a message has in decimals, in hexadecimal."""
    return f'worker_id="{int(number):x}"' if number.isdecimal() and len(number) <= _DIGITS else None


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
    passes=Registrations(
        variable="DYN_FILE_KV",
        fallback="dynamo_store_kv",
        pattern="v1/event_channels/*topic%2Fforward%2Dpass%2Dmetrics*",
        address=publisher,
        mark=mark,
        needs=(
            "they can be subscribed to where the workers were started with DYN_EVENT_PLANE=zmq and "
            "DYN_DISCOVERY_BACKEND=file on this machine; NATS, etcd and Kubernetes keep them to Dynamo's own "
            "subscribers. DYN_FPM_TRACE=1 DYN_FPM_MODE=full makes a worker write them to files, which are read in a run"
        ),
    ),
)  # fmt: skip
