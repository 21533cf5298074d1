"""Dynamo's traces of requests: JSON lines of the schema ``dynamo.request.trace.v1``, one a request that ended.

Read off a recording of Dynamo 1.6.1. Times are milliseconds from the front end's receiving of the request, so they hold
no network and are not a client's: they are kept as the front end's own view and never taken for a benchmark. The hashes
of the prompt's blocks are not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors.json_text import decode, mapping, number, objects
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.metrics import ComponentSnapshot
from profiler.model.problem import Problem
from profiler.model.run import Reading

SCHEMA: Final = re.compile(rb'"schema"\s*:\s*"dynamo\.request\.trace\.')
_MEANS: Final = {"ttft_seconds": "ttft_ms", "e2e_seconds": "total_time_ms"}


class DynamoRequests:
    """See ``profiler.model.extension.Format``."""

    name = "dynamo_requests"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By the schema that every line names."""
        first = head.lstrip().split(b"\n", 1)[0]
        return 0.95 if first[:1] == b"{" and SCHEMA.search(first) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One view of all requests. Raises BadInput where no line is one."""
        with source.open() as stream:
            text = decode(stream.read())
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", f"{source.broken}; later requests are missing"))
        requests: list[Mapping[str, object]] = []
        strange: list[int] = []
        for line, record in objects(text):
            event = mapping((record or {}).get("event"))
            request = mapping(event.get("request"))
            if request and event.get("event_type") == "request_end":
                requests.append(request)
            elif not event:
                strange.append(line)
        if strange:
            detail = "a line is no event of a request and was left out"
            problems.append(Problem(source.name, "warning", detail, f"line {strange[0]}", len(strange)))
        if not requests:
            raise BadInput(source.name, "no request that ended found", "Take the front end's own JSON lines")
        values: dict[str, float] = {"requests": float(len(requests))}
        tokens = _numbers(requests, "output_tokens")
        cached, prompt = sum(_numbers(requests, "cached_tokens")), sum(_numbers(requests, "input_tokens"))
        if tokens:
            values["output_tokens"] = sum(tokens)
        if prompt:
            values["hit_rate"] = cached / prompt
        for question, key in _MEANS.items():
            known = _numbers(requests, key)
            if known:
                values[question] = sum(known) / len(known) / 1e3
        gap = _mean_gap(requests)
        if gap is not None:
            values["itl_seconds"] = gap
        found = ComponentSnapshot(source.name, "dynamo", "a trace of requests of Dynamo's front end", 0.0, values)
        return Reading(components=(found,), problems=tuple(problems))


def _numbers(requests: Sequence[Mapping[str, object]], key: str) -> list[float]:
    known = (number(request.get(key)) for request in requests)
    return [value for value in known if value is not None and 0 <= value < 1e15]


def _mean_gap(requests: Sequence[Mapping[str, object]]) -> float | None:
    """Seconds between tokens, pooled: each request's own mean counts as often as it has gaps."""
    total = count = 0.0
    for request in requests:
        mean, tokens = number(request.get("avg_itl_ms")), number(request.get("output_tokens"))
        if mean is not None and tokens is not None and 0 <= mean < 1e15 and 1 < tokens < 1e15:
            total, count = total + mean * (tokens - 1), count + tokens - 1
    return total / count / 1e3 if count else None


FORMAT: Final = DynamoRequests()
