"""guidellm's report, version 2 (0.4 and later) and 1: one result for each benchmark of the sweep.

Read off a file of 0.8.0 and the source at 0.8.1. Latencies named ``_ms`` are milliseconds, ``request_latency`` is
seconds. Its time per output token includes the first token's time, its inter-token latency is averaged over tokens
instead of requests: both keep the tool's name. So do its percentiles (the median too): they are the smallest value that
covers the share, without interpolation. Requests hold the time of the first and the last token, no gaps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors.json_text import count, mapping, number, string
from profiler.collectors.load.document import object_of
from profiler.collectors.load.request_rows import Row, table_of, totals
from profiler.collectors.load.unit_metrics import distribution
from profiler.collectors.redaction import redact_text
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.requests import BenchResult
from profiler.model.run import Reading

TOOL: Final = "guidellm"
_LATENCIES: Final = (
    ("time_to_first_token_ms", "ttft", 1e3),
    ("request_latency", "e2e", 1.0),
    ("inter_token_latency_ms", "guidellm.inter_token_latency", 1e3),
    ("time_per_output_token_ms", "guidellm.time_per_output_token", 1e3),
)
_RATES: Final = {
    "requests_per_second": "guidellm.requests_per_second",
    "output_tokens_per_second": "guidellm.output_tokens_per_second",
    "tokens_per_second": "guidellm.tokens_per_second",
}
_SURE: Final = re.compile(
    rb'"guidellm_version"|\A\s*\{\s*"benchmarks"\s*:\s*\[\s*\{(?=[\s\S]*"(?:run_stats|scheduler_metrics|request_stats)")'
)


class Guidellm:
    """See ``profiler.model.extension.Format``."""

    name = "guidellm"
    version = 2

    def sniff(self, head: bytes, name: str) -> float:
        """By the version it writes, or by the parts of a benchmark (version 1)."""
        return 0.92 if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" and _SURE.search(head) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One result for each benchmark, per-request records where the report keeps them."""
        record, problems = object_of(source)
        listed = record.get("benchmarks")
        benches: list[BenchResult] = []
        for at, item in enumerate(listed if isinstance(listed, list) else []):
            result, found = _benchmark(mapping(item), source.name, f"benchmark {at}")
            problems += found
            if result is None:
                detail = "a benchmark without metrics, left out"
                problems.append(Problem(source.name, "error", detail, f"benchmark {at}"))
            else:
                benches.append(result)
        if not benches:
            raise BadInput(source.name, "no benchmark found in the report", "Save the report as JSON")
        model = next((bench.model for bench in benches if bench.model), None)
        facts: dict[str, Fact[object]] = {}
        if model is not None:
            facts["model.name"] = Fact(model, f"{source.name}: backend")
        return Reading(benches=tuple(benches), facts=facts, problems=tuple(problems))


def _benchmark(item: Mapping[str, object], path: str, place: str) -> tuple[BenchResult | None, list[Problem]]:
    metrics = mapping(item.get("metrics"))
    if not metrics:
        return None, []
    counts = mapping(metrics.get("request_totals")) or mapping(item.get("request_totals"))
    made = mapping(mapping(item.get("scheduler_metrics")).get("requests_made"))
    made = made or mapping(mapping(item.get("run_stats")).get("requests_made")) or counts
    good = count(counts.get("successful", made.get("successful"))) or 0
    bad = (count(made.get("errored")) or 0) + (count(made.get("incomplete")) or 0)
    config = mapping(item.get("config")) or mapping(item.get("args"))
    strategy = mapping(config.get("strategy"))
    rows, problems = _rows(item, path, place)
    if rows:
        good, bad = sum(row.ok for row in rows), sum(not row.ok for row in rows)
    start, end = number(item.get("start_time")), number(item.get("end_time"))
    duration = number(item.get("duration"))
    if duration is None:
        duration = float("nan") if start is None or end is None else end - start
    summary: dict[str, float] = {}
    for key, name, scale in _LATENCIES:
        found = mapping(metrics.get(key))
        values = mapping(found.get("successful")) or found
        ranks = {"median": values.get("median"), **mapping(values.get("percentiles"))}
        rest = {key: value for key, value in values.items() if key != "median"}
        summary |= distribution(rest, name, scale)
        summary |= distribution(ranks, name if "." in name else f"{TOOL}.{name}", scale)
    for key, name in _RATES.items():
        found = mapping(metrics.get(key))
        mean = number((mapping(found.get("successful")) or found).get("mean"))
        if mean is not None:
            summary[name] = mean
    if bad:
        problems.append(Problem(path, "warning", f"{bad} of {good + bad} requests failed or did not end", place))
    model = string(mapping(config.get("backend")).get("model"))
    kind = string(strategy.get("type_"))
    streams = strategy.get("streams", strategy.get("max_concurrency") if kind == "concurrent" else None)
    sizes = totals(rows) if rows else (_sum(metrics, "prompt_token_count"), _sum(metrics, "output_token_count"))
    result = BenchResult(
        path=path,
        tool=TOOL,
        duration=duration,
        completed=good,
        failed=bad,
        total_input_tokens=sizes[0],
        total_output_tokens=sizes[1],
        request_rate=float("inf") if kind == "throughput" else number(strategy.get("rate")),
        max_concurrency=1 if kind == "synchronous" else count(streams),
        model=None if model is None else redact_text(model),
        requests=table_of(rows) if rows else None,
        summary=summary,
        metadata={} if kind is None else {"strategy": redact_text(kind)},
    )
    return result, problems


def _rows(item: Mapping[str, object], path: str, place: str) -> tuple[list[Row], list[Problem]]:
    requests = mapping(item.get("requests")) or mapping(item.get("request_stats"))
    rows: list[Row] = []
    untimed = 0
    for status in ("successful", "errored", "incomplete"):
        listed = requests.get(status)
        for one in listed if isinstance(listed, list) else []:
            row = _row(mapping(one), ok=status == "successful")
            if row is None:
                untimed += 1
            else:
                rows.append(row)
    problems: list[Problem] = []
    if untimed:
        problems.append(Problem(path, "warning", "a request has no times and was left out", place, untimed))
    return rows, problems


def _row(one: Mapping[str, object], *, ok: bool) -> Row | None:
    """Times are those of ``info.timings`` (version 2) or of the request itself (version 1)."""
    timings = mapping(mapping(one.get("info")).get("timings")) or mapping(one.get("scheduler_info"))
    start = number(timings.get("request_start", one.get("start_time")))
    end = number(timings.get("request_end", one.get("end_time")))
    first = number(timings.get("first_token_iteration", one.get("first_token_time")))
    if start is None or (ok and end is None) or abs(start) == float("inf"):
        return None
    ttft = number(one.get("time_to_first_token_ms"))
    e2e = None if end is None else end - start
    return Row(
        start=start,
        ttft=ttft / 1e3 if ttft is not None and first is None else e2e if first is None else first - start,
        e2e=e2e,
        input_tokens=_size(one, "prompt_tokens", "input_metrics"),
        output_tokens=_size(one, "output_tokens", "output_metrics"),
        ok=ok,
    )


def _size(one: Mapping[str, object], key: str, holder: str) -> int | None:
    held = mapping(one.get(holder))
    return count(one.get(key, held.get("total_tokens", held.get("text_tokens"))))


def _sum(metrics: Mapping[str, object], key: str) -> int:
    held = mapping(metrics.get(key))
    return count((mapping(held.get("successful")) or held).get("total_sum")) or 0


FORMAT: Final = Guidellm()
