"""trtllm-bench: ``--report_json`` and ``--request_json``.

Read off tensorrt_llm/bench/dataclasses/reporting.py. The report is in milliseconds; its TPOT counts requests of one
token as 0 and its percentiles are taken by index without interpolation, so both keep their own names; TTFT means the
same and its mean keeps ours. Request records are in ns of one clock. The output throughput counts the first token.
Requests are issued as fast as its concurrency allows; ``issue_rate`` is the measured gap between them, in another unit
than it says, and is not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors.json_text import count, mapping, number, string
from profiler.collectors.load.document import list_of, object_of
from profiler.collectors.load.request_rows import Row, failures, nanoseconds, result_of
from profiler.collectors.load.same_load import load_mark
from profiler.collectors.load.unit_metrics import distribution
from profiler.collectors.redaction import redact_text
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.requests import BenchResult
from profiler.model.run import Reading

TOOL: Final = "trtllm-bench"
ENGINE: Final = "trtllm"
_KNOBS: Final = {
    "tp_size": "tensor_parallel",
    "pp_size": "pipeline_parallel",
    "ep_size": "expert_parallel",
    "max_batch_size": "max_num_seqs",
    "max_num_tokens": "token_budget",
    "scheduling_policy": "admission_caution",
    "kv_cache_percentage": "memory_fraction",
}
_REPORT: Final = (b'"world_info"', b'"performance"', b'"request_info"')
_REQUESTS: Final = re.compile(
    rb'\A\s*\[\s*\{(?=[\s\S]*"start_timestamp"\s*:)(?=[\s\S]*"first_token_timestamp"\s*:)(?=[\s\S]*"end_timestamp"\s*:)'
)


class TrtllmBench:
    """See ``profiler.model.extension.Format``."""

    name = "trtllm_bench"
    version = 2

    def sniff(self, head: bytes, name: str) -> float:
        """By the sections of the report, or by the three time stamps of a request record."""
        if _REQUESTS.search(head):
            return 0.92
        report = head.lstrip()[:1] == b"{" and sum(key in head for key in _REPORT) >= 2 and b'"engine"' in head
        return 0.91 if report else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """A report's summary, or a table of requests; of one run the two are merged."""
        return _requests(source) if source.head(4096).lstrip()[:1] == b"[" else _report(source)


def _report(source: Source) -> Reading:
    record, problems = object_of(source)
    performance, asked = mapping(record.get("performance")), mapping(record.get("request_info"))
    milliseconds, requests = number(performance.get("total_latency_ms")), count(asked.get("num_requests"))
    if milliseconds is None or requests is None:
        raise BadInput(source.name, "no total latency and count of requests", "Write the report with --report_json")
    streaming = mapping(record.get("streaming_metrics"))
    summary: dict[str, float] = {}
    for holder, key, name in (
        (performance, "avg_request_latency_ms", "mean_e2e"),
        (streaming, "avg_ttft_ms", "mean_ttft"),
        (streaming, "avg_tpot_ms", "trtllm_bench.tpot.mean"),
    ):
        value = number(holder.get(key))
        if value is not None:
            summary[name] = value / 1e3
    for holder, key, name in (
        (performance, "request_latency_percentiles_ms", "trtllm_bench.e2e"),
        (streaming, "ttft_percentiles", "trtllm_bench.ttft"),
        (streaming, "tpot_percentiles", "trtllm_bench.tpot"),
    ):
        summary |= distribution(mapping(holder.get(key)), name, 1e3)
    accepted = mapping(mapping(record.get("decoding_stats")).get("acceptance_length_percentiles"))
    summary |= distribution(accepted, "trtllm_bench.acceptance_length", 1.0)
    for key, name in (
        ("request_throughput_req_s", "request_throughput"),
        ("system_output_throughput_tok_s", "output_throughput"),
        ("system_total_throughput_tok_s", "total_token_throughput"),
        ("output_throughput_per_user_tok_s", "trtllm_bench.output_throughput_per_user"),
        ("output_throughput_per_gpu_tok_s", "trtllm_bench.output_throughput_per_gpu"),
    ):
        value = number(performance.get(key))
        if value is not None:
            summary[name] = value
    facts = _facts(record, source.name)
    model = facts.get("model.name")
    result = BenchResult(
        path=source.name,
        tool=TOOL,
        duration=milliseconds / 1e3,
        completed=requests,
        failed=0,
        total_input_tokens=_sum(asked, "avg_input_length", requests),
        total_output_tokens=_sum(asked, "avg_output_length", requests),
        request_rate=float("inf"),
        model=None if model is None else str(model.value),
        summary=summary,
        metadata=load_mark(TOOL, source.name),
    )
    return Reading(benches=(result,), facts=facts, problems=tuple(problems))


def _facts(record: Mapping[str, object], path: str) -> dict[str, Fact[object]]:
    engine, world = mapping(record.get("engine")), mapping(record.get("world_info"))
    machine = mapping(record.get("machine"))
    facts: dict[str, Fact[object]] = {"engine.name": Fact(ENGINE, f"{path}: the tool drives this engine only")}
    for holder, place, key, fact in (
        (engine, "engine", "version", "engine.version"),
        (engine, "engine", "model", "model.name"),
        (engine, "engine", "dtype", "setting.dtype"),
        (engine, "engine", "kv_cache_dtype", "setting.kv_dtype"),
        (engine, "engine", "quantization", "setting.quantization"),
        (machine, "machine", "name", "hardware.gpu"),
    ):
        value = string(holder.get(key))
        if value is not None:
            facts[fact] = Fact(redact_text(value), f"{path}: {place}.{key}", inferred=False)
    for key, knob in _KNOBS.items():
        stated = world.get(key)
        if isinstance(stated, int | float) and not isinstance(stated, bool):
            facts[f"setting.{knob}"] = Fact(stated, f"{path}: world_info.{key}", inferred=False)
        elif isinstance(stated, str) and stated:
            facts[f"setting.{knob}"] = Fact(redact_text(stated), f"{path}: world_info.{key}", inferred=False)
    if count(world.get("world_size")):
        facts["hardware.count"] = Fact(count(world.get("world_size")), f"{path}: world_info.world_size", inferred=False)
    return facts


def _requests(source: Source) -> Reading:
    items, problems = list_of(source)
    rows = [row for row in map(_row, items) if row is not None]
    if len(rows) < len(items):
        detail = "a request has no start and was left out"
        problems.append(Problem(source.name, "warning", detail, count=len(items) - len(rows)))
    if not rows:
        raise BadInput(source.name, "no request record found", "Write the records with --request_json")
    result = result_of(TOOL, source.name, rows, load_mark(TOOL, source.name))
    return Reading(benches=(result,), problems=(*problems, *failures(source.name, rows)))


def _row(item: Mapping[str, object]) -> Row | None:
    start, first = nanoseconds(item.get("start_timestamp")), nanoseconds(item.get("first_token_timestamp"))
    end, tokens = nanoseconds(item.get("end_timestamp")), item.get("tokens")
    if start is None or start < 0:
        return None
    made = count(item.get("num_output_tokens", item.get("output_tokens", item.get("num_generated_tokens"))))
    ok = end is not None and end >= start and not item.get("error")
    e2e = (end - start) / 1e9 if ok and end is not None else None
    return Row(
        start=start / 1e9,
        ttft=(first - start) / 1e9 if first is not None and first >= start else e2e,
        e2e=e2e,
        input_tokens=count(item.get("num_input_tokens")),
        output_tokens=len(tokens) if made is None and isinstance(tokens, list) else made,
        ok=ok,
    )


def _sum(asked: Mapping[str, object], key: str, requests: int) -> int:
    mean = number(asked.get(key))
    return 0 if mean is None or not abs(mean) < 2**40 or not abs(requests) < 2**40 else round(mean * requests)


FORMAT: Final = TrtllmBench()
