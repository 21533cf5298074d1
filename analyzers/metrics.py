"""The benchmark's metrics, recomputed from per-request records by one set of definitions.

TTFT: first chunk minus send. E2E: last chunk minus send. TPOT: (E2E - TTFT) / (output tokens - 1), requests with one
token left out. ITL: gaps between chunks, pooled over requests. Percentiles interpolate linearly. Failed requests count
in none of them. Where a file has no records, its tool's own summary is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from profiler.model.requests import BenchResult, Floats, RequestTable

PERCENTILES: Final = (50, 90, 99)
SAMPLES: Final = ("ttft", "tpot", "itl", "e2e")
THROUGHPUTS: Final = ("output_throughput", "request_throughput", "total_token_throughput")
UNITS: Final[Mapping[str, str]] = {
    "output_throughput": "tokens/s",
    "request_throughput": "requests/s",
    "total_token_throughput": "tokens/s",
}


def higher_is_better(metric: str) -> bool:
    """True for rates, False for latencies."""
    return metric in THROUGHPUTS or metric.startswith("goodput")


def unit_of(metric: str) -> str:
    """The unit a metric is reported in; latencies are seconds."""
    return UNITS.get(metric, "s")


def tpot(requests: RequestTable) -> Floats:
    """Seconds per output token after the first, per request; NaN where a request has no second token or failed."""
    decoded = requests.ok & (requests.output_tokens > 1)
    spans = requests.e2e - requests.ttft
    return np.where(decoded, spans / np.maximum(requests.output_tokens - 1, 1), np.nan)


def samples(requests: RequestTable, metric: str) -> Floats:
    """The values that a latency metric is the mean or a percentile of; one a request, for ``itl`` one a chunk."""
    if metric == "ttft":
        return requests.ttft[requests.ok]
    if metric == "e2e":
        return requests.e2e[requests.ok]
    if metric == "tpot":
        values = tpot(requests)
        return values[np.isfinite(values)]
    return requests.itl


def statistic(metric: str) -> tuple[str, Callable[[Floats], float]]:
    """(sample name, reduction) of a latency metric's name such as ``mean_ttft`` or ``p99_itl``."""
    kind, _, sample = metric.partition("_")
    if kind == "mean":
        return sample, lambda values: float(np.mean(values))
    rank = 50.0 if kind == "median" else float(kind[1:])
    return sample, lambda values: float(np.percentile(values, rank))


def metrics_of(bench: BenchResult) -> dict[str, float]:
    """Every metric that the result carries, by name."""
    found: dict[str, float] = {}
    if bench.duration > 0:
        found["request_throughput"] = bench.completed / bench.duration
        # Requests that were served and no tokens: they were not counted, or only together by the tool.
        if bench.total_output_tokens or not bench.completed:
            found["output_throughput"] = bench.total_output_tokens / bench.duration
        if bench.total_output_tokens or not bench.completed or "total_token_throughput" not in bench.summary:
            total = bench.total_output_tokens + bench.total_input_tokens
            found |= {"total_token_throughput": total / bench.duration} if total or not bench.completed else {}
    if bench.requests is None or not bench.requests.ok.any():
        named = {re.sub(r"^median_", "p50_", name): value for name, value in bench.summary.items()}
        return {**named, **found}
    for sample in SAMPLES:
        values = samples(bench.requests, sample)
        if len(values):
            found[f"mean_{sample}"] = float(np.mean(values))
            for rank, value in zip(PERCENTILES, np.percentile(values, PERCENTILES), strict=True):
                found[f"p{rank}_{sample}"] = float(value)
    return found


# A change of so much and more is told as a factor: of 1,643% no digit but the first says anything.
MANY: Final = 2.0
# And a share of a gap, from here on.
MANY_TIMES: Final = 10.0


def changed(fraction: float, decimals: int = 0) -> str:
    """A relative change in a sentence: ``-36%``, ``+2.4%``, ``24.2 times``."""
    return f"{fraction:+.{decimals}%}" if fraction < MANY else f"{times(1.0 + fraction)} times"


def times(factor: float) -> str:
    """A factor in three digits: ``3.21``, ``24.2``, ``1,204``."""
    return f"{factor:.3g}" if factor < 1000.0 else f"{factor:,.0f}"


_WORD: Final = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2e": "E2E latency", "slo": "SLO", "gpu": "GPU"}


def spoken(name: str) -> str:
    """A metric's name in a sentence: ``p99_ttft`` -> ``p99 TTFT``."""
    return " ".join(_WORD.get(word, word) for word in name.split("_")) or name
