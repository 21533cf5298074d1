"""AIPerf's ``profile_export_aiperf.json`` and genai-perf's ``*_genai_perf.json``: one object of metrics with units.

Read off files of AIPerf 0.3 and its source at 0.13. ``request_latency`` is end-to-end, ``time_to_first_token`` the
first content. Inter-token latency is (latency - TTFT) / (output tokens - 1), our TPOT, in genai-perf and in files
without a version; later AIPerf divides by the tokens after the first chunk, which is another number and keeps its own
name. Per-request records of the same load lie beside it and are merged with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors.json_text import count, mapping, number, string
from profiler.collectors.load.document import object_of
from profiler.collectors.load.same_load import load_mark
from profiler.collectors.load.unit_metrics import average, per_unit, timed
from profiler.collectors.redaction import redact_text
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.requests import BenchResult
from profiler.model.run import Reading

TOOL: Final = "aiperf"
GENAI: Final = "genai-perf"
_TIMES: Final = {
    "time_to_first_token": "ttft",
    "request_latency": "e2e",
    "inter_chunk_latency": "itl",
    "time_to_second_token": "aiperf.time_to_second_token",
    "time_to_first_output_token": "aiperf.time_to_first_output_token",
}
_RATES: Final = {
    "request_throughput": "request_throughput",
    "output_token_throughput": "output_throughput",
    "total_token_throughput": "total_token_throughput",
    "output_token_throughput_per_user": "aiperf.output_token_throughput_per_user",
    "goodput": "request_goodput",
}
_SURE: Final = re.compile(
    rb'"(?:request_throughput|output_token_throughput|request_count|time_to_first_token)"\s*:\s*\{\s*"unit"'
)
_LATENCY: Final = re.compile(rb'"request_latency"\s*:\s*\{\s*"unit"')


class Aiperf:
    """See ``profiler.model.extension.Format``."""

    name = "aiperf"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By a latency and a second metric that both state their unit first."""
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
            return 0.0
        return 0.92 if _LATENCY.search(head) and _SURE.search(head) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """The tool's own summary in seconds."""
        record, problems = object_of(source)
        if not mapping(record.get("request_latency")):
            raise BadInput(source.name, "no request_latency found", "Take the tool's own JSON export as it is")
        result, found = result_of(record, source.name)
        facts: dict[str, Fact[object]] = {}
        if result.model is not None:
            facts["model.name"] = Fact(result.model, f"{source.name}: input_config")
        return Reading(benches=(result,), facts=facts, problems=(*problems, *found))


def result_of(record: Mapping[str, object], path: str) -> tuple[BenchResult, list[Problem]]:
    """The result of one summary; the duration follows from the counts where the file has none."""
    problems: list[Problem] = []
    tool = TOOL if {"benchmark_duration", "was_cancelled", "inter_chunk_latency"} & record.keys() else GENAI
    completed = count(average(record, "request_count")) or 0
    failed = count(average(record, "error_request_count")) or 0
    duration = _seconds(record, "benchmark_duration")
    throughput = average(record, "request_throughput")
    if duration is None and throughput and completed:
        duration = completed / throughput
    if duration is None:
        problems.append(Problem(path, "warning", "neither a duration nor a request rate, so rates are unknown"))
    named = dict(_TIMES)
    version = string(record.get("aiperf_version"))
    named["inter_token_latency"] = "tpot" if version is None else "aiperf.inter_token_latency"
    summary = timed(record, named)
    for key, name in _RATES.items():
        value = average(record, key)
        if value is not None:
            summary[name] = value
    if record.get("was_cancelled") is True:
        problems.append(Problem(path, "warning", "the benchmark was cancelled before its end"))
    if failed:
        problems.append(Problem(path, "warning", f"{failed} of {failed + completed} requests failed"))
    config = mapping(record.get("input_config"))
    generator = mapping(config.get("loadgen")) or mapping(config.get("perf_analyzer"))
    stimulus = mapping(generator.get("stimulus"))
    model = _model(config)
    extra = {"version": version} if version else {}
    result = BenchResult(
        path=path,
        tool=tool,
        duration=float("nan") if duration is None else duration,
        completed=completed,
        failed=failed,
        total_input_tokens=_tokens(record, ("total_isl",), "input_sequence_length", completed),
        total_output_tokens=_tokens(record, ("total_osl", "total_output_tokens"), "output_sequence_length", completed),
        request_rate=number(generator.get("request_rate", stimulus.get("request_rate"))),
        max_concurrency=count(generator.get("concurrency", stimulus.get("concurrency"))),
        model=None if model is None else redact_text(model),
        ended=_stamp(record.get("end_time")),
        summary=summary,
        metadata=load_mark(tool, path) | extra,
    )
    return result, problems


def _seconds(record: Mapping[str, object], key: str) -> float | None:
    values = mapping(record.get(key))
    scale, value = per_unit(values.get("unit")), number(values.get("avg"))
    return None if scale is None or value is None else value / scale


def _tokens(record: Mapping[str, object], totals: Sequence[str], mean: str, completed: int) -> int:
    """The stated total, else the mean times the count, which is whole up to the file's rounding."""
    for key in totals:
        found = count(average(record, key))
        if found is not None:
            return found
    per_request = average(record, mean)
    return 0 if per_request is None or not abs(per_request) < 2**40 else round(per_request * completed)


def _model(config: Mapping[str, object]) -> str | None:
    for holder in (mapping(config.get("endpoint")), config):
        names = holder.get("model_names", holder.get("model"))
        if isinstance(names, list) and names and isinstance(names[0], str) and names[0]:
            return names[0]
        if isinstance(names, str) and names:
            return names
    return None


def _stamp(value: object) -> str | None:
    """``2025-11-07T13:43:13.730640`` as ``20251107-134313``."""
    match = re.match(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)", string(value) or "")
    return None if match is None else "{}{}{}-{}{}{}".format(*match.groups())


FORMAT: Final = Aiperf()
