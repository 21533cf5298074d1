"""Requests per second that met a service-level objective."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from profiler.analyzers.metrics import tpot
from profiler.model.requests import BenchResult

SLO_METRICS = ("ttft", "tpot", "e2e")


def goodput(bench: BenchResult, slo: Mapping[str, float]) -> float | None:
    """Requests/s within every bound of ``slo`` (seconds, keys ttft, tpot, e2e). Failed requests never count as good;
    a one-token answer has no TPOT and is judged by the rest. None where the file has no per-request records."""
    requests = bench.requests
    if requests is None or bench.duration <= 0:
        return None
    values = {"ttft": requests.ttft, "e2e": requests.e2e, "tpot": np.nan_to_num(tpot(requests), nan=0.0)}
    good = requests.ok.copy()
    for name, bound in slo.items():
        good &= values[name] <= bound
    return float(good.sum()) / bench.duration
