"""Result files of ``vllm bench serve`` and its ancestor benchmark_serving.py, versions 0.6 to 0.33, and of the offline
throughput and latency benchmarks. TensorRT-LLM's serving client is a fork that writes the same files.

Read off vLLM's benchmarks/serve.py and off files in the corpus: the summary is in milliseconds, the arrays in seconds;
``backend`` names the protocol of the client and never the engine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors.bounded_text import whole_text
from profiler.collectors.json_text import count, leading_pairs, mapping, number, numbers, objects, parse, string
from profiler.collectors.load.request_columns import request_table
from profiler.collectors.load.summary_keys import metadata, summary
from profiler.collectors.redaction import redact_text
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.requests import BenchResult
from profiler.model.run import Reading

TOOL: Final = "vllm bench serve"
READ: Final = frozenset(
    {
        "date",
        "endpoint_type",
        "backend",
        "model_id",
        "request_rate",
        "max_concurrency",
        "duration",
        "completed",
        "failed",
        "total_input_tokens",
        "total_output_tokens",
    }
)
OFFLINE: Final = ("elapsed_time", "num_requests", "total_num_tokens", "tokens_per_second")
LATENCY: Final = ("avg_latency", "latencies", "percentiles")
_SERVE: Final = re.compile(rb'"(?:model_id|tokenizer_id|num_prompts)"\s*:')
_TOTALS: Final = re.compile(rb'"(?:total_input_tokens|total_input)"\s*:')


class VllmBench:
    """See ``profiler.model.extension.Format``."""

    name = "vllm_bench"
    version = 2

    def sniff(self, head: bytes, name: str) -> float:
        """By the keys that only this tool writes together; they stand before the long arrays."""
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
            return 0.0
        if _TOTALS.search(head) and len(set(_SERVE.findall(head))) >= 2 and b'"duration"' in head:
            return 0.93
        offline = all(b'"%s"' % key.encode() in head for key in OFFLINE)
        latency = all(b'"%s"' % key.encode() in head for key in LATENCY)
        return 0.9 if offline or latency else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One result for each object of the file; a cut file gives what stands before the cut."""
        text = whole_text(source)
        benches: list[BenchResult] = []
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", source.broken))
        facts: dict[str, Fact[object]] = {}
        records = list(objects(text)) if parse(text) is not None or "\n{" in text.strip() else []
        if not any(record for _, record in records):
            pairs = leading_pairs(text)
            records = [(1, pairs)] if pairs else []
            last = f"after key {list(pairs)[-1]!r}" if pairs else None
            problems.append(Problem(source.name, "error", "the JSON breaks off; what stands before it was read", last))
        strange: list[str] = []
        for line, record in records:
            place = f"line {line}"
            if record is None:
                strange.append(place)
                continue
            result, found = _result(record, source.name, place)
            problems += found
            if result is None:
                problems.append(Problem(source.name, "error", "no duration and token totals, left out", place))
                continue
            benches.append(result)
            if result.model is not None:
                facts["model.name"] = Fact(result.model, f"{source.name}: model_id")
        if strange:
            detail = "a line is no JSON object and was left out"
            problems.append(Problem(source.name, "error", detail, strange[0], len(strange)))
        if not benches:
            raise BadInput(source.name, "no benchmark result found", "Save the file again with --save-result")
        return Reading(benches=tuple(benches), facts=facts, problems=tuple(problems))


def _result(record: Mapping[str, object], path: str, place: str) -> tuple[BenchResult | None, list[Problem]]:
    if all(key in record for key in ("elapsed_time", "num_requests")):
        return _offline(record, path, place)
    if all(key in record for key in ("avg_latency", "latencies")):
        return _latency(record, path, place)
    duration, completed = number(record.get("duration")), count(record.get("completed"))
    if duration is None or completed is None:
        return None, []
    table, problems = request_table(record, path, place)
    failed = count(record.get("failed"))
    if failed is None and table is not None:
        failed = int((~table.ok).sum())
    elif failed is None:
        asked = count(record.get("num_prompts"))
        failed = 0 if asked is None else max(asked - completed, 0)
    if failed:
        problems.append(Problem(path, "warning", f"{failed} of {failed + completed} requests failed", place))
    if table is not None and int(table.ok.sum()) != completed:
        detail = f"the summary counts {completed} completed requests, the arrays hold {int(table.ok.sum())}"
        problems.append(Problem(path, "warning", detail, place))
    model, protocol = string(record.get("model_id")), string(record.get("backend", record.get("endpoint_type")))
    return (
        BenchResult(
            path=path,
            tool=TOOL,
            duration=duration,
            completed=completed,
            failed=failed,
            total_input_tokens=count(record.get("total_input_tokens")) or 0,
            total_output_tokens=count(record.get("total_output_tokens", record.get("total_output"))) or 0,
            request_rate=number(record.get("request_rate")),
            max_concurrency=count(record.get("max_concurrency")),
            model=None if model is None else redact_text(model),
            ended=string(record.get("date")),
            client_protocol=None if protocol is None else redact_text(protocol),
            requests=table,
            summary=summary(record),
            metadata=metadata(record, READ),
        ),
        problems,
    )


def _offline(record: Mapping[str, object], path: str, place: str) -> tuple[BenchResult | None, list[Problem]]:
    """Offline throughput: the file knows input and output tokens only together, unless a wrapper added the lengths."""
    duration, requests = number(record.get("elapsed_time")), count(record.get("num_requests"))
    if duration is None or requests is None:
        return None, []
    sizes = count(record.get("input")), count(record.get("output", record.get("ouput")))  # (sic) in one wrapper's files
    found: dict[str, float] = {}
    for key, name in (("requests_per_second", "request_throughput"), ("tokens_per_second", "total_token_throughput")):
        rate = number(record.get(key))
        if rate is not None:
            found[name] = rate
    problems = [
        Problem(path, "info", "an offline benchmark: tokens_per_second counts input and output tokens together", place)
    ]
    if sizes[1] is not None and duration > 0:
        found["output_throughput"] = sizes[1] * requests / duration
    else:
        problems.append(
            Problem(path, "warning", "output tokens are not told apart, so output throughput is unknown", place)
        )
    result = BenchResult(
        path=path,
        tool="vllm bench throughput",
        duration=duration,
        completed=requests,
        failed=0,
        total_input_tokens=(sizes[0] or 0) * requests,
        total_output_tokens=(sizes[1] or 0) * requests,
        summary=found,
        metadata=metadata(record, frozenset(OFFLINE)),
    )
    return result, problems


def _latency(record: Mapping[str, object], path: str, place: str) -> tuple[BenchResult | None, list[Problem]]:
    """Offline latency: each value is the time of a whole batch, not of one request."""
    raw = record.get("latencies")
    times = numbers(raw) if isinstance(raw, list) else []
    average = number(record.get("avg_latency"))
    if average is None or not times:
        return None, []
    found = {"mean_e2e": average}
    for percent, value in mapping(record.get("percentiles")).items():
        seconds = number(value)
        if seconds is not None and re.fullmatch(r"\d{1,2}(?:\.\d+)?", percent):
            found["median_e2e" if percent == "50" else f"p{percent}_e2e"] = seconds
    detail = "an offline benchmark: each latency is that of a whole batch, and the file has no token counts"
    result = BenchResult(
        path=path,
        tool="vllm bench latency",
        duration=sum(times),
        completed=len(times),
        failed=0,
        total_input_tokens=0,
        total_output_tokens=0,
        summary=found,
        metadata=metadata(record, frozenset(LATENCY)),
    )
    return result, [Problem(path, "info", detail, place)]


FORMAT: Final = VllmBench()
