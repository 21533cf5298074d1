"""SGLang, versions 0.3.6 to 0.5.23: metric names, step annotations, log lines, knobs, /get_server_info.

Read off SGLang's own source (srt/observability/metrics_collector.py, srt/managers/scheduler.py, srt/server_args.py) and
off logs and answers recorded with 0.5.23.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors import python_repr
from profiler.collectors.clock import stamp
from profiler.collectors.json_text import count, mapping, number, string
from profiler.collectors.knob_table import knobs
from profiler.collectors.knob_values import from_fields, leaves
from profiler.collectors.openai_api import endpoints
from profiler.collectors.redaction import redact
from profiler.collectors.step_annotations import detailed
from profiler.collectors.versions import at_least
from profiler.model.extension import Endpoint, Engine, LogStep
from profiler.model.live import Ask, Identity, Live, ProcessRole, TraceControl, TraceWindow
from profiler.model.steps import Phase, StepLabel

_MOST_RANKS: Final = 64
METRICS: Final = {
    "sglang:num_running_reqs": "running_requests",
    "sglang:num_queue_reqs": "waiting_requests",
    "sglang:spec_accept_length": "accepted_length",
    "sglang:token_usage": "kv_usage",
    "sglang:full_token_usage": "kv_usage",  # models with sliding-window layers
    "sglang:prompt_tokens": "prompt_tokens",
    "sglang:cached_tokens": "cached_tokens",
    "sglang:generation_tokens": "generation_tokens",
    "sglang:num_retracted_requests": "preemptions",  # 0.5.7 and later
    "sglang:total_retracted_reqs": "preemptions",  # 0.4.10 to 0.5.2: a gauge that only grows
    "sglang:num_requests": "requests",
    "sglang:queue_time_seconds": "queue_seconds",
    "sglang:queue_time_s": "queue_seconds",  # until 0.5.2
    "sglang:time_to_first_token_seconds": "ttft_seconds",
    "sglang:inter_token_latency_seconds": "itl_seconds",
    "sglang:time_per_output_token_seconds": "itl_seconds",  # until 0.4.4
    "sglang:e2e_request_latency_seconds": "e2e_seconds",
}
# (concept, metric, label, values): values are patterns joined by "|", "!" in front takes all others.
METRIC_LABELS: Final = (
    ("computed_prompt_tokens", "sglang:realtime_tokens", "mode", "prefill_compute"),  # brought up to date when logging
    ("prefix_queries", "sglang:prefill_effective_tokens", "mode", "*"),  # every looked-up token
    ("prefix_hits", "sglang:prefill_effective_tokens", "mode", "*_hit"),
    ("prefill_seconds", "sglang:per_stage_req_latency_seconds", "stage", "prefill_forward"),
    # The stages add up to the loop's wall time. An idle loop still passes through the other stages, so
    # sglang:scheduler_idle_seconds_total (no work at all) is longer than the stage "idle" and would be counted twice.
    ("executor_seconds", "sglang:scheduler_stage_seconds", "category", "run_batch"),
    ("scheduler_seconds", "sglang:scheduler_stage_seconds", "category", "!run_batch|idle"),
    ("idle_seconds", "sglang:scheduler_stage_seconds", "category", "idle"),
    ("eager_steps", "sglang:cuda_graph_passes", "mode", "*_none"),
    ("graph_steps", "sglang:cuda_graph_passes", "mode", "!*_none"),
    ("steps", "sglang:cuda_graph_passes", "mode", "*"),
)

KNOBS: Final = knobs("sglang")

HOST_PHASES: Final = {
    "scheduler.recv_requests": "receive",
    "scheduler.process_input_requests": "receive",
    "scheduler.get_next_batch_to_run": "schedule",
    "scheduler.process_queue": "schedule",
    "scheduler.run_batch": "forward",
    "scheduler.process_batch_result": "process_output",
    "scheduler.sanity_check_cache": "other",
    "scheduler.idle": "idle",
    "scheduler.other": "other",
    "recv_requests": "receive",  # under pipeline parallelism, 0.5.7 and later
    "get_next_batch_to_run": "schedule",
    "run_batch": "forward",
    "process_batch_result": "process_output",
    "copy_result_to_cpu": "process_output",
    "draft": "draft",  # spec_utils.py, spec_stage_span: what the drafts launch, its replayed graphs too
    "draft_extend": "draft",
    "schedule": "schedule",
    "prepare_inputs": "prepare_inputs",
}

_STEP: Final = re.compile(
    r"step\[([A-Z_0-9]{1,40})(?: raw_bs=(\d{1,18}))? bs=(\d{1,18})(?: toks=(\d{1,18}))?"
    r"((?: [a-z_]{1,20}=\d{1,18}){0,20})\]"
)
_SUM: Final = re.compile(r"([a-z_]+)=(\d+)")
_CLOCK: Final = re.compile(r"\[(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")
_BATCH: Final = re.compile(r"\b(Prefill|Decode) batch(?: \[\d+\])?[.,:] ?(.*)")
_ACCEPTED: Final = re.compile(r"\baccept len: (\d{1,6}\.\d{1,9})")
# A long collection is logged twice where both are on; the warning alone has no "GC end".
_COLLECTION: Final = re.compile(r"GC end: .{1,60}\| Generation \d \| Duration: (\d{1,9}\.\d{1,9})s")
_FIELD: Final = re.compile(r"(#?[A-Za-z][^:,]*): ([^,]+)")
_ARGUMENTS: Final = re.compile(r"server_args=(?=ServerArgs\(|\{)")
_POOL: Final = re.compile(
    r"\b(max_total_num_tokens|chunked_prefill_size|max_prefill_tokens|max_running_requests|context_len)=(-?\d{1,18})"
)
_VERSION: Final = re.compile(r"\bsglang(?:[ _]version)?[ =:]+v?(\d+\.\d+\.\d+\S*)", re.I)
_EVENTS: Final = (
    ("preemption", re.compile(r"Retract requests|Decode out of memory happened")),
    ("graph_capture", re.compile(r"Capture (?:\w+ )?(?:cuda|cpu|npu) graph (?:begin|end)", re.I)),
    ("compile", re.compile(r"torch\.?compile.*(?:begin|end|took)", re.I)),
    ("error", re.compile(r"Traceback \(most recent call last\)|Scheduler hit an exception|\] ERROR\b")),
)
_DECODING: Final = frozenset({"DECODE", "TARGET_VERIFY", "VERIFY"})
_EXTENDING: Final = frozenset({"EXTEND", "SPLIT_PREFILL", "DLLM_EXTEND", "PREBUILT"})


def step_label(name: str) -> StepLabel | None:
    """A ``step[MODE bs=.. toks=..]`` annotation (0.5.12 and later), with the sums of ``detailed_annotations``.

    MODE is that of model_executor/forward_batch_info.py, VERIFY and DRAFT those of 0.5.20; before, the draft model's
    passes are named by their mode like the target's (they lie in a range of the draft), and a whole draft that a graph
    replays is DRAFT_LOOP. A mixed step without sums states the total of its requests only.
    """
    match = _STEP.fullmatch(name)
    if match is None:
        return detailed(name)
    # The second batch of a replayed draft is the one padded to the captured size.
    mode, batch = match[1], int(match[2] or match[3])
    tokens = None if match[4] is None else int(match[4])
    sums = {key: int(value) for key, value in _SUM.findall(match[5])}
    if mode.startswith("DRAFT"):
        return StepLabel(phase="prefill" if "EXTEND" in mode else "decode", requests=batch, draft=True)
    if mode == "IDLE" or mode == "DUMMY_FIRST":
        return StepLabel(phase="idle", requests=batch)
    if mode in _DECODING:
        return StepLabel(
            phase="decode",
            prefill_requests=0,
            prefill_tokens=0,
            decode_requests=batch,
            decode_tokens=sums.get("g_sq", batch if mode == "DECODE" else None),
            decode_context=sums.get("g_sk"),
            requests=batch,
            verify=mode != "DECODE",
        )
    if mode in _EXTENDING:
        return StepLabel(
            phase="prefill",
            prefill_requests=batch,
            prefill_tokens=sums.get("c_sq", tokens),
            decode_requests=0,
            decode_tokens=0,
            prefill_context=sums.get("c_sk"),
            requests=batch,
        )
    known: Phase | None = "mixed" if mode == "MIXED" else None
    return StepLabel(
        phase=known,
        prefill_requests=sums.get("c"),
        prefill_tokens=sums.get("c_sq"),
        decode_requests=sums.get("g"),
        decode_tokens=sums.get("g_sq"),
        prefill_context=sums.get("c_sk"),
        decode_context=sums.get("g_sk"),
        requests=batch,
        tokens=tokens,
    )


def log_step(line: str) -> LogStep | None:
    """A ``Prefill batch`` line (every prefill) or a ``Decode batch`` line (every ``--decode-log-interval`` steps, so
    sampled). Both are comma-separated fields since 0.3.6; the head ends in a full stop until 0.5.2. ``#running-req``
    of a prefill line counts requests outside of the prefill: they wait for it, or (mixed chunk) decode with it."""
    match = _BATCH.search(line) if " batch" in line else None
    if match is None:
        return None
    fields = {key.strip(): value.strip() for key, value in _FIELD.findall(match[2])}
    usage = _number(fields.get("token usage", fields.get("full token usage")))
    waiting = _whole(fields.get("#queue-req"))
    graph = next((value == "True" for key, value in fields.items() if key.endswith(" graph")), None)
    if match[1] == "Prefill":
        requests, tokens = _whole(fields.get("#new-seq")), _whole(fields.get("#new-token"))
        if requests is None or tokens is None:
            return None
        label = StepLabel("prefill", requests, tokens, 0, 0)
        cached = _whole(fields.get("#cached-token"))
        beside = _whole(fields.get("#running-req"))
        return LogStep(label, cached_tokens=cached, waiting=waiting, kv_usage=usage, graph=graph, beside=beside)
    running = _whole(fields.get("#running-req"))
    if running is None:
        return None
    # With speculative decoding a step may bring several tokens a request; "accept len" is an average over steps.
    tokens = None if "accept len" in fields else running
    label = StepLabel("decode", 0, 0, running, tokens, decode_context=_whole(fields.get("#token")))
    return LogStep(label, sampled=True, waiting=waiting, kv_usage=usage, graph=graph)


def log_clock(line: str) -> float | None:
    """Seconds since the epoch, the stamp's local time read as UTC (``[2026-11-30 06:08:33.123 TP0] …``)."""
    match = _CLOCK.search(line, 0, 200)
    return None if match is None else stamp(match.groups()[:6], match[7])


def log_facts(line: str) -> Mapping[str, object]:
    """Settings of the ``server_args=`` line (0.5.23 prints a mapping, older ones ``ServerArgs(...)``) and of the line
    that states the resolved pool, by the names of ``Reading.facts``."""
    match = _ARGUMENTS.search(line)
    if match is not None:
        stated = redact(python_repr.read(line[match.end() :]))
        return _from_arguments(stated) if isinstance(stated, dict) else {}
    if "max_total_num_tokens=" in line:
        return from_fields(KNOBS, dict(_POOL.findall(line)))
    match = _VERSION.search(line) if "version" in line and _CLOCK.match(line) else None
    return {} if match is None else {"engine.version": match[1].rstrip(".,;)'\"")}


def log_readings(line: str) -> Mapping[str, float]:
    """The accepted length of a decode line (the target's own token included), or the time of one garbage collection
    (``SGLANG_LOG_GC``, and warnings of long ones without it)."""
    if "accept len: " in line:
        match = _ACCEPTED.search(line)
        return {} if match is None else {"accepted_length": float(match[1])}
    match = _COLLECTION.search(line) if "Duration: " in line else None
    return {} if match is None else {"gc_seconds": float(match[1])}


def log_event(line: str) -> str | None:
    """What else a line reports: preemption (here: retraction), graph_capture, compile, error."""
    return next((kind for kind, pattern in _EVENTS if pattern.search(line)), None)


def server_info(answer: Mapping[str, object]) -> Mapping[str, object]:
    """Facts of ``/server_info`` or ``/get_server_info``: the arguments after resolution; empty for other answers."""
    if not {"model_path", "tp_size", "mem_fraction_static"} <= answer.keys() and not (
        {"model_path", "tokenizer_path", "tokenizer_mode"} <= answer.keys()
    ):
        return {}
    facts: dict[str, object] = {"engine.name": "sglang"}
    if isinstance(answer.get("version"), str):
        facts["engine.version"] = answer["version"]
    return facts | _from_arguments(answer)


def passes(answer: Mapping[str, object]) -> tuple[str, ...]:
    """Where each data-parallel rank publishes its forward passes; a name that SGLang chose itself is not stated."""
    base, ranks = answer.get("forward_pass_metrics_ipc_name"), count(answer.get("dp_size")) or 1
    if answer.get("enable_forward_pass_metrics") is not True or not isinstance(base, str):
        return ()
    return tuple(f"{base}.{rank}" for rank in range(min(ranks, _MOST_RANKS)))


def loads(answer: object) -> Mapping[str, float]:
    """Gauges of ``/v1/loads`` (0.5.9 and later) or of the list of ``/get_load`` before it, of all data-parallel ranks.

    The older ``num_reqs`` counts waiting requests too. Totals are left out: they skip steps after a pause.
    """
    ranks = answer if isinstance(answer, list) else mapping(answer).get("loads")
    found: dict[str, list[float]] = {}
    for rank in map(mapping, ranks if isinstance(ranks, list) else ()):
        waiting, whole = number(rank.get("num_waiting_reqs")), number(rank.get("num_reqs"))
        running = whole - waiting if whole is not None and waiting is not None else number(rank.get("num_running_reqs"))
        told = {"running_requests": running, "waiting_requests": waiting, "kv_usage": number(rank.get("token_usage"))}
        for concept, value in told.items():
            found.setdefault(concept, []).extend(() if value is None else (value,))
    ratio = {"kv_usage"}
    return {c: sum(v) / (len(v) if c in ratio else 1) for c, v in found.items() if v and "running_requests" in found}


def _from_arguments(arguments: Mapping[str, object]) -> dict[str, object]:
    fields = {key: value for key, value in arguments.items() if not isinstance(value, dict)}
    graphs = arguments.get("cuda_graph_config")
    if isinstance(graphs, dict):
        fields |= {name: value for name, value in leaves(graphs) if "." in name}
    facts = from_fields(KNOBS, fields)
    # A scheduler's own state holds the resolved limit; the argument is None where the engine chose.
    states = arguments.get("internal_states")
    state = states[0] if isinstance(states, list) and states and isinstance(states[0], dict) else {}
    resolved = state.get("effective_max_running_requests_per_dp", state.get("max_running_requests"))
    if isinstance(resolved, int) and not isinstance(resolved, bool) and resolved > 0:
        facts["setting.max_num_seqs"] = resolved
    if fields.get("decode.backend") == "disabled":
        facts["setting.cuda_graph"] = False
    device = arguments.get("device")
    if isinstance(device, str) and device:
        facts["hardware.device"] = "cpu" if device == "cpu" else "gpu"
    if isinstance(arguments.get("model_path"), str):
        facts["model.name"] = arguments["model_path"]
    return facts


def _whole(text: str | None) -> int | None:
    match = re.match(r"\d{1,18}", text or "")
    return None if match is None else int(match[0])


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


# ``/generate``: the text is all of it so far (or what is new, by a server option); the counts come with every event.
NATIVE: Final = Endpoint(
    name="native",
    path="/generate",
    text="text",
    ids="input_ids",
    limit="sampling_params.max_new_tokens",
    least="sampling_params.min_new_tokens",
    ignore_eos="sampling_params.ignore_eos",
    fixed={"stream": True, "sampling_params": {"temperature": 0}},
    output=("text",),
    input_tokens="meta_info.prompt_tokens",
    output_tokens="meta_info.completion_tokens",
    cached_tokens="meta_info.cached_tokens",
    finish="meta_info.finish_reason.type",
    running=True,
)


def identify(ask: Ask) -> Identity | None:
    """By the owner that ``/v1/models`` names, or by the arguments of ``/server_info``; the old name until 0.5.4."""
    models = ask("/v1/models").fields.get("data")
    first = mapping(models[0]) if isinstance(models, list) and models else {}
    if first.get("owned_by") != "sglang" and "\nsglang:" not in ask("/metrics").text:
        return None
    new = ask("/server_info")
    answer = new.fields if server_info(new.fields) else ask("/get_server_info").fields
    return Identity(string(answer.get("version")), string(answer.get("model_path")) or string(first.get("id")))


def trace_body(window: TraceWindow, version: str | None) -> Mapping[str, object]:
    """Stacks are left out: they stall a busy server (and are on by default)."""
    body: dict[str, object] = {"num_steps": window.steps, "activities": ["CPU", "GPU"]}
    body |= {} if window.folder is None else {"output_dir": window.folder}
    if at_least(version, 0, 4, 6):
        body |= {"with_stack": False, "record_shapes": False}
    return body | ({"profile_prefix": window.name} if at_least(version, 0, 5, 6) else {})


def _with_nsys(command: Sequence[str]) -> Sequence[str]:
    options = "-t cuda,nvtx --cuda-graph-trace=node --capture-range=cudaProfilerApi --capture-range-end=stop"
    return ("nsys", "profile", *options.split(), "--trace-fork-before-exec=true", "-o", "nsys/rank", *command)


LIVE: Final = Live(
    identify=identify,
    metrics_needs="start it with --enable-metrics",
    settings=("/server_info", "/get_server_info"),
    loads=("/v1/loads?include=core", "/get_load"),
    steps_logged=lambda facts: facts.get("setting.step_log_interval") == 1,
    steps_need="start it with --decode-log-interval 1",
    passes=passes,
    passes_need=(
        "start it with --enable-forward-pass-metrics --forward-pass-metrics-ipc-name ipc:///tmp/NAME (0.5.12 and later)"
    ),
    processes=(
        ProcessRole("server", r"sglang\.launch_server|\bsglang\S* serve\b"),
        ProcessRole("scheduler and worker", r"sglang::scheduler(?P<rank>(?:_[A-Z_]+\d+)*)", host=True),
        ProcessRole("detokenizer", r"sglang::detokenizer"),
        ProcessRole("tokenizer", r"sglang::tokenizer_worker"),
        ProcessRole("data-parallel controller", r"sglang::data_parallel_controller"),
    ),
    trace=TraceControl(
        body=trace_body,
        stops_itself=lambda version: True,
        chooses_folder=True,
        files="*.trace.json*",
        # Not asked by GET, which would start it; a worker of another front end has metrics there and nothing else.
        available=lambda ask: ask("/v1/models").ok,
        needs=(
            "only SGLang's own HTTP server has it, not a worker of another front end (trace such a one with nsys); "
            "give its --admin-api-key, where it was started with one, as the API key"
        ),
    ),
    restart={"nsys": _with_nsys},
)

ENGINE: Final = Engine(
    name="sglang",
    title="SGLang",
    metric_prefixes=("sglang:", "sglang_"),  # gateways rewrite the colon
    metrics=METRICS,
    metric_labels=METRIC_LABELS,
    info_metrics=("sglang:cache_config_info",),
    # Every rank of a tensor- or pipeline-parallel group tells the same story; data-parallel ranks tell their own.
    repeated_ranks="tp_rank pp_rank moe_ep_rank",
    # Its pages are put together from several processes and do not state when any of them began.
    process_constants=("sglang:startup_time_seconds", "sglang:engine_startup_time", "sglang:engine_load_weights_time"),
    step_label=step_label,
    log_step=log_step,
    log_clock=log_clock,
    log_facts=log_facts,
    log_event=log_event,
    log_readings=log_readings,
    # Ranges of two-batch overlap: half and stage; without the split a stage is "primary0".
    micro_batch=r"^([ab])\d{1,4}$",
    every_step_logged=False,
    trace_file=r"-TP-\d+(?:-(?:DP|PP|EP)-\d+)*(?:-(?:EXTEND|DECODE|prefill|decode))?\.trace\.json",
    host_phases=HOST_PHASES,
    step_frame=r"sglang/srt/managers/tp_worker\.py\(\d+\): forward_batch_generation$",
    knobs=KNOBS,
    defaults={"overlap": True},
    server_info=server_info,
    loads=loads,
    owner="sglang",
    endpoints=(*endpoints(ignore_eos="ignore_eos", least="min_tokens", running=True), NATIVE),
    live=LIVE,
)
