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

# Names of a pod: of a gauge of each, before ``llm_d_epp_`` with another label; of the picks so far, which tell more.
_GAUGE: Final = re.compile(r'per_(?:endpoint|pod)_queue_size\{[^}]*\bmodel_server_(?:endpoint|pod)="([^"]+)"')
_PICKS: Final = re.compile(r"scheduler_attempts_total\{([^}]*)\}")
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
# A pod that serves several ranks, each by a port of its own, is listed once for each.
_RANK: Final = re.compile(r"-rank-\d+$")


def identify(ask: Ask) -> Identity | None:
    """By its metrics' prefix. Its servers are named as pods, and no metric holds an address; namespace and port are
    known of those that it has picked since it was started."""
    text = ask("/metrics").text
    if "\nllm_d_epp_" not in text and "\ninference_pool_" not in text:
        return None
    pods: dict[str, str] = dict.fromkeys(_GAUGE.findall(text), "")
    for labels in map(dict, map(_LABEL.findall, _PICKS.findall(text))):
        name = labels.get("endpoint_name") or labels.get("pod_name")
        namespace, port = labels.get("namespace"), labels.get("port")
        if name and namespace and port:
            pods[name] = f" in namespace {namespace}, port {port}"
    return Identity(unnamed=tuple(f"pod {_RANK.sub('', name)}{place}" for name, place in pods.items()))


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
    workers_need=(
        "the picker names pods and no addresses: kubectl -n NAMESPACE get pod POD -o jsonpath='{.status.podIP}' tells "
        "one, and kubectl -n NAMESPACE port-forward pod/POD 8000:PORT leads there from outside the cluster. Record "
        "each by its own address under the load; a gateway's address answers as another pod each time"
    ),
)  # fmt: skip
