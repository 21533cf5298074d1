"""llmperf's ``*_individual_responses.json`` and ``*_summary.json``. Times are seconds.

Read off files of 2023-08-31. What it calls inter-token latency is the whole latency over the output tokens, first
token included, so it keeps the tool's name. The records have neither a start nor a duration: these are the summary's,
as completed requests over the rate it prints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors.json_text import count, mapping, number, string
from profiler.collectors.load.document import list_of, object_of
from profiler.collectors.load.request_rows import Row, failures, result_of
from profiler.collectors.load.same_load import load_mark
from profiler.collectors.load.unit_metrics import statistic
from profiler.collectors.redaction import redact_text
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.requests import BenchResult
from profiler.model.run import Reading

TOOL: Final = "llmperf"
_LIST: Final = re.compile(rb'\A\s*\[\s*\{(?=[\s\S]*"ttft_s"\s*:)(?=[\s\S]*"end_to_end_latency_s"\s*:)')
_SUMMARY: Final = (b'"results_ttft_s', b'"mean_input_tokens"')
_RESULT: Final = re.compile(r"results_(ttft_s|end_to_end_latency_s|inter_token_latency_s)_(?:quantiles_)?(\w+)")
_NAMES: Final = {
    "ttft_s": "ttft",
    "end_to_end_latency_s": "e2e",
    "inter_token_latency_s": "llmperf.inter_token_latency",
}


class Llmperf:
    """See ``profiler.model.extension.Format``."""

    name = "llmperf"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By the tool's own names of its measures."""
        summary = head.lstrip()[:1] == b"{" and all(key in head for key in _SUMMARY)
        flat = head.lstrip()[:1] == b"{" and b'"num_concurrent_requests"' in head and b'"mean_input_tokens"' in head
        return 0.9 if _LIST.search(head) or summary or flat else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """A table of requests, or a summary; of one run the two are merged."""
        return _requests(source) if source.head(4096).lstrip()[:1] == b"[" else _summary(source)


def _requests(source: Source) -> Reading:
    items, problems = list_of(source)
    rows = [_row(item) for item in items]
    if not any(row.ok or row.e2e is not None for row in rows):
        raise BadInput(source.name, "no request record found", "Take the tool's individual responses as they are")
    result = result_of(TOOL, source.name, rows, load_mark(TOOL, source.name))
    return Reading(benches=(result,), problems=(*problems, *failures(source.name, rows)))


def _row(item: Mapping[str, object]) -> Row:
    ttft, e2e = number(item.get("ttft_s")), number(item.get("end_to_end_latency_s"))
    # Failed requests of this tool have an error code and zeros instead of times.
    ok = item.get("error_code") is None and e2e is not None and e2e > 0
    return Row(
        start=None,
        ttft=ttft,
        e2e=e2e,
        input_tokens=count(item.get("number_input_tokens")),
        output_tokens=count(item.get("number_output_tokens")),
        ok=ok,
    )


def _summary(source: Source) -> Reading:
    record, problems = object_of(source)
    found: dict[str, float] = {}
    for key, raw in _flat(record).items():
        match, value = _RESULT.fullmatch(key), number(raw)
        kind = None if match is None else statistic(match[2])
        if match is None or kind is None or value is None or abs(value) == float("inf"):
            continue
        name = _NAMES[match[1]]
        found[f"{name}.{kind}" if "." in name else f"{kind}_{name}"] = value
    flat = _flat(record)
    completed = count(flat.get("results_num_completed_requests"))
    if completed is None or not found:
        raise BadInput(source.name, "no completed requests and latencies", "Take the tool's summary as it is")
    per_minute = number(flat.get("results_num_completed_requests_per_min"))
    overall = number(flat.get("results_mean_output_throughput_token_per_s"))
    if overall is not None:
        found["llmperf.mean_output_throughput"] = overall
    failed = count(flat.get("results_number_errors")) or 0
    if failed:
        problems.append(Problem(source.name, "warning", f"{failed} of {completed + failed} requests failed"))
    model = string(record.get("model"))
    facts: dict[str, Fact[object]] = {}
    if model is not None:
        facts["model.name"] = Fact(redact_text(model), f"{source.name}: model")
    result = BenchResult(
        path=source.name,
        tool=TOOL,
        duration=completed / (per_minute / 60) if per_minute else float("nan"),
        completed=completed,
        failed=failed,
        total_input_tokens=_sum(flat, "results_number_input_tokens_mean", completed),
        total_output_tokens=_sum(flat, "results_number_output_tokens_mean", completed),
        max_concurrency=count(record.get("num_concurrent_requests")),
        model=None if model is None else redact_text(model),
        summary=found,
        metadata=load_mark(TOOL, source.name),
    )
    return Reading(benches=(result,), facts=facts, problems=tuple(problems))


def _flat(record: Mapping[str, object]) -> dict[str, object]:
    """Older files keep the results nested: ``results: {ttft_s: {quantiles: {p25: …}}}``."""
    out: dict[str, object] = {}
    work: list[tuple[str, object]] = list(record.items())
    while work and len(out) < 10_000:
        key, value = work.pop()
        nested = mapping(value)
        if nested:
            work += [(f"{key}_{inner}", item) for inner, item in nested.items()]
        else:
            out[key] = value
    return out


def _sum(flat: Mapping[str, object], key: str, completed: int) -> int:
    mean = number(flat.get(key))
    return 0 if mean is None or not abs(mean) < 2**40 or not abs(completed) < 2**40 else round(mean * completed)


FORMAT: Final = Llmperf()
