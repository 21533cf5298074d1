"""inference-perf's lifecycle reports: one file a stage, and a summary over all of them, JSON or YAML. Times are s.

Read off files of 2025 and the source at 0.7. ``request_latency`` is end-to-end. ``inter_token_latency`` pools the gaps
between chunks; ``time_per_output_token`` is their mean in some versions and (last - first) / (tokens - 1) in others, so
it keeps its own name. In files of 2025 a token came as two chunks: there the gaps are no gaps between tokens either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from profiler.collectors.json_text import count, mapping, number
from profiler.collectors.load.document import written_object_of
from profiler.collectors.load.same_load import part_mark, whole_mark
from profiler.collectors.load.unit_metrics import distribution
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.requests import BenchResult
from profiler.model.run import Reading

TOOL: Final = "inference-perf"
_RATES: Final = {
    "requests_per_sec": "request_throughput",
    "output_tokens_per_sec": "output_throughput",
    "input_tokens_per_sec": "input_throughput",
    "total_tokens_per_sec": "total_token_throughput",
}
_STAGE: Final = re.compile(r"stage_(\d{1,6})_")
_KEYS: Final = (b'"load_summary"', b'"successes"')
_YAML: Final = (rb"(?m)^load_summary:", rb"(?m)^successes:")
AGREES: Final = 0.25


class InferencePerf:
    """See ``profiler.model.extension.Format``."""

    name = "inference_perf"
    version = 3

    def sniff(self, head: bytes, name: str) -> float:
        """By the two halves of a report."""
        if head.lstrip()[:1] == b"{":
            return 0.92 if all(key in head for key in _KEYS) else 0.0
        return 0.92 if all(re.search(key, head) for key in _YAML) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One result for a stage or for the whole load; the server-side view is another tool's and is not read."""
        record, problems = written_object_of(source)
        load, served = mapping(record.get("load_summary")), mapping(record.get("successes"))
        latency = mapping(served.get("latency"))
        if not latency and served:
            detail = (
                "the server's own view of a stage, as its metrics gave it: its window is wider than the stage, so it "
                "is not read; the lifecycle file of the stage holds the client's view"
            )
            return Reading(problems=(*problems, Problem(source.name, "info", detail)))
        completed = count(served.get("count"))
        rates = mapping(served.get("throughput"))
        if completed is None:
            raise BadInput(source.name, "no count of successes", "Take the tool's lifecycle report as it is")
        failed = count(mapping(record.get("failures")).get("count")) or 0
        per_second = number(rates.get("requests_per_sec"))
        duration = completed / per_second if per_second else float("nan")
        summary, found = _summary(latency, served, source.name)
        summary |= {ours: value for key, ours in _RATES.items() if (value := number(rates.get(key))) is not None}
        problems += found
        if failed:
            problems.append(Problem(source.name, "warning", f"{failed} of {failed + completed} requests failed"))
        requested, achieved = number(load.get("requested_rate")), number(load.get("achieved_rate"))
        delays = mapping(load.get("schedule_delay"))
        told = {
            "achieved_rate": achieved,
            "inference_perf.send_duration": number(load.get("send_duration")),
            "median_send_delay": number(delays.get("median")),
            "p99_send_delay": number(delays.get("p99")),
        }
        summary |= {key: value for key, value in told.items() if value is not None}
        if requested and per_second and per_second < 0.95 * requested:
            detail = f"{per_second:.4g} of {requested:.4g} requests/s were served: the engine or the client was full"
            problems.append(Problem(source.name, "warning", detail))
        stage = _STAGE.match(PurePosixPath(source.name.replace("\\", "/")).name)
        mark = whole_mark(TOOL, source.name) if stage is None else part_mark(TOOL, source.name) | {"stage": stage[1]}
        result = BenchResult(
            path=source.name,
            tool=TOOL,
            duration=duration,
            completed=completed,
            failed=failed,
            total_input_tokens=_total(served, "prompt_len", completed),
            total_output_tokens=_total(served, "output_len", completed),
            request_rate=requested,
            summary=summary,
            metadata=mark,
        )
        return Reading(benches=(result,), problems=tuple(problems))


def _summary(
    latency: Mapping[str, object], served: Mapping[str, object], path: str
) -> tuple[dict[str, float], list[Problem]]:
    found: dict[str, float] = {}
    for key, name in (("request_latency", "e2e"), ("time_to_first_token", "ttft")):
        found |= distribution(mapping(latency.get(key)), name, 1.0)
    for key in ("time_per_output_token", "normalized_time_per_output_token"):
        found |= distribution(mapping(latency.get(key)), f"inference_perf.{key}", 1.0)
    gaps = mapping(latency.get("inter_token_latency"))
    tokens = number(mapping(served.get("output_len")).get("mean"))
    gap, first, last = number(gaps.get("mean")), found.get("mean_ttft"), found.get("mean_e2e")
    if gap is None:
        return found, []
    if tokens is None or first is None or last is None or tokens <= 1 or last <= first:
        return found | distribution(gaps, "inference_perf.inter_token_latency", 1.0), []
    share = gap * (tokens - 1) / (last - first)
    if abs(share - 1) <= AGREES:
        return found | distribution(gaps, "itl", 1.0), []
    detail = (
        f"the mean gap times the tokens after the first is {share:.0%} of the time they took: a chunk is no token in "
        "this file, so its inter-token latency and time per output token keep the tool's name and compare with nothing"
    )
    return found | distribution(gaps, "inference_perf.inter_token_latency", 1.0), [Problem(path, "warning", detail)]


def _total(served: Mapping[str, object], key: str, completed: int) -> int:
    """A mean times the count, which is whole up to rounding."""
    mean = number(mapping(served.get(key)).get("mean"))
    return 0 if mean is None or not abs(mean) < 2**40 or not abs(completed) < 2**40 else round(mean * completed)


FORMAT: Final = InferencePerf()
