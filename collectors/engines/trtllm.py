"""TensorRT-LLM (trtllm-serve), 1.0 to 1.3: metric names, iteration log, JSON iteration statistics, knobs.

Read off tensorrt_llm/_torch/pyexecutor/py_executor.py, metrics/collector.py and llmapi/llm_args.py. A step's wall time
is that of one loop of the executor (``host_step_time``). The device's time is known one loop later and printed with
the next iteration, so it belongs to the line before. ``iterLatencyMS`` spans about two loops under the overlap
scheduler and is no step time; it is used only where the record says that loops do not overlap.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from profiler.collectors.clock import stamp
from profiler.collectors.json_text import count, mapping, number, string
from profiler.collectors.knob_table import knobs
from profiler.collectors.knob_values import from_fields, leaves
from profiler.collectors.openai_api import endpoints
from profiler.collectors.redaction import redact_text
from profiler.collectors.step_annotations import phase
from profiler.model.extension import Engine, LogStep, StepRecord
from profiler.model.live import Ask, Identity, Live, ProcessRole, TraceControl, TraceWindow
from profiler.model.steps import StepLabel
from profiler.model.trace import GARBAGE

METRICS: Final = {
    "trtllm_num_requests_running": "running_requests",
    "trtllm_num_requests_waiting": "waiting_requests",
    "trtllm_kv_cache_utilization": "kv_usage",
    "trtllm_kv_cache_usage_perc": "kv_usage",  # as Dynamo's worker spells it
    "trtllm_prompt_tokens": "prompt_tokens",
    "trtllm_prompt_cached_tokens": "cached_tokens",
    "trtllm_generation_tokens": "generation_tokens",
    "trtllm_request_success": "requests",
    "trtllm_num_preemptions": "preemptions",
    "trtllm_spec_decode_acceptance_length": "accepted_length",
    "trtllm_spec_decode_num_draft_tokens": "draft_tokens",
    "trtllm_spec_decode_num_accepted_tokens": "accepted_tokens",
    "trtllm_request_queue_time_seconds": "queue_seconds",
    "trtllm_request_prefill_time_seconds": "prefill_seconds",
    "trtllm_request_decode_time_seconds": "decode_seconds",
    "trtllm_time_to_first_token_seconds": "ttft_seconds",
    "trtllm_inter_token_latency_seconds": "itl_seconds",
    "trtllm_e2e_request_latency_seconds": "e2e_seconds",
}

KNOBS: Final = knobs("trtllm")

# Ranges of NVTX; that of the garbage collector needs TLLM_PROFILE_RECORD_GC.
HOST_PHASES: Final = {"_prepare_tp_inputs": "prepare_inputs", "Python GC": GARBAGE}

_PAIR: Final = re.compile(r"(\w+)(?: = |: )(\{[^}]{0,400}\}|[^,]{1,80})")
_STATE: Final = re.compile(r"'(\w{1,40})': (\d{1,18})")
_LOOP: Final = re.compile(r"\biter = \d{1,18}, ")
_STAMP: Final = re.compile(r"\[(\d\d)/(\d\d)/(\d{4})-(\d\d):(\d\d):(\d\d)\] \[TRT-LLM\]")
_LINE_STAMP: Final = re.compile(r"\btimestamp = (\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)")
_VERSION: Final = re.compile(r"TensorRT-LLM(?: LLM)?[ _]version:? v?(\d+\.\d+\S*)", re.I)
_EVENTS: Final = (
    ("graph_capture", re.compile(r"\[TRT-LLM\].*(?:Capturing CUDA graph|CUDA graph (?:warmup|capture))", re.I)),
    ("compile", re.compile(r"\[TRT-LLM\].*(?:Autotun|torch\.compile)", re.I)),
    ("error", re.compile(r"\[TRT-LLM\] (?:\[RANK \d+\] )?\[E\]|^Traceback \(most recent call last\)")),
)


def step_label(name: str) -> StepLabel | None:
    """The range of one forward step as it stands in NVTX; its iteration number came with 0.19, context tokens later."""
    match = re.fullmatch(
        r"\[Executor\] _forward_step(?: \d{1,18})?: (\d{1,9}) ctx reqs(?:, (\d{1,12}) ctx tokens)?, "
        r"(\d{1,9}) gen reqs",
        name,
    )
    if match is None:
        return None
    prefill, decode = int(match[1]), int(match[3])
    tokens = None if match[2] is None else int(match[2])
    return StepLabel(phase(prefill, decode), prefill, tokens if prefill else 0, decode)


def log_step(line: str) -> LogStep | None:
    """A line of ``print_iter_log``, in any of its grammars. Only rank 0 is read: the ranks of a group run one batch."""
    match = _LOOP.search(line) if "host_step_time" in line else None
    if match is None:
        return None
    fields = {key: value.strip() for key, value in _PAIR.findall(line[match.start() :])}
    if fields.get("global_rank", "0") != "0":
        return None
    states = {key: int(value) for key, value in _STATE.findall(fields.get("states", ""))}
    scheduled, prefill = count(fields.get("num_scheduled_requests")), states.get("num_ctx_requests")
    if scheduled is None or prefill is None:
        return None
    decode = max(scheduled - prefill, 0)
    return LogStep(
        label=StepLabel(
            phase(prefill, decode) if scheduled else "idle",
            prefill,
            states.get("num_ctx_tokens"),
            decode,
            states.get("num_generation_tokens"),
        ),
        seconds=_milliseconds(fields.get("host_step_time")),
        cached_tokens=states.get("cached_kv_tokens"),
        kv_usage=number(fields.get("kv_cache_util")),
        previous_device_seconds=_milliseconds(fields.get("prev_device_step_time")),
    )


def log_clock(line: str) -> float | None:
    """Seconds since the epoch, the stamp's local time read as UTC (``[11/30/2026-06:08:33] [TRT-LLM] [I] …``)."""
    match = _STAMP.search(line, 0, 200)
    if match is not None:
        month, day, year, *time = match.groups()
        return stamp((year, month, day, *time))
    match = _LINE_STAMP.search(line) if "host_step_time" in line else None
    return None if match is None else stamp(match.groups())


def log_facts(line: str) -> Mapping[str, object]:
    """The version that the start-up line states."""
    match = _VERSION.search(line) if "ersion" in line else None
    return {} if match is None else {"engine.version": redact_text(match[1]).rstrip(".,;)'\"")}


def log_event(line: str) -> str | None:
    """What else a line reports: graph_capture, compile (the autotuner too), error."""
    return next((kind for kind, pattern in _EVENTS if pattern.search(line)), None)


def step_record(record: Mapping[str, object]) -> StepRecord | None:
    """One iteration of the JSON ``/metrics``; only rank 0 of an attention-parallel group is read."""
    batch, cache = mapping(record.get("inflightBatchingStats")), mapping(record.get("kvCacheStats"))
    prefill, decode = count(batch.get("numContextRequests")), count(batch.get("numGenRequests"))
    if "iterLatencyMS" not in record or prefill is None or decode is None or count(record.get("attentionDpRank")):
        return None
    used, blocks = number(cache.get("usedNumBlocks")), number(cache.get("maxNumBlocks"))
    loop, latency = number(record.get("hostStepTimeMS")), number(record.get("iterLatencyMS"))
    if loop is None and record.get("schedulerMode") == "non_overlap":
        loop = latency
    device, previous = number(record.get("gpuForwardTimeMS")), number(record.get("prevDeviceStepTimeMS"))
    step = LogStep(
        label=StepLabel(
            phase(prefill, decode) if prefill or decode else "idle",
            prefill,
            count(batch.get("numCtxTokens")),
            decode,
            decode if not record.get("specDecodingStats") else None,
        ),
        seconds=None if loop is None else loop / 1e3,
        waiting=count(record.get("numQueuedRequests")),
        kv_usage=used / blocks if used is not None and blocks else None,
        device_seconds=None if device is None else device / 1e3,
        previous_device_seconds=None if previous is None or device is not None else previous / 1e3,
    )
    return StepRecord(step, _record_clock(record.get("timestamp")), count(record.get("iter")))


# Keys of its YAML that no other program's file has; one alone may be a coincidence.
_OWN_KEYS: Final = frozenset(
    {
        "kv_cache_config", "cuda_graph_config", "use_cuda_graph", "scheduler_config", "torch_compile_config",
        "disable_overlap_scheduler", "enable_overlap_scheduler", "enable_iter_perf_stats", "print_iter_log",
        "attn_backend", "moe_config", "enable_attention_dp", "attention_dp_config", "moe_expert_parallel_size",
        "enable_chunked_prefill", "batch_wait_timeout_ms", "pytorch_backend_config", "enable_autotuner",
        "cuda_graph_batch_sizes", "cuda_graph_padding_enabled", "speculative_config", "return_perf_metrics",
    }
)  # fmt: skip
# Names within a group that mean something else outside of it.
_OF_A_GROUP: Final = frozenset({"dtype", "backend", "max_batch_size", "max_tokens", "batch_sizes", "enable_padding"})


def config(answer: Mapping[str, object]) -> Mapping[str, object]:
    """Facts of the YAML of ``--config`` (``--extra_llm_api_options``); empty for other files."""
    older = mapping(answer.get("pytorch_backend_config"))  # where most of it stood until 0.20
    if len(_OWN_KEYS & (answer.keys() | older.keys())) < 2:
        return {}
    whole = {key: value for key, value in {**older, **answer}.items() if key != "pytorch_backend_config"}
    fields = {name: value for name, value in leaves(whole) if name not in _OF_A_GROUP or name in whole}
    fields |= {name: value for name, value in whole.items() if not isinstance(value, dict)}
    if "cuda_graph_config" in whole:
        fields["use_cuda_graph"] = whole["cuda_graph_config"] is not None
    if isinstance(older.get("enable_overlap_scheduler"), bool):
        fields.setdefault("disable_overlap_scheduler", not older["enable_overlap_scheduler"])
    return {"engine.name": "trtllm"} | from_fields(KNOBS, fields)


def _record_clock(stamp: object) -> float:
    for form in ("%m-%d-%Y %H:%M:%S.%f", "%m-%d-%Y %H:%M:%S"):
        try:
            return datetime.strptime(str(stamp), form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    return float("nan")


def _milliseconds(text: str | None) -> float | None:
    """``5.1ms`` in seconds; None for ``N/A``."""
    value = None if text is None or not text.endswith("ms") else number(text[:-2])
    return None if value is None else value / 1e3


def identify(ask: Ask) -> Identity | None:
    """Its ``/metrics`` is a JSON list beside a ``/version``; no other engine's is."""
    version = string(ask("/version").fields.get("version"))
    if version is None:
        return None
    told = ask("/metrics")
    if not (told.ok and isinstance(told.document, list)) and "\ntrtllm_" not in ask("/prometheus/metrics").text:
        return None
    models = ask("/v1/models").fields.get("data")
    first = mapping(models[0]) if isinstance(models, list) and models else {}
    return Identity(version, string(first.get("id")))


def trace_body(window: TraceWindow, version: str | None) -> Mapping[str, object]:
    """Versions that have the address take all of it; output_dir is the server's choice where none is given."""
    body: dict[str, object] = {"num_steps": window.steps, "activities": ["CPU", "GPU"]}
    return body | ({} if window.folder is None else {"output_dir": window.folder})


def _with_nsys(command: Sequence[str]) -> Sequence[str]:
    options = "-t cuda,nvtx -c cudaProfilerApi --cuda-graph-trace=node --trace-fork-before-exec=true"
    return ("env", "TLLM_PROFILE_START_STOP=100-150", "nsys", "profile", *options.split(), "-o", "nsys/rank", *command)


LIVE: Final = Live(
    identify=identify,
    metrics="/prometheus/metrics",
    metrics_needs="set return_perf_metrics: true in the YAML of --config",
    settings_need="it has no address for its settings: keep the command and the YAML beside the run",
    records="/metrics",
    records_need="set enable_iter_perf_stats: true in the YAML of --config",
    steps_need="set print_iter_log: true in the YAML of --config",
    notes=(
        "its JSON /metrics is emptied whenever it is read: what is recorded here is missing for any other reader, and "
        "what another reader took is missing here",
    ),
    processes=(
        ProcessRole("server", r"trtllm-serve|trtllm-llmapi-launch"),
        ProcessRole("worker", r"mpi4py\.futures\.server", host=True),
    ),
    trace=TraceControl(
        body=trace_body,
        stops_itself=lambda version: True,
        chooses_folder=True,
        files="trtllm-trace-*.json*",
        needs=(
            "this version has no address for it: restart it on every rank with TLLM_PROFILE_START_STOP=100-150 and "
            "TLLM_TORCH_PROFILE_TRACE=/abs/trace.json in the environment"
        ),
    ),
    restart={"nsys": _with_nsys},
)

ENGINE: Final = Engine(
    name="trtllm",
    title="TensorRT-LLM",
    metric_prefixes=("trtllm_", "trtllm:"),
    metrics=METRICS,
    step_label=step_label,
    log_step=log_step,
    log_clock=log_clock,
    log_facts=log_facts,
    log_event=log_event,
    host_phases=HOST_PHASES,
    every_step_logged=True,
    knobs=KNOBS,
    # llmapi/llm_args.py: what holds where neither the command nor the configuration file says otherwise.
    defaults={
        "overlap": True,
        "cuda_graph_padding": False,
        "chunked_prefill": False,
        "max_num_seqs": 2048,
        "token_budget": 8192,
    },
    step_record=step_record,
    config=config,
    owner="tensorrt_llm",
    endpoints=endpoints(ignore_eos="ignore_eos", least="min_tokens", running=True),
    live=LIVE,
)
