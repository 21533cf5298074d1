"""AIPerf's ``profile_export.jsonl``: one request a line, times in ns since the epoch, metrics with their units.

Read off files of AIPerf 0.3 and its source at 0.13. Lines of the phase "warmup" are no part of the load. Cancelled and
errored requests are kept as not ok. Output tokens are ``output_sequence_length``, reasoning included, as in the
tool's own throughput.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors.bounded_text import whole_text
from profiler.collectors.json_text import count, mapping, number, numbers, objects, string
from profiler.collectors.load.request_rows import Row, failures, result_of
from profiler.collectors.load.same_load import load_mark
from profiler.collectors.load.unit_metrics import per_unit
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.run import Reading

TOOL: Final = "aiperf"
_LINE: Final = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\{[^\n]{0,4000}"request_start_ns"\s*:')


class AiperfRequests:
    """See ``profiler.model.extension.Format``."""

    name = "aiperf_requests"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By the start of a request in the first line's metadata."""
        return 0.93 if _LINE.search(head) and b'"metadata"' in head else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One result for all lines of the phase "profiling"."""
        text = whole_text(source)
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", source.broken))
        rows: list[Row] = []
        strange: list[int] = []
        warmup = 0
        for line, record in objects(text):
            metadata = mapping((record or {}).get("metadata"))
            start = number(metadata.get("request_start_ns"))
            if record is None or start is None or abs(start) == float("inf"):
                strange.append(line)
            elif metadata.get("benchmark_phase", "profiling") != "profiling":
                warmup += 1
            else:
                rows.append(_row(record, metadata, start))
        if strange:
            detail = "a line is no request record and was left out"
            problems.append(Problem(source.name, "error", detail, f"line {strange[0]}", len(strange)))
        if not rows:
            raise BadInput(source.name, "no request of the profiling phase", "Take the tool's own JSON lines")
        if warmup:
            problems.append(Problem(source.name, "info", "a warm-up request, no part of the load", count=warmup))
        result = result_of(TOOL, source.name, rows, load_mark(TOOL, source.name))
        return Reading(benches=(result,), problems=(*problems, *failures(source.name, rows)))


def _row(record: Mapping[str, object], metadata: Mapping[str, object], start: float) -> Row:
    metrics = mapping(record.get("metrics"))
    e2e, ttft = _seconds(metrics, "request_latency"), _seconds(metrics, "time_to_first_token")
    failed = bool(record.get("error")) or metadata.get("was_cancelled") is True
    gaps = mapping(metrics.get("inter_chunk_latency"))
    scale = per_unit(gaps.get("unit"))
    values = gaps.get("value")
    return Row(
        start=start / 1e9,
        ttft=e2e if ttft is None else ttft,  # without streaming the first content is the answer
        e2e=e2e,
        input_tokens=_tokens(metrics, "input_sequence_length"),
        output_tokens=_tokens(metrics, "output_sequence_length"),
        ok=not failed and e2e is not None,
        gaps=[gap / scale for gap in numbers(values)] if scale is not None and isinstance(values, list) else (),
    )


def _seconds(metrics: Mapping[str, object], key: str) -> float | None:
    stated = mapping(metrics.get(key))
    scale, value = per_unit(string(stated.get("unit"))), number(stated.get("value"))
    return None if scale is None or value is None else value / scale


def _tokens(metrics: Mapping[str, object], key: str) -> int | None:
    return count(mapping(metrics.get(key)).get("value"))


FORMAT: Final = AiperfRequests()
