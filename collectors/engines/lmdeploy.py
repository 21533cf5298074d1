"""LMDeploy (``lmdeploy serve api_server``): metric names, the line of every ten seconds, knobs.

Read off lmdeploy/metrics/loggers.py and lmdeploy/cli. Its scheduler gauges are refreshed by the same ten-second loop;
``iteration_tokens_total`` is observed per request and not per step, so it counts no steps; preemptions are not counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from profiler.collectors.clock import stamp
from profiler.collectors.json_text import mapping, string
from profiler.collectors.knob_values import from_fields
from profiler.collectors.openai_api import endpoints
from profiler.model.extension import Engine, LogStep
from profiler.model.knob import Allowed, Knob
from profiler.model.live import Ask, Identity, Live, ProcessRole
from profiler.model.steps import StepLabel

METRICS: Final = {
    "lmdeploy:num_requests_running": "running_requests",
    "lmdeploy:num_requests_waiting": "waiting_requests",
    "lmdeploy:gpu_cache_usage_perc": "kv_usage",
    "lmdeploy:prompt_tokens": "prompt_tokens",
    "lmdeploy:cached_tokens": "cached_tokens",
    "lmdeploy:generation_tokens": "generation_tokens",
    "lmdeploy:num_requests_succeeded": "requests",  # a gauge that only grows; request_success counts errors too
    "lmdeploy:spec_decode_num_draft_tokens": "draft_tokens",
    "lmdeploy:spec_decode_num_accepted_tokens": "accepted_tokens",
    "lmdeploy:request_queue_time_seconds": "queue_seconds",
    "lmdeploy:request_prefill_time_seconds": "prefill_seconds",
    "lmdeploy:request_decode_time_seconds": "decode_seconds",
    "lmdeploy:time_to_first_token_seconds": "ttft_seconds",
    "lmdeploy:iter_token_latency": "itl_seconds",  # the gap between outputs; time_per_output_token divides it
    "lmdeploy:e2e_request_latency_seconds": "e2e_seconds",
}

KNOBS: Final = (
    Knob("max_num_seqs", ("--max-batch-size",), ("max_batch_size",)),
    Knob("token_budget", ("--max-prefill-token-num",), ("max_prefill_token_num",)),
    Knob("memory_fraction", ("--cache-max-entry-count",), ("cache_max_entry_count",)),
    Knob("kv_block_size", ("--cache-block-seq-len",), ("cache_block_seq_len", "block_size")),
    Knob("prefix_cache", ("--enable-prefix-caching",), ("enable_prefix_caching",)),
    Knob("cuda_graph", ("--eager-mode",), ("-eager_mode",)),
    Knob("tensor_parallel", ("--tp",), ("tp",)),
    Knob("data_parallel", ("--dp",), ("dp",)),
    Knob("expert_parallel", ("--ep",), ("ep",)),
    Knob("max_model_len", ("--session-len",), ("session_len",)),
    Knob("dtype", ("--dtype",), ("dtype",)),
    Knob("quantization", ("--model-format",), ("model_format",)),
    Knob("kv_dtype", ("--quant-policy",), ("quant_policy",), allowed=Allowed("0..")),
    Knob("speculative", ("--speculative-algorithm",), ("speculative_algorithm",)),
)

_CLOCK: Final = re.compile(r"\[?(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:[,.](\d{1,6}))?")
_FIELD: Final = re.compile(r"\b(\w+)=('[^']{0,200}'|\"[^\"]{0,200}\"|[^,()\s]{1,80})")
_INTERVAL: Final = re.compile(r"Avg thr \(in/out\): [\d.]+ / [\d.]+ tokens/s, (?:Server|API server) \(")
_GAUGES: Final = re.compile(r"Engine \(running/waiting\): (\d{1,18}) / (\d{1,18}), KV cache: (\d{1,3}(?:\.\d{1,9})?)%")
_BACKEND: Final = re.compile(r"(?:updated|input) backend(?:=\w+, backend)?_config=")
_EVENTS: Final = (
    ("interval", _INTERVAL),
    ("graph_capture", re.compile(r"lmdeploy.*[Cc]aptur\w+ (?:\w+ )?[Gg]raph")),
    ("error", re.compile(r"lmdeploy - (?:ERROR|CRITICAL)|^Traceback \(most recent call last\)")),
)


def step_label(name: str) -> StepLabel | None:
    """Its traces name no step's batch."""
    return None


def log_step(line: str) -> LogStep | None:
    """Its log holds no line of a step: the ten-second line is an average, counted as an event."""
    return None


def log_clock(line: str) -> float | None:
    """Seconds since the epoch, the stamp's local time read as UTC."""
    match = _CLOCK.search(line, 0, 200) if "lmdeploy" in line or "Avg thr (in/out)" in line else None
    return None if match is None else stamp(match.groups()[:6], match[7])


def log_facts(line: str) -> Mapping[str, object]:
    """Settings of the line that states the engine's configuration (log level INFO)."""
    match = _BACKEND.search(line)
    if match is None or "lmdeploy" not in line:
        return {}
    fields: dict[str, object] = {key: value.strip("'\"") for key, value in _FIELD.findall(line[match.end() :])}
    return from_fields(KNOBS, fields)


def log_event(line: str) -> str | None:
    """What else a line reports; "interval" is the line of every ten seconds."""
    return next((kind for kind, pattern in _EVENTS if pattern.search(line)), None)


def log_readings(line: str) -> Mapping[str, float]:
    """Gauges of the line of every ten seconds."""
    match = _GAUGES.search(line) if "Avg thr (in/out)" in line else None
    if match is None:
        return {}
    return {"running_requests": float(match[1]), "waiting_requests": float(match[2]), "kv_usage": float(match[3]) / 100}


def identify(ask: Ask) -> Identity | None:
    """By the owner that ``/v1/models`` names. It has no address for its version."""
    models = ask("/v1/models").fields.get("data")
    first = mapping(models[0]) if isinstance(models, list) and models else {}
    if first.get("owned_by") != "lmdeploy" and "\nlmdeploy:" not in ask("/metrics").text:
        return None
    return Identity(None, string(first.get("id")))


LIVE: Final = Live(
    identify=identify,
    metrics_needs="start it without --disable-metrics",
    settings_need="it has no address for its settings: its log at --log-level INFO holds them",
    steps_need="it logs no step: its line of every ten seconds is all there is",
    processes=(ProcessRole("server", r"\blmdeploy\S* serve\b", host=True),),
    trace_needs=(
        "it has no address for its profiler: restart it (PyTorch engine) with LMDEPLOY_PROFILE_CPU=1, "
        "LMDEPLOY_PROFILE_CUDA=1, LMDEPLOY_PROFILE_DURATION=10 and LMDEPLOY_PROFILE_OUT_PREFIX=/abs/trace in the "
        "environment"
    ),
)

ENGINE: Final = Engine(
    name="lmdeploy",
    title="LMDeploy",
    metric_prefixes=("lmdeploy:", "lmdeploy_"),
    metrics=METRICS,
    step_label=step_label,
    log_step=log_step,
    log_clock=log_clock,
    log_facts=log_facts,
    log_event=log_event,
    log_readings=log_readings,
    every_step_logged=False,
    knobs=KNOBS,
    owner="lmdeploy",
    endpoints=(
        # Read off serve/openai/protocol.py: a list is a batch of texts, and only chat knows a least length.
        msgspec.structs.replace(endpoints(ignore_eos="ignore_eos")[0], ids=None),
        msgspec.structs.replace(endpoints(ignore_eos="ignore_eos")[1], least="min_new_tokens"),
    ),
    live=LIVE,
)
