"""genai-perf's ``profile_export.json``, which perf_analyzer writes: send and response times of every request in ns.

``experiments[].requests[]`` hold ``timestamp`` and ``response_timestamps``; the responses' text lies beside them and
is used only to tell an empty chunk and the closing mark from content and to find the server's own token counts. Where
the server sent none, token counts are only in the ``*_genai_perf.json`` of the same folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from profiler.collectors.json_text import count, mapping, number, string
from profiler.collectors.load.document import object_of
from profiler.collectors.load.request_rows import Row, failures, nanoseconds, result_of
from profiler.collectors.load.same_load import load_mark
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.requests import BenchResult
from profiler.model.run import Reading

TOOL: Final = "genai-perf"
_USAGE: Final = re.compile(r'"(prompt_tokens|completion_tokens)"\s*:\s*(\d{1,12})')
_CONTENT: Final = re.compile(r'"(?:content|reasoning_content|reasoning|text|text_output)"\s*:\s*"((?:[^"\\]|\\.)+)"')


class GenaiPerf:
    """See ``profiler.model.extension.Format``."""

    name = "genai_perf"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By the keys of an experiment and its requests."""
        keys = (b'"experiments"', b'"requests"', b'"response_timestamps"')
        return 0.92 if head.lstrip()[:1] == b"{" and all(key in head for key in keys) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One result for each experiment."""
        record, problems = object_of(source)
        experiments = record.get("experiments")
        listed = experiments if isinstance(experiments, list) else []
        benches: list[BenchResult] = []
        for number_, experiment in enumerate(listed):
            result, found = _experiment(mapping(experiment), source.name, f"experiment {number_}")
            problems += found
            if result is not None:
                benches.append(result)
        if not benches:
            raise BadInput(source.name, "no experiment with requests found", "Take the tool's own JSON export as it is")
        if len(benches) == 1:
            # Several experiments are several loads, which no summary beside the file can be told to belong to.
            benches = [replace(benches[0], metadata=load_mark(TOOL, source.name))]
        return Reading(benches=tuple(benches), problems=tuple(problems))


def _experiment(experiment: Mapping[str, object], path: str, place: str) -> tuple[BenchResult | None, list[Problem]]:
    raw = experiment.get("requests")
    requests = [mapping(item) for item in raw] if isinstance(raw, list) else []
    rows = [row for row in map(_row, requests) if row is not None]
    problems: list[Problem] = []
    if len(rows) < len(requests):
        detail = "a request has no time and was left out"
        problems.append(Problem(path, "warning", detail, place, len(requests) - len(rows)))
    if not rows:
        return None, problems
    problems.extend(failures(path, rows, place))
    unknown = sum(row.ok and row.output_tokens is None for row in rows)
    if unknown:
        detail = "a request has no token count: put the *_genai_perf.json of the same run beside this file"
        problems.append(Problem(path, "warning", detail, place, unknown))
    mode = mapping(experiment.get("experiment"))
    asked = number(mode.get("value"))
    by_rate = mode.get("mode") == "request_rate"
    result = replace(
        result_of(TOOL, path, rows, {}),
        request_rate=asked if by_rate else None,
        max_concurrency=count(asked) if mode.get("mode") == "concurrency" else None,
    )
    return result, problems


def _row(request: Mapping[str, object]) -> Row | None:
    start = nanoseconds(request.get("timestamp"))
    if start is None:
        return None
    raw, outputs = request.get("response_timestamps"), request.get("response_outputs")
    stamps = [stamp for item in (raw if isinstance(raw, list) else []) if (stamp := nanoseconds(item)) is not None]
    texts = [_text(item) for item in outputs] if isinstance(outputs, list) and len(outputs) == len(stamps) else None
    chunks = stamps if texts is None else [at for at, text in zip(stamps, texts, strict=True) if _CONTENT.search(text)]
    chunks = chunks or stamps
    usage = {key: int(value) for text in texts or () for key, value in _USAGE.findall(text)}
    ok = bool(chunks) and request.get("success") is not False
    return Row(
        start=start / 1e9,
        ttft=(chunks[0] - start) / 1e9 if ok else None,
        e2e=(chunks[-1] - start) / 1e9 if ok else None,
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        ok=ok,
        gaps=[(later - earlier) / 1e9 for earlier, later in pairwise(chunks)],
    )


def _text(output: object) -> str:
    held = mapping(output)
    response = held.get("response", output)
    return string(response) or json.dumps(response, default=str)[:100_000]


FORMAT: Final = GenaiPerf()
