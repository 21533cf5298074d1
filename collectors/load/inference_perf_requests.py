"""inference-perf's ``per_request_lifecycle_metrics.json``: a list of requests with the time of every chunk.

Times are seconds of a monotonic clock. Until 0.6 ``info`` holds ``input_tokens``, ``output_tokens`` and
``output_token_times``; later these lie in ``info.request_metrics.text`` and ``info.response_metrics``. A request
without chunk times was not streamed. All stages stand in one list, told apart by ``stage_id`` where there is one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from profiler.collectors.json_text import count, mapping, number, numbers
from profiler.collectors.load.document import list_of
from profiler.collectors.load.request_rows import Row, failures, result_of
from profiler.collectors.load.same_load import part_mark, whole_mark
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.requests import BenchResult
from profiler.model.run import Reading

TOOL: Final = "inference-perf"
_LIST: Final = re.compile(
    rb'\A(?:\xef\xbb\xbf)?\s*\[\s*\{(?=[\s\S]*"start_time"\s*:)(?=[\s\S]*"end_time"\s*:)'
    rb'(?=[\s\S]*"(?:output_token_times|info|request)"\s*:)'
)


class InferencePerfRequests:
    """See ``profiler.model.extension.Format``."""

    name = "inference_perf_requests"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By a list whose items have a start, an end and what was sent."""
        return 0.91 if _LIST.search(head) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One result for each stage, in the order of their first request."""
        items, problems = list_of(source)
        stages: dict[int | None, list[Row]] = {}
        untimed = 0
        for item in items:
            row = _row(item)
            if row is None:
                untimed += 1
            else:
                stages.setdefault(count(item.get("stage_id")), []).append(row)
        if untimed:
            problems.append(Problem(source.name, "warning", "a request has no start and was left out", count=untimed))
        if not stages:
            raise BadInput(source.name, "no request found", "Take the tool's per-request report as it is")
        benches: list[BenchResult] = []
        for stage, rows in stages.items():
            place = None if stage is None else f"stage {stage}"
            problems.extend(failures(source.name, rows, place))
            whole = whole_mark(TOOL, source.name) | {"records": "all stages"}
            mark = whole if stage is None else part_mark(TOOL, source.name) | {"stage": str(stage)}
            benches.append(result_of(TOOL, source.name, rows, mark))
        return Reading(benches=tuple(benches), problems=tuple(problems))


def _row(item: Mapping[str, object]) -> Row | None:
    start, end = number(item.get("start_time")), number(item.get("end_time"))
    if start is None or abs(start) == float("inf"):
        return None
    info = mapping(item.get("info"))
    response = mapping(info.get("response_metrics")) or info
    asked = mapping(mapping(info.get("request_metrics")).get("text")) or info
    raw = response.get("output_token_times")
    times = numbers(raw) if isinstance(raw, list) else []
    served = not item.get("error") and end is not None and end >= start
    e2e = end - start if served and end is not None else None
    return Row(
        start=start,
        ttft=times[0] - start if times else e2e,
        e2e=e2e,
        input_tokens=count(asked.get("input_tokens")),
        output_tokens=count(response.get("output_tokens")),
        ok=served,
        gaps=[later - earlier for earlier, later in pairwise(times)],
    )


FORMAT: Final = InferencePerfRequests()
