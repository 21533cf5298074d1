"""llama.cpp's server (``llama-server --metrics``): metric names, start-up lines, knobs.

Read off tools/server of build 0c1e570 and off metrics and logs recorded with it. It exposes no latencies: the client
has to measure them. ``tokens_predicted_seconds_total`` is summed over slots and is no wall time. A ``llama_decode``
call is one step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from profiler.collectors.json_text import count, string
from profiler.collectors.openai_api import endpoints
from profiler.collectors.redaction import redact_text
from profiler.model.extension import Endpoint, Engine, LogStep
from profiler.model.knob import Allowed, Knob
from profiler.model.live import Ask, Identity, Live, ProcessRole
from profiler.model.metrics import RUNNING_CHANGE
from profiler.model.steps import StepLabel

METRICS: Final = {
    "llamacpp:requests_processing": "running_requests",
    "llamacpp:requests_deferred": "waiting_requests",
    "llamacpp:prompt_tokens": "computed_prompt_tokens",  # without those found in the cache
    "llamacpp:prompt_tokens_cached": "cached_tokens",
    "llamacpp:tokens_predicted": "generation_tokens",
    "llamacpp:n_decode": "steps",
    "llamacpp:spec_decode_num_draft_tokens": "draft_tokens",
    "llamacpp:spec_decode_num_accepted_tokens": "accepted_tokens",
}

KNOBS: Final = (
    Knob("max_num_seqs", ("--parallel", "-np"), ("parallel", "n_parallel", "np")),
    Knob("token_budget", ("--ubatch-size", "-ub"), ("ubatch_size", "n_ubatch", "ub")),
    Knob("kv_tokens", ("--ctx-size", "-c"), ("ctx_size", "n_ctx", "c")),
    Knob(
        "kv_dtype",
        ("--cache-type-k", "-ctk"),
        ("cache_type_k", "type_k", "ctk"),
        allowed=Allowed("f32|f16|bf16|q8_0|q4_0|q4_1|iq4_nl|q5_0|q5_1"),
    ),
    Knob("prefix_cache", ("--cache-prompt",), ("cache_prompt",)),
    Knob("speculative", ("--spec-type",), ("spec_type",)),
)

_CLOCK: Final = re.compile(r"(\d{1,6})\.(\d\d)\.(\d\d\d)\.(\d\d\d) [A-Z] ")
_BUILD: Final = re.compile(r"\bbuild:? (\d{1,9}) \(([0-9a-f]{6,40})\)")
_SLOTS: Final = re.compile(r"\bn_slots = (\d{1,9})\b")
_CONTEXT: Final = re.compile(r"llama_context: n_ctx\s+= (\d{1,18})\s*$")
_UBATCH: Final = re.compile(r"llama_context: n_ubatch\s+= (\d{1,18})\s*$")
_REQUEST: Final = re.compile(r"prompt eval time =\s+[\d.]+ ms /\s+\d+ tokens")
_EVALUATED: Final = re.compile(r"(prompt )?eval time =\s+(\d{1,12}(?:\.\d{1,9})?) ms /\s+(\d{1,18}) tokens")
_PROMPT: Final = re.compile(r"new prompt, .*task\.n_tokens = (\d{1,18})")
_CACHED: Final = re.compile(r"cached n_tokens = (\d{1,18}),")
_STORE: Final = re.compile(
    r"cache state: \d+ prompts, (\d{1,12}(?:\.\d{1,9})?) MiB \(limits: (\d{1,12}(?:\.\d{1,9})?) MiB"
)


def step_label(name: str) -> StepLabel | None:
    """It writes no trace."""
    return None


def log_step(line: str) -> LogStep | None:
    """Its log holds no line of a step."""
    return None


def log_clock(line: str) -> float | None:
    """Seconds since the server started (``0.03.369.493 I srv …`` is minutes, seconds, ms, µs)."""
    match = _CLOCK.match(line)
    if match is None:
        return None
    minutes, seconds, milliseconds, micros = map(int, match.groups())
    return minutes * 60 + seconds + milliseconds / 1e3 + micros / 1e6


def log_facts(line: str) -> Mapping[str, object]:
    """Build, slots and context in force, which the server may have shrunk to fit the device."""
    if not any(word in line for word in ("n_slots", "llama_context", "build")):
        return {}
    for pattern, key in ((_SLOTS, "max_num_seqs"), (_CONTEXT, "kv_tokens"), (_UBATCH, "token_budget")):
        match = pattern.search(line)
        if match is not None:
            return {f"setting.{key}": int(match[1])}
    match = _BUILD.search(line)
    return {} if match is None else {"engine.version": redact_text(f"b{match[1]}-{match[2]}")}


def log_event(line: str) -> str | None:
    """What else a line reports: request (its timings, printed when it ends)."""
    return "request" if "prompt eval time" in line and _REQUEST.search(line) else None


def log_readings(line: str) -> Mapping[str, float]:
    """Slots taken up and given back, each request's tokens and times, and how full the store of prompts is. It prints
    nothing at regular intervals."""
    if " | task " not in line and "cache state: " not in line:
        return {}
    if "| processing task" in line:
        return {RUNNING_CHANGE: 1.0}
    if "| stop processing" in line:
        return {RUNNING_CHANGE: -1.0}
    if (match := _EVALUATED.search(line)) is not None:
        seconds, tokens = float(match[2]) / 1e3, float(match[3])
        if match[1]:
            return {"prefill_seconds": seconds, "computed_prompt_tokens": tokens}
        return {"decode_seconds": seconds, "generation_tokens": tokens}
    for pattern, concept in ((_PROMPT, "prompt_tokens"), (_CACHED, "cached_tokens")):
        if (match := pattern.search(line)) is not None:
            return {concept: float(match[1])}
    match = _STORE.search(line)
    return {} if match is None or not float(match[2]) else {"prompt_store_usage": float(match[1]) / float(match[2])}


# ``/completion``, the server's own: unlike its OpenAI endpoints it counts tokens with every event.
NATIVE: Final = Endpoint(
    name="native",
    path="/completion",
    text="prompt",
    ids="prompt",
    limit="n_predict",
    ignore_eos="ignore_eos",
    fixed={"stream": True, "temperature": 0},
    output=("content",),
    input_tokens="tokens_evaluated",
    output_tokens="tokens_predicted",
    finish="stop_type",
    running=True,
)


def server_info(answer: Mapping[str, object]) -> Mapping[str, object]:
    """Facts of ``/props``; its context is that of one slot, so the cache as a whole is not known from it."""
    slots = count(answer.get("total_slots"))
    if slots is None or "default_generation_settings" not in answer:
        return {}
    facts: dict[str, object] = {"engine.name": "llamacpp", "setting.max_num_seqs": slots}
    for key, name in (("engine.version", "build_info"), ("model.name", "model_path")):
        if (value := string(answer.get(name))) is not None:
            facts[key] = value
    return facts


def identify(ask: Ask) -> Identity | None:
    """Only it answers ``/props`` with its build."""
    props = ask("/props").fields
    build = string(props.get("build_info"))
    if build is None and "\nllamacpp:" not in ask("/metrics").text:
        return None
    return Identity(build, string(props.get("model_path")) or string(props.get("model_alias")))


LIVE: Final = Live(
    identify=identify,
    metrics_needs="start it with --metrics",
    settings=("/props",),
    settings_need="start it with --props",
    steps_need="it logs no step: the counters of /metrics are all there is",
    notes=(
        "its rates per second restart at every read of /metrics: a second reader sees other rates (its totals are not "
        "touched, and only they are used here)",
    ),
    processes=(ProcessRole("server", r"llama-server|llama_cpp\.server", host=True),),
    trace_needs="it has no profiler of its own: `perf record -g -p PID` shows the host, nsys or rocprofv3 the device",
)

ENGINE: Final = Engine(
    name="llamacpp",
    title="llama.cpp",
    metric_prefixes=("llamacpp:", "llamacpp_"),
    metrics=METRICS,
    step_label=step_label,
    log_step=log_step,
    log_clock=log_clock,
    log_facts=log_facts,
    log_event=log_event,
    log_readings=log_readings,
    every_step_logged=False,
    knobs=KNOBS,
    owner="llamacpp",
    endpoints=(*endpoints(ignore_eos="ignore_eos"), NATIVE),
    server_info=server_info,
    live=LIVE,
)
