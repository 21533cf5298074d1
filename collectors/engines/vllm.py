"""vLLM, versions 0.6 to 0.33: metric names, step annotations, log lines, knobs, /server_info.

Read off vLLM's own source (v1/metrics/loggers.py, v1/worker/gpu_worker.py, v1/engine/core.py, engine/arg_utils.py)
and off logs recorded with 0.15.0 and 0.32.0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors import python_repr
from profiler.collectors.clock import stamp
from profiler.collectors.json_text import count, mapping, number, parse, string
from profiler.collectors.knob_table import knobs
from profiler.collectors.knob_values import flags, from_fields, leaves, switch
from profiler.collectors.openai_api import endpoints
from profiler.collectors.redaction import redact
from profiler.collectors.step_annotations import detailed, phase
from profiler.collectors.versions import at_least
from profiler.model.extension import Engine, Handover, LogStep, StepRecord
from profiler.model.live import Ask, Identity, Live, ProcessRole, TraceControl, TraceWindow
from profiler.model.steps import StepLabel

# Exposed name -> concept. Where two names hold one concept (renamed metrics are exposed twice for some versions) the
# earlier row wins.
METRICS: Final = {
    "vllm:num_requests_running": "running_requests",
    "vllm:num_requests_waiting": "waiting_requests",
    "vllm:kv_cache_usage_perc": "kv_usage",  # a fraction in spite of its name
    "vllm:gpu_cache_usage_perc": "kv_usage",  # until 0.11.2
    "vllm:prompt_tokens": "prompt_tokens",
    "vllm:prompt_tokens_cached": "cached_tokens",  # 0.16 and later
    "vllm:generation_tokens": "generation_tokens",
    "vllm:prefix_cache_queries": "prefix_queries",
    "vllm:gpu_prefix_cache_queries": "prefix_queries",  # 0.8.5 to 0.11.2
    "vllm:prefix_cache_hits": "prefix_hits",
    "vllm:gpu_prefix_cache_hits": "prefix_hits",
    "vllm:num_preemptions": "preemptions",
    "vllm:request_success": "requests",
    "vllm:spec_decode_num_drafts": "drafts",
    "vllm:spec_decode_num_draft_tokens": "draft_tokens",
    "vllm:spec_decode_num_accepted_tokens": "accepted_tokens",
    "vllm:request_queue_time_seconds": "queue_seconds",
    "vllm:time_in_queue_requests": "queue_seconds",  # V0
    "vllm:request_prefill_time_seconds": "prefill_seconds",
    "vllm:request_decode_time_seconds": "decode_seconds",
    "vllm:time_to_first_token_seconds": "ttft_seconds",
    "vllm:inter_token_latency_seconds": "itl_seconds",
    "vllm:time_per_output_token_seconds": "itl_seconds",  # gaps between tokens under an older name, until 0.14.1
    "vllm:e2e_request_latency_seconds": "e2e_seconds",
    "vllm:iteration_tokens_total": "step_tokens",
}
METRIC_LABELS: Final = (("computed_prompt_tokens", "vllm:prompt_tokens_by_source", "source", "local_compute"),)

KNOBS: Final = knobs("vllm")

HOST_PHASES: Final = {
    "schedule": "schedule",
    "schedule: allocate_slots": "schedule",
    "schedule: make_cached_request_data": "schedule",
    "schedule: update_after_schedule": "schedule",
    "schedule: get_num_common_prefix_blocks": "schedule",
    "prepare_inputs": "prepare_inputs",
    "gpu_model_runner: preprocess": "prepare_inputs",
    "Preprocess": "prepare_inputs",  # 0.10.2 to 0.11
    "gpu_model_runner: forward": "forward",
    "Forward": "forward",
    "gpu_model_runner: postprocess": "sample",
    "Postprocess": "sample",
    "gpu_model_runner: sample": "sample",
    "Sample": "sample",
    "gpu_model_runner: draft": "draft",
    "Draft": "draft",
    "gpu_model_runner: bookkeep": "process_output",
    "Bookkeep": "process_output",
    "gpu_model_runner: ModelRunnerOutput": "process_output",
    "llm_engine step: get_output": "receive",
    "llm_engine step: process_outputs": "process_output",
    "llm_engine step: abort_requests": "process_output",
    "llm_engine step: record_stats": "process_output",
    "gpu_model_runner: eplb": "other",
    "EPLB": "other",
}

# The core takes requests from the front end, calls its workers and takes their answers (names of 0.32).
HANDOVERS: Final = (
    Handover("requests", r"v1/engine/core\.py\(\d+\): _process_input_queue$", r"core_client\.py\(\d+\): _send_input$"),
    Handover("calls", r"shm_broadcast\.py\(\d+\): dequeue$", r"multiproc_executor\.py\(\d+\): collective_rpc$"),
    Handover(
        "answers", r"multiproc_executor\.py\(\d+\): get_response$", r"multiproc_executor\.py\(\d+\): enqueue_output$"
    ),
)

_CLOCK: Final = re.compile(r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)")
_ITERATION: Final = re.compile(
    r"Iteration\(\d+\): (\d{1,18}) context requests, (\d{1,18}) context tokens, (\d{1,18}) generation requests, "
    r"(\d{1,18}) generation tokens, iteration elapsed time: ([\d.]{1,24}) ms( \(dummy\))?"
    r"(?:, \S+ KV cache usage: ([\d.]{1,24})%)?"
)
_ACCEPTED: Final = re.compile(r"Mean acceptance length: (\d{1,6}\.\d{1,9})")
_COLLECTION: Final = re.compile(r"GC took (\d{1,12}\.\d{1,6})ms to complete\. Collected ")
_COUNTED: Final = re.compile(
    r"execute_context_(\d{1,18})\((\d{1,18})(?:_\d+)?\)_generation_(\d{1,18})\((\d{1,18})(?:_\d+)?\)"
)
_NEW_CACHED: Final = re.compile(r"execute_new_(\d{1,18})_cached_(\d{1,18})")
_ENGINE_START: Final = re.compile(r"Initializing an? (?:V1 )?LLM engine \(v([^)\s]+)\)")
_BANNER: Final = re.compile(r"[█▀▄]\s+version (\S+)\s*$|vLLM API server version (\S+)")
_BANNER_MODEL: Final = re.compile(r"[█▀▄]\s+model\s+(\S.*?)\s*$")
_CONFIG: Final = re.compile(
    r"[ '\"](max_seq_len|tensor_parallel_size|pipeline_parallel_size|data_parallel_size|quantization|enforce_eager"
    r"|kv_cache_dtype|enable_prefix_caching|enable_chunked_prefill|dtype|cudagraph_mode|max_cudagraph_capture_size)"
    r"['\"]?(?:=|: )([^,\s}]+)"
)
# Called level in older versions; 0 compiles nothing.
_COMPILATION: Final = re.compile(r"compilation_config=\{['\"](?:mode|level)['\"]: ?([^,]{1,60})")
_KV_SIZE: Final = re.compile(r"KV cache size: ([\d,]{1,24}) tokens")
_V0_BLOCKS: Final = re.compile(r"# (?:GPU|CUDA|CPU|XPU) blocks: (\d{1,18}),")
# The word in front of "KV cache" names the device that the cache lies on.
_CACHE_DEVICE: Final = re.compile(r"\b(GPU|CPU|XPU) (?:KV cache|blocks)")
_BUDGET: Final = re.compile(r"Chunked prefill is enabled with max_num_batched_tokens=(\d{1,18})")
_BACKEND: Final = re.compile(r"Using (\S+) attention backend|Using (\S+ ?\S*) backend\.$|backend (\w+) .*attention")
_ASYNC: Final = re.compile(r"Asynchronous scheduling is (enabled|disabled)")
_EVENTS: Final = (
    ("error", re.compile(r"\b(?:ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d|^Traceback \(most recent call last\)")),
    ("preemption", re.compile(r"is preempted by|Preemptions: [1-9]")),
    ("graph_capture", re.compile(r"Graph capturing finished in|Capturing (?:CUDA graph|the model for CUDA graphs)")),
    ("compile", re.compile(r"torch\.compile takes|Dynamo bytecode transform time|saved AOT compiled function")),
    ("interval", re.compile(r"Avg prompt throughput: [\d.]+ tokens/s, Avg generation throughput:")),
)
_GAUGES: Final = re.compile(
    r"Running: (\d{1,18}) reqs, (?:Swapped: \d+ reqs, )?(?:Waiting|Pending): (\d{1,18}) reqs, "
    r"(?:GPU )?KV cache usage: (\d{1,3}(?:\.\d{1,9})?)%"
)
# config/compilation.py, CUDAGraphMode: the JSON answer holds the values, a pair being (decode, mixed).
_GRAPH_MODES: Final = {
    "0": "NONE",
    "1": "PIECEWISE",
    "2": "FULL",
    "[2, 0]": "FULL_DECODE_ONLY",
    "[2, 1]": "FULL_AND_PIECEWISE",
}
# One of these stands in every line that the expressions above could match; the rest of a log is passed over quickly.
_FACT_WORDS: Final = (
    "LLM engine (v",
    "version ",
    "model  ",
    "non-default args",
    "KV cache size",
    "blocks: ",
    "backend",
    "Chunked prefill is",
    "Asynchronous scheduling is",
)


def step_label(name: str) -> StepLabel | None:
    """A step annotation: counts of 0.14.1 and later (some builds add the squared tokens), the detailed form, or
    0.11.2's ``execute_new_N_cached_M``, which does not tell prefill from decode."""
    match = _COUNTED.fullmatch(name)
    if match is not None:
        prefill, prefill_tokens, decode, decode_tokens = map(int, match.groups())
        return StepLabel(phase(prefill, decode), prefill, prefill_tokens, decode, decode_tokens)
    match = _NEW_CACHED.fullmatch(name)
    if match is not None:
        new, running = map(int, match.groups())
        # Running requests may still be in a chunked prefill, so only the total is certain.
        return StepLabel(requests=new + running)
    return detailed(name)


def log_step(line: str) -> LogStep | None:
    """A ``--enable-logging-iteration-details`` line (core.py until 0.25, loggers.py since); its time is the engine
    core's wall time from scheduling to result. Dummy steps of idle data-parallel ranks have phase "idle"."""
    if "Iteration(" not in line:
        return None
    match = _ITERATION.search(line)
    if match is None:
        return None
    prefill, prefill_tokens, decode, decode_tokens = (int(match[group]) for group in range(1, 5))
    seconds, usage = _decimal(match[5]), _decimal(match[7])
    return LogStep(
        label=StepLabel("idle" if match[6] else phase(prefill, decode), prefill, prefill_tokens, decode, decode_tokens),
        seconds=None if seconds is None else seconds / 1e3,
        kv_usage=None if usage is None else usage / 100,
    )


def step_record(record: Mapping[str, object]) -> StepRecord | None:
    """A step as a stat-logger plugin writes ``SchedulerStats``: composition and time where iteration details are on."""
    stats = mapping(record.get("sched", record.get("scheduler_stats")))
    clock = number(record.get("t", record.get("timestamp")))
    running = count(stats.get("num_running_reqs"))
    if running is None or "step_counter" not in stats:
        return None
    detail = mapping(stats.get("iteration_details"))
    prefill, prefill_tokens = count(detail.get("num_ctx_requests")), count(detail.get("num_ctx_tokens"))
    decode, decode_tokens = count(detail.get("num_generation_requests")), count(detail.get("num_generation_tokens"))
    elapsed = number(detail.get("elapsed_ms"))
    mode = mapping(stats.get("cudagraph_stats")).get("runtime_mode")
    known = None if prefill is None or decode is None else phase(prefill, decode)
    ran = "idle" if detail.get("is_dummy") is True else known
    step = LogStep(
        label=StepLabel(ran, prefill, prefill_tokens, decode, decode_tokens),
        seconds=None if elapsed is None else elapsed / 1e3,
        cached_tokens=count(mapping(stats.get("prefix_cache_stats")).get("hits")),
        waiting=count(stats.get("num_waiting_reqs")),
        kv_usage=number(stats.get("kv_cache_usage")),
        graph=None if not isinstance(mode, str) else mode != "NONE",
        beside=running if known is None else None,
    )
    return StepRecord(step, float("nan") if clock is None else clock, count(detail.get("iteration_index")))


def log_clock(line: str) -> float | None:
    """Seconds since the start of the year, read as UTC: vLLM's stamp has no year."""
    match = _CLOCK.search(line, 0, 200)
    return None if match is None else stamp((1970, *match.groups()))


def log_facts(line: str) -> Mapping[str, object]:
    """Version, model and settings that a start-up line states, by the names of ``Reading.facts``."""
    if not any(word in line for word in _FACT_WORDS):
        return {}
    at = line.find("non-default args: {")
    if at >= 0:
        stated = redact(python_repr.read(line[at + len("non-default args: ") :]))
        if not isinstance(stated, dict):
            return {}
        facts = from_fields(KNOBS, dict(leaves(stated)))
        model = stated.get("model") or stated.get("model_tag")
        return facts | ({"model.name": model} if isinstance(model, str) else {})
    started = _ENGINE_START.search(line)
    if started is not None:
        # The first mention of a key is the engine's own; nested configurations repeat some.
        fields: dict[str, object] = {}
        for key, value in (*_CONFIG.findall(line), *_compilation(line)):
            fields.setdefault(key, _member(value))
        model = re.search(r"config: model='([^']+)'", line)
        return {"engine.version": started[1]} | _settings(fields) | ({"model.name": model[1]} if model else {})
    for pattern, key in ((_BANNER, "engine.version"), (_BANNER_MODEL, "model.name")):
        match = pattern.search(line)
        if match is not None:
            return {key: next(group for group in match.groups() if group)}
    for pattern, key in ((_KV_SIZE, "kv_tokens"), (_V0_BLOCKS, "kv_blocks"), (_BUDGET, "token_budget")):
        match = pattern.search(line)
        if match is not None:
            found: dict[str, object] = {f"setting.{key}": int(match[1].replace(",", "") or 0)}
            device = _CACHE_DEVICE.search(line)
            found |= {"setting.chunked_prefill": True} if key == "token_budget" else {}
            return found | ({"hardware.device": "cpu" if device[1] == "CPU" else "gpu"} if device else {})
    match = _ASYNC.search(line)
    if match is not None:
        return {"setting.overlap": match[1] == "enabled"}
    match = _BACKEND.search(line)
    backend = next((group for group in match.groups() if group), None) if match else None
    return {"setting.attention_backend": backend.removesuffix(" attention")} if backend else {}


def log_event(line: str) -> str | None:
    """What else a line reports; "interval" is the throughput line of every ten seconds."""
    return next((kind for kind, pattern in _EVENTS if pattern.search(line)), None)


def log_readings(line: str) -> Mapping[str, float]:
    """Gauges of the line of every ten seconds, the accepted length of such an interval (the target's own token
    included), and the time of one garbage collection (``VLLM_GC_DEBUG``, utils/gc_utils.py)."""
    if "SpecDecoding metrics" in line:
        match = _ACCEPTED.search(line)
        return {} if match is None else {"accepted_length": float(match[1])}
    if "GC took" in line:
        match = _COLLECTION.search(line)
        return {} if match is None else {"gc_seconds": float(match[1]) / 1e3}
    match = _GAUGES.search(line) if "Avg prompt throughput" in line else None
    if match is None:
        return {}
    return {"running_requests": float(match[1]), "waiting_requests": float(match[2]), "kv_usage": float(match[3]) / 100}


def server_info(answer: Mapping[str, object]) -> Mapping[str, object]:
    """Facts of ``/server_info`` (development mode only), with ``config_format=json`` or as text; empty for others."""
    config = answer.get("vllm_config")
    if "vllm_config" not in answer:
        return {}
    facts: dict[str, object] = {"engine.name": "vllm"}
    if isinstance(config, str):
        fields: dict[str, object] = {}
        for key, value in (*_CONFIG.findall(" " + config[:65536]), *_compilation(config[:65536])):
            fields.setdefault(key, _member(value))
        model = re.match(r"model='([^']+)'", config)
        return facts | _settings(fields) | ({"model.name": model[1]} if model else {})
    if not isinstance(config, dict):
        return facts
    merged: dict[str, object] = {}
    for section in ("model", "cache", "parallel", "scheduler", "observability", "compilation"):
        part = config.get(f"{section}_config")
        if isinstance(part, dict):
            merged |= part
    attention = config.get("attention_config")
    if isinstance(attention, dict):
        merged["attention_backend"] = attention.get("backend")
    speculative = config.get("speculative_config")
    if isinstance(speculative, dict):
        merged["speculative_config"] = speculative.get("method", "on")
    blocks, size = merged.get("num_gpu_blocks"), merged.get("block_size")
    if isinstance(blocks, int) and isinstance(size, int):
        merged["kv_cache_size_tokens"] = blocks * size
    compilation = mapping(config.get("compilation_config"))
    merged["compilation_mode"] = compilation.get("mode", compilation.get("level"))
    mode = merged.get("cudagraph_mode")
    merged["cudagraph_mode"] = _GRAPH_MODES.get(str(mode), _member(mode))
    merged["dtype"] = _member(merged.get("dtype"))
    facts |= _settings(merged)
    device = config.get("device_config")
    if isinstance(device, dict) and isinstance(device.get("device"), str):
        facts["hardware.device"] = "cpu" if device["device"] == "cpu" else "gpu"
    if isinstance(merged.get("model"), str):
        facts["model.name"] = merged["model"]
    return facts


def _settings(fields: Mapping[str, object]) -> dict[str, object]:
    """Settings of resolved fields: where no mode captures graphs, an engine not forced to run eagerly does so too."""
    found = from_fields(KNOBS, fields)
    mode = found.get("setting.cuda_graph_mode")
    if mode is not None and not switch(mode):
        found["setting.cuda_graph"] = False
    return found


def _compilation(text: str) -> tuple[tuple[str, str], ...]:
    match = _COMPILATION.search(text)
    return () if match is None else (("compilation_mode", match[1]),)


def _member(value: object) -> object:
    """The name of an enumeration member as vLLM prints it: ``<CUDAGraphMode.NONE: 0>`` or the name itself."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"<\w+\.(\w+):?.*", value)
    return match[1] if match else value.strip("'\"").removeprefix("torch.")


def _decimal(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def identify(ask: Ask) -> Identity | None:
    """By the owner that ``/v1/models`` names; the metrics alone (a worker of another front end) do too."""
    models = ask("/v1/models").fields.get("data")
    first = mapping(models[0]) if isinstance(models, list) and models else {}
    named = first.get("owned_by") == "vllm"
    if not named and "\nvllm:num_requests_running" not in ask("/metrics").text:
        return None
    version = string(ask("/version").fields.get("version")) if named else None
    return Identity(version, string(first.get("root")) or string(first.get("id")))


def trace_body(window: TraceWindow, version: str | None) -> Mapping[str, object] | None:
    """The request took no body until 0.32."""
    if not at_least(version, 0, 32):
        return None
    return {"profile_prefix": window.name, "max_iterations": window.steps}


def trace_folder(command: Sequence[str], settings: Mapping[str, object]) -> str | None:
    """Where the server was told to write: its own settings, the flag (as JSON or dotted), the variable until 0.15."""
    config = mapping(mapping(settings.get("vllm_config")).get("profiler_config"))
    told = dict(flags(command))
    stated = mapping(parse(told.get("--profiler-config") or ""))
    environment = mapping(settings.get("vllm_env")).get("VLLM_TORCH_PROFILER_DIR")
    dotted = told.get("--profiler-config.torch_profiler_dir")
    return (
        string(config.get("torch_profiler_dir"))
        or string(stated.get("torch_profiler_dir"))
        or string(dotted or environment)
    )


def _with_nsys(command: Sequence[str]) -> Sequence[str]:
    options = "-t cuda,nvtx -c cudaProfilerApi --capture-range-end=repeat --trace-fork-before-exec=true"
    return (
        "nsys", "profile", *options.split(), "--cuda-graph-trace=node", "-o", "nsys/rank",
        *command, "--profiler-config.profiler=cuda",
    )  # fmt: skip


LIVE: Final = Live(
    identify=identify,
    metrics_needs="start it without --disable-log-stats",
    settings=("/server_info?config_format=json",),
    settings_need="start it with VLLM_SERVER_DEV_MODE=1 in its environment (not where strangers can reach it)",
    steps_logged=lambda facts: switch(facts.get("setting.step_log")),
    steps_need="start it with --enable-logging-iteration-details, or with our stat logger (docs/record.md)",
    processes=(
        ProcessRole("api server", r"VLLM::APIServer|\bvllm\S* serve\b|\bvllm\.entrypoints\."),
        ProcessRole("engine core", r"VLLM::EngineCore(?:_DP(?P<rank>\d+))?", host=True),
        ProcessRole("worker", r"VLLM::Worker(?P<rank>(?:_[A-Z]+\d+)*)", host=True),
        ProcessRole("coordinator", r"VLLM::DPCoordinator"),
    ),
    trace=TraceControl(
        body=trace_body,
        stops_itself=lambda version: at_least(version, 0, 32),
        chooses_folder=False,
        folder=trace_folder,
        files="*.pt.trace.json*",
        # The address exists only where a profiler is configured: GET is refused there, and not found elsewhere.
        available=lambda ask: {405: True, 404: False}.get(ask("/start_profile").status),
        needs=(
            'restart it with --profiler-config \'{"profiler":"torch","torch_profiler_dir":"/abs/dir",'
            '"torch_profiler_with_stack":false,"ignore_frontend":true}\' (until 0.12: VLLM_TORCH_PROFILER_DIR)'
        ),
    ),
    restart={"nsys": _with_nsys},
)

ENGINE: Final = Engine(
    name="vllm",
    title="vLLM",
    metric_prefixes=("vllm:", "vllm_"),
    metrics=METRICS,
    metric_labels=METRIC_LABELS,
    info_metrics=("vllm:cache_config_info",),
    step_label=step_label,
    log_step=log_step,
    log_clock=log_clock,
    log_facts=log_facts,
    log_event=log_event,
    handovers=HANDOVERS,
    # The runner of v1/worker/gpu_model_runner.py, and the newer one of v1/worker/gpu. Both start threads for each step.
    micro_batch=r"gpu_ubatch_wrapper\.py\(\d+\): _ubatch_thread$|worker/gpu/ubatch_utils\.py\(\d+\): run_ubatch$",
    log_readings=log_readings,
    every_step_logged=True,
    trace_keys={"vllm_version": "engine.version"},
    # "<prefix>_dp0_pp0_tp0_dcp0_ep0_rank0.<ns>.pt.trace.json.gz" since 0.17; "<instance>-rank-0" from 0.11.2.
    trace_file=r"(?:dp\d+_pp\d+_tp\d+_dcp\d+_ep\d+_rank\d+|-rank-\d+|\.async_llm)\.\d+\.pt\.trace\.json",
    host_phases=HOST_PHASES,
    # Read off traces of 0.10 to 0.12 with stacks; both runners since keep the name.
    step_frame=r"vllm/(?:v1/)?worker/\w*model_runner\w*\.py\(\d+\): execute_model$",
    knobs=KNOBS,
    # platforms/cpu.py of 0.32 sets async_scheduling to False whatever was asked for, and captures no graph: of what
    # --enforce-eager switches off (config/vllm.py) the compiler is left.
    on_cpu={"overlap": None, "cuda_graph": "compile"},
    server_info=server_info,
    step_record=step_record,
    owner="vllm",
    endpoints=endpoints(ignore_eos="ignore_eos", least="min_tokens", running=True),
    live=LIVE,
)
