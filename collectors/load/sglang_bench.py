"""Result files of SGLang's bench_serving, versions 0.3.6 to 0.5.23: one JSON line a run, appended to the same file.

Read off sglang/bench_serving.py: the summary is in milliseconds, arrays (``--output-details``) in seconds, rates may
be a bare Infinity, and ``server_info`` (0.5.23) holds the engine's own arguments. The native endpoint divides the gap
before a chunk of several tokens by their number, the OpenAI one does not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors.bounded_text import whole_text
from profiler.collectors.json_text import count, leading_pairs, mapping, number, objects, string
from profiler.collectors.load.request_columns import request_table
from profiler.collectors.load.summary_keys import metadata, summary
from profiler.collectors.redaction import redact, redact_text
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.requests import BenchResult
from profiler.model.run import Reading

TOOL: Final = "sglang bench_serving"
READ: Final = frozenset(
    {
        "backend",
        "request_rate",
        "max_concurrency",
        "duration",
        "completed",
        "total_input_tokens",
        "total_output_tokens",
        "server_info",
    }
)
_OWN: Final = re.compile(
    rb'"(?:random_range_ratio|sharegpt_output_len|total_output_tokens_retokenized|total_throughput'
    rb"|output_throughput_retokenized|median_e2e_latency_ms|random_output_len)\"\s*:"
)


class SglangBench:
    """See ``profiler.model.extension.Format``."""

    name = "sglang_bench"
    version = 2

    def sniff(self, head: bytes, name: str) -> float:
        """By the keys that only this tool writes together, all of them before the arrays."""
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{" or b'"duration"' not in head or b'"backend"' not in head:
            return 0.0
        return 0.94 if len(set(_OWN.findall(head))) >= 2 and b'"output_throughput"' in head else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One result for each line, in the order they were appended; equal lines count once."""
        text = whole_text(source)
        benches: list[BenchResult] = []
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", source.broken))
        facts: dict[str, Fact[object]] = {}
        strange: list[str] = []
        seen: list[Mapping[str, object]] = []
        lines = text.splitlines()
        for line, parsed in objects(text):
            place = f"line {line}"
            record = leading_pairs(lines[line - 1]) if parsed is None else parsed
            if not record:
                strange.append(place)
                continue
            if parsed is None:
                detail = "the line breaks off or is no JSON object; what could be read of it was kept"
                problems.append(Problem(source.name, "error", detail, place))
            if record in seen:
                problems.append(Problem(source.name, "info", "the same result is appended again, counted once", place))
                continue
            result, found = _result(record, source.name, place)
            problems += found
            if result is None:
                continue
            seen.append(record)
            benches.append(result)
            facts |= _engine_facts(record, engines, f"{source.name}: {place}, server_info")
        if strange:
            detail = "a line is no JSON object and was left out"
            problems.append(Problem(source.name, "error", detail, strange[0], len(strange)))
        if not benches:
            raise BadInput(
                source.name, "no benchmark result found", "Run the benchmark again with --output-file", "line 1"
            )
        return Reading(benches=tuple(benches), facts=facts, problems=tuple(problems))


def _result(record: Mapping[str, object], path: str, place: str) -> tuple[BenchResult | None, list[Problem]]:
    duration, completed = number(record.get("duration")), count(record.get("completed"))
    if duration is None or completed is None:
        return None, [Problem(path, "error", "no duration and count of completed requests, left out", place)]
    table, problems = request_table(record, path, place)
    asked = count(record.get("num_prompts"))
    unserved = 0 if asked is None else max(asked - completed, 0)
    failed = unserved if table is None else int((~table.ok).sum())
    if failed:
        problems.append(Problem(path, "warning", f"{failed} of {failed + completed} requests failed", place))
    protocol = string(record.get("backend"))
    model = string(mapping(record.get("server_info")).get("model_path"))
    result = BenchResult(
        path=path,
        tool=TOOL,
        duration=duration,
        completed=completed,
        failed=failed,
        total_input_tokens=count(record.get("total_input_tokens")) or 0,
        total_output_tokens=count(record.get("total_output_tokens")) or 0,
        request_rate=number(record.get("request_rate")),  # "trace" is no number: the trace set the times
        max_concurrency=count(record.get("max_concurrency")),
        model=None if model is None else redact_text(model),
        client_protocol=None if protocol is None else redact_text(protocol),
        requests=table,
        summary=summary(record),
        metadata=metadata(record, READ),
    )
    return result, problems


def _engine_facts(record: Mapping[str, object], engines: Sequence[Engine], source: str) -> dict[str, Fact[object]]:
    """What the server said of itself when the client asked it."""
    answer = record.get("server_info")
    if not isinstance(answer, dict):
        return {}
    for engine in engines:
        facts = {} if engine.server_info is None else redact(dict(engine.server_info(answer)))
        if isinstance(facts, dict) and facts:
            return {key: Fact(value, source, inferred=False) for key, value in facts.items()}
    return {}


FORMAT: Final = SglangBench()
