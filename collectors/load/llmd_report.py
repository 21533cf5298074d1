"""llm-d's benchmark report, versions 0.1, 0.2 and 0.2.1, JSON or YAML. Every value states its unit.

Read off the project's JSON schemas and examples. 0.1 keeps the numbers in ``metrics`` and the engine in
``scenario.platform``; 0.2 keeps them in ``results.request_performance.aggregate`` and the engines in
``scenario.stack``. The report repeats what the tool in ``scenario.load`` measured, by that tool's definitions:
only TTFT and request latency mean the same everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors.json_text import count, mapping, number, string
from profiler.collectors.load.document import written_object_of
from profiler.collectors.load.unit_metrics import distribution, per_unit
from profiler.collectors.redaction import redact_text
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.requests import BenchResult
from profiler.model.run import Reading

_OURS: Final = {"time_to_first_token": "ttft", "request_latency": "e2e"}
_THEIRS: Final = ("time_per_output_token", "normalized_time_per_output_token", "inter_token_latency")
_RATES: Final = {
    "request_rate": "request_throughput",
    "requests_per_sec": "request_throughput",
    "output_token_rate": "output_throughput",
    "output_tokens_per_sec": "output_throughput",
    "input_token_rate": "input_throughput",
    "input_tokens_per_sec": "input_throughput",
    "total_token_rate": "total_token_throughput",
    "total_tokens_per_sec": "total_token_throughput",
}
_VERSION: Final = re.compile(rb'\A\s*\{(?=[\s\S]*"version"\s*:\s*"0\.\d)(?=[\s\S]*"scenario"\s*:)')
_YAML: Final = re.compile(
    rb"(?m)^(?:version: ['\"]?0\.\d|results:(?: *#[^\n]*)?\n  (?:component_health|observability|request_performance):)"
)
_SPAN: Final = re.compile(
    r"P(?:(\d{1,6})D)?T?(?:(\d{1,9}(?:\.\d+)?)H)?(?:(\d{1,9}(?:\.\d+)?)M)?(?:(\d{1,9}(?:\.\d+)?)S)?"
)


class LlmdReport:
    """See ``profiler.model.extension.Format``."""

    name = "llmd_report"
    version = 2

    def sniff(self, head: bytes, name: str) -> float:
        """By the version of the report, its scenario and its numbers."""
        if not head.lstrip().startswith((b"{", b"[")):
            return 0.91 if _YAML.search(head) else 0.0
        numbers = b'"request_performance"' in head or b'"metrics"' in head or b'"results"' in head
        return 0.91 if _VERSION.search(head) and numbers else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One result, named after the tool that measured it."""
        record, problems = written_object_of(source)
        numbers = mapping(mapping(mapping(record.get("results")).get("request_performance")).get("aggregate"))
        numbers = numbers or mapping(record.get("metrics"))
        requests, latency = mapping(numbers.get("requests")), mapping(numbers.get("latency"))
        total = count(requests.get("total"))
        if total is None:
            raise BadInput(source.name, "no count of requests", "Take the report as the tool wrote it")
        failed = (count(requests.get("failures")) or 0) + (count(requests.get("incomplete")) or 0)
        summary, rates = _summary(latency, mapping(numbers.get("throughput")))
        tool, load = _tool(record)
        duration = _duration(record, numbers)
        completed = max(total - failed, 0)
        if duration is None:
            rate = rates.get("request_throughput")
            duration = completed / rate if rate else float("nan")
        if failed:
            problems.append(Problem(source.name, "warning", f"{failed} of {total} requests failed or did not end"))
        concurrency = load.get("concurrency")
        facts = _facts(record, source.name)
        model = facts.get("model.name")
        version = string(record.get("version")) or ""
        result = BenchResult(
            path=source.name,
            tool=tool,
            duration=duration,
            completed=completed,
            failed=failed,
            total_input_tokens=_sum(requests, "input_length", completed),
            total_output_tokens=_sum(requests, "output_length", completed),
            request_rate=number(load.get("rate_qps")),
            max_concurrency=None if number(concurrency) == float("inf") else count(concurrency),
            model=None if model is None else str(model.value),
            summary=summary | rates,
            metadata={"report": f"llm-d benchmark report {redact_text(version)}"[:60]},
        )
        return Reading(benches=(result,), facts=facts, problems=tuple(problems))


def _summary(
    latency: Mapping[str, object], throughput: Mapping[str, object]
) -> tuple[dict[str, float], dict[str, float]]:
    found: dict[str, float] = {}
    for key, name in (*_OURS.items(), *((key, f"llmd_report.{key}") for key in _THEIRS)):
        values = mapping(latency.get(key))
        scale = per_unit(values.get("units"))
        if scale is not None:
            found |= distribution(values, name, scale)
    rates: dict[str, float] = {}
    for key, name in _RATES.items():
        raw = throughput.get(key)
        value = number(mapping(raw).get("mean", raw))
        if value is not None:
            rates[name] = value
    return found, rates


def _tool(record: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
    load = mapping(mapping(record.get("scenario")).get("load"))
    standard = mapping(load.get("standardized"))
    name = string(standard.get("tool")) or string(load.get("name")) or "a tool that the report does not name"
    return redact_text(name)[:80], standard or mapping(load.get("args"))


def _duration(record: Mapping[str, object], numbers: Mapping[str, object]) -> float | None:
    """Seconds: a number in 0.1, an ISO 8601 duration in 0.2."""
    clock = mapping(numbers.get("time")) or mapping(mapping(record.get("run")).get("time"))
    stated = clock.get("duration")
    seconds = number(stated)
    if seconds is not None:
        return seconds
    match = _SPAN.fullmatch(stated) if isinstance(stated, str) else None
    if match is None or not any(match.groups()):
        return None
    parts = [float(part or 0) for part in match.groups()]
    return parts[0] * 86400 + parts[1] * 3600 + parts[2] * 60 + parts[3]


def _facts(record: Mapping[str, object], path: str) -> dict[str, Fact[object]]:
    """Model, engine and devices, as the operator's report states them; several components are not told apart."""
    scenario = mapping(record.get("scenario"))
    facts: dict[str, Fact[object]] = {}
    stack = scenario.get("stack")
    parts = [mapping(mapping(item).get("standardized")) for item in stack] if isinstance(stack, list) else []
    served = next((part for part in parts if part.get("kind") == "inference_engine"), {})
    model = string(mapping(scenario.get("model")).get("name")) or string(mapping(served.get("model")).get("name"))
    gpu = string(mapping(served.get("accelerator")).get("model"))
    if model is not None:
        facts["model.name"] = Fact(redact_text(model), f"{path}: scenario", inferred=False)
    if gpu is not None:
        facts["hardware.gpu"] = Fact(redact_text(gpu), f"{path}: scenario", inferred=False)
    return facts


def _sum(requests: Mapping[str, object], key: str, completed: int) -> int:
    mean = number(mapping(requests.get(key)).get("mean"))
    return 0 if mean is None or not abs(mean) < 2**40 or completed >= 2**40 else round(mean * completed)


FORMAT: Final = LlmdReport()
