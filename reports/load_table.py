"""The loads of a run as one table, a row each: what was asked, what was served, and how late the client itself was."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from rich.table import Table

from profiler.analyzers.metrics import metrics_of
from profiler.model.requests import BenchResult
from profiler.reports.language import said

RATES: Final = (("req\n/s", "request_throughput"), ("tokens\nout/s", "output_throughput"))
TIMES: Final = (
    ("TTFT\nmean ms", "mean_ttft"),
    ("TTFT\np99 ms", "p99_ttft"),
    ("TPOT\nmean ms", "mean_tpot"),
    ("gap\np99 ms", "p99_itl"),
    ("E2E\nmean ms", "mean_e2e"),
)
NOTHING: Final = "-"


def load_table(benches: Sequence[BenchResult]) -> Table:
    """The gap is that between chunks; the lag is how late 99% of the requests were sent at most (a closed loop has no
    time at which one is due)."""
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    headings = ("load", "ok", "failed", *(name for name, _ in (*RATES, *TIMES)), "lag\np99 ms")
    for number, heading in enumerate(headings):
        table.add_column(said(heading), justify="left" if number == 0 else "right", no_wrap=True)
    for bench in benches:
        found = metrics_of(bench)
        table.add_row(
            _load(bench),
            f"{bench.completed:,}",
            f"{bench.failed:,}",
            *(_figure(found.get(name)) for _, name in RATES),
            *(_figure(None if (value := found.get(name)) is None else value * 1e3) for _, name in TIMES),
            bench.metadata.get("send_lag_p99_ms", NOTHING),
        )
    return table


def _load(bench: BenchResult) -> str:
    cap = bench.max_concurrency
    if bench.request_rate is None or math.isinf(bench.request_rate):
        return said("{count} in flight", count=str(cap))
    arrival = bench.metadata.get("arrival", "")
    most = "" if cap is None else said(", at most {count}", count=str(cap))
    return f"{bench.request_rate:.4g}/s {arrival}{most}"


def _figure(value: float | None) -> str:
    """Four significant digits, no exponent."""
    if value is None or not math.isfinite(value):
        return NOTHING
    digits = 3 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{min(max(digits, 0), 6)}f}"
