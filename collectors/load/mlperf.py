"""MLPerf's LoadGen: ``mlperf_log_summary.txt`` and ``mlperf_log_detail.txt``. Latencies are nanoseconds.

Read off LoadGen's results.cc. First-token latency is TTFT, time to output token is its TPOT; percentiles are taken by
index. The summary has rates and no duration; the detail log (``:::MLLOG {…}`` lines) states counts and settings.
A query holds ``samples_per_query`` requests: all of them in the scenario Offline, which issues one query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors.bounded_text import whole_text
from profiler.collectors.json_text import count, mapping, number, parse
from profiler.collectors.load.same_load import load_mark
from profiler.collectors.redaction import redact_text
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.requests import BenchResult
from profiler.model.run import Reading

TOOL: Final = "mlperf loadgen"
_SUMMARY: Final = re.compile(rb"MLPerf Results Summary")
_DETAIL: Final = re.compile(rb"(?m)^:::MLLOG \{")
_PAIR: Final = re.compile(r"\s*([^:=]{1,80}?)\s*[:=]\s*(\S.{0,200}?)\s*")
_TIME: Final = re.compile(
    r"(?:(min|max|mean)|(\d{1,2}(?:\.\d{1,2})?) percentile) "
    r"(first token latency|time (?:to|per) output token|latency) \(ns\)"
)
_NAMES: Final = {
    "latency": "e2e",
    "first token latency": "ttft",
    "time to output token": "mlperf.time_to_output_token",
    "time per output token": "mlperf.time_to_output_token",  # of later versions, not of their percentiles
}
_RATES: Final = {
    "samples per second": "request_throughput",
    "completed samples per second": "request_throughput",
    "tokens per second": "output_throughput",
    "completed tokens per second": "output_throughput",
    "tokens per second (inferred)": "mlperf.tokens_per_second_inferred",
    "scheduled samples per second": "mlperf.scheduled_samples_per_second",
}
_COUNTED: Final = ("request_throughput", "output_throughput")
_KEPT: Final = ("scenario", "mode", "sut name", "result is", "target_qps", "min_duration (ms)", "samples_per_query")


class Mlperf:
    """See ``profiler.model.extension.Format``."""

    name = "mlperf"
    version = 2

    def sniff(self, head: bytes, name: str) -> float:
        """By the summary's title or the detail log's mark."""
        return 0.92 if _SUMMARY.search(head) or _DETAIL.search(head) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One result of a summary or of a detail log; of one run the two are merged."""
        text = whole_text(source)
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", source.broken))
        if ":::MLLOG" in text:
            pairs, bad = _detail(text)
            if bad:
                detail = "a line breaks off or is no JSON and was left out"
                problems.append(Problem(source.name, "error", detail, f"line {bad[0]}", len(bad)))
        else:
            pairs = _summary(text)
        summary = _metrics(pairs)
        if not summary and "result is" not in pairs:
            raise BadInput(source.name, "no result of LoadGen found", "Take mlperf_log_summary.txt as it is")
        valid = str(pairs.get("result is", ""))
        if valid.upper() == "INVALID":
            problems.append(Problem(source.name, "warning", "LoadGen calls the result INVALID"))
        rate = summary.get("request_throughput")
        offline = str(pairs.get("scenario", "")).lower() == "offline"
        # The number of queries is a setting for some scenarios and a result for others.
        queries = count(pairs.get("query count", pairs.get("result_query_count", 1 if offline else None))) or 0
        completed = queries * (count(pairs.get("samples_per_query")) or (0 if offline else 1))
        duration = completed / rate if rate and completed else float("nan")
        tokens = summary.get("output_throughput", 0.0) * duration if completed and rate else 0.0
        if not completed:
            # Nothing can be split or compared where the counts behind a rate are not known.
            summary = {f"mlperf.{key}" if key in _COUNTED else key: value for key, value in summary.items()}
            detail = (
                "LoadGen's summary does not say how many requests ran, so its rates keep its own name and do not "
                "compare: put mlperf_log_detail.txt beside it"
            )
            problems.append(Problem(source.name, "warning", detail))
        asked = number(pairs.get("target_qps"))
        result = BenchResult(
            path=source.name,
            tool=TOOL,
            duration=duration,
            completed=completed,
            failed=0,
            total_input_tokens=0,
            total_output_tokens=round(tokens) if 0 <= tokens < 2**62 else 0,
            request_rate=float("inf") if offline else asked,
            summary=summary,
            metadata=load_mark(TOOL, source.name)
            | {key: redact_text(str(pairs[key]))[:200] for key in _KEPT if key in pairs},
        )
        return Reading(benches=(result,), problems=tuple(problems))


def _summary(text: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for line in text.splitlines():
        match = _PAIR.fullmatch(line[:400])
        if match is not None:
            found.setdefault(re.sub(r"\s+", " ", match[1].lower()), match[2])
    return found


def _detail(text: str) -> tuple[dict[str, object], list[int]]:
    """The detail log's pairs under the summary's names."""
    found: dict[str, object] = {}
    bad: list[int] = []
    for at, line in enumerate(text.splitlines(), 1):
        if ":::MLLOG" not in line:
            continue
        record = parse(line.partition(":::MLLOG")[2])
        key, value = mapping(record).get("key"), mapping(record).get("value")
        if not isinstance(record, dict) or not isinstance(key, str):
            bad.append(at)
        elif isinstance(value, str | int | float):
            found[_spelled(key)] = value
    return found, bad


def _spelled(key: str) -> str:
    """``result_99.00_percentile_latency_ns`` is ``99.00 percentile latency (ns)``."""
    if key == "result_validity":
        return "result is"
    if key in ("effective_scenario", "requested_scenario"):
        return "scenario"
    if not key.startswith("result_") or key == "result_query_count":
        return key.removeprefix("effective_")
    words = key.removeprefix("result_").replace("_", " ")
    return words.removesuffix(" ns") + " (ns)" if words.endswith(" ns") else words


def _metrics(pairs: Mapping[str, object]) -> dict[str, float]:
    found: dict[str, float] = {}
    for key, raw in pairs.items():
        value = number(raw)
        if value is None or abs(value) == float("inf"):
            continue
        match = _TIME.fullmatch(key)
        if match is not None:
            name = _NAMES[match[3]]
            rank = None if match[2] is None else f"{float(match[2]):g}"
            kind = match[1] or ("median" if rank == "50" else f"p{rank}")
            found[f"{name}.{kind}" if "." in name else f"{kind}_{name}"] = value / 1e9
        elif key in _RATES:
            found.setdefault(_RATES[key], value)
    return found


FORMAT: Final = Mlperf()
