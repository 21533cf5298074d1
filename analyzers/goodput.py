"""Requests that met a service-level objective: of those sent, and per second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from profiler.analyzers.gap.intervals import blocks
from profiler.analyzers.gap.spread import NORMAL_95
from profiler.analyzers.metrics import tpot
from profiler.model.requests import BenchResult, Bools

SLO_METRICS = ("ttft", "tpot", "e2e")
DRAWS: Final = 200
SEED: Final = 20_261_130
LEFT: Final = 0.05


def good(bench: BenchResult, slo: Mapping[str, float]) -> Bools | None:
    """Of each request sent, whether it met every bound of ``slo`` (seconds, keys ttft, tpot, e2e).

    Failed requests never did; a one-token answer has no TPOT and is judged by the rest. None where the file has no
    per-request records.
    """
    requests = bench.requests
    if requests is None:
        return None
    values = {"ttft": requests.ttft, "e2e": requests.e2e, "tpot": np.nan_to_num(tpot(requests), nan=0.0)}
    met: Bools = requests.ok.copy()
    for name, bound in slo.items():
        met &= values[name] <= bound
    # Requests that failed and have no record are misses all the same.
    lost = bench.completed + bench.failed - len(met)
    return np.concatenate([met, np.zeros(max(lost, 0), np.bool_)])


def goodput(bench: BenchResult, slo: Mapping[str, float]) -> float | None:
    """Requests/s within every bound of ``slo``; None where the file has no per-request records."""
    met = good(bench, slo)
    return None if met is None or bench.duration <= 0 else float(met.sum()) / bench.duration


def goodput_interval(
    a: BenchResult, b: BenchResult, slo: Mapping[str, float], deviation: float
) -> tuple[float, float] | None:
    """95% interval of B's goodput minus A's; None where a file has no per-request records. ``deviation``: of the log
    ratio of two starts."""
    rates, parts = [], []
    for bench in (a, b):
        met, rate = good(bench, slo), goodput(bench, slo)
        if met is None or rate is None or not len(met):
            return None
        low, high = attainment_interval([met])
        share = float(met.mean())
        parts.append(max(share - low, high - share) * len(met) / bench.duration)
        rates.append(rate)
    half = float(np.hypot(np.hypot(parts[0], parts[1]), NORMAL_95 * deviation * 0.5 * sum(rates)))
    return rates[1] - rates[0] - half, rates[1] - rates[0] + half


def attainment_interval(repeats: Sequence[Bools]) -> tuple[float, float]:
    """95% interval of the share of requests that met the SLO.

    Requests are drawn again in blocks, because neighbours in a queue wait together, and repeats where there are
    several. Where all or none met it, that can't see how many of n it could have been: there the bound is the share at
    which n alike in a row still happen once in twenty.
    """
    rng = np.random.default_rng(SEED)
    drawn = np.empty(DRAWS)
    for i in range(DRAWS):
        chosen = rng.integers(0, len(repeats), len(repeats))
        drawn[i] = float(np.concatenate([repeats[k][blocks(len(repeats[k]), rng)] for k in chosen]).mean())
    low, high = (float(bound) for bound in np.percentile(drawn, (2.5, 97.5)))
    n = sum(len(met) for met in repeats)
    share = sum(int(met.sum()) for met in repeats) / n
    if share == 1.0:
        low = min(low, LEFT ** (1.0 / n))
    if share == 0.0:
        high = max(high, 1.0 - LEFT ** (1.0 / n))
    return min(low, share), max(high, share)
