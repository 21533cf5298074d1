"""Results over loads: curves, percentiles, saturation."""

from __future__ import annotations

from typing import Final

import numpy as np

from profiler.analyzers.fairness.needs import benches
from profiler.analyzers.fairness.rule import (
    Finding,
    Rule,
    failed,
    inapplicable,
    pair,
    passed,
    stated,
    unknown,
)
from profiler.analyzers.fairness.side import Side
from profiler.analyzers.gap import spread
from profiler.analyzers.metrics import PERCENTILES, metrics_of
from profiler.model.requests import BenchResult

ENOUGH_LOADS: Final = 5
Load = tuple[float | None, int | None]


def loads_of(side: Side) -> dict[Load, BenchResult]:
    """The run's results by load (rate, requests in flight), the last of each."""
    return {(bench.request_rate, bench.max_concurrency): bench for bench in side.run.benches}


def _curves(a: Side, b: Side) -> Finding:
    counts = len(loads_of(a)), len(loads_of(b))
    shared = len(loads_of(a).keys() & loads_of(b).keys())
    shown = pair("loads measured", (counts[0], counts[1]), "count")
    if not min(counts):
        return unknown("a run holds no benchmark result", shown, fix="add the load generator's result file")
    if min(counts) < ENOUGH_LOADS:
        return failed(
            f"{counts[0]} and {counts[1]} load points: what is said holds at this load, and may turn at another",
            shown,
            fix="sweep five loads from idle to past saturation (profiler goodput)",
        )
    if shared < ENOUGH_LOADS:
        return failed(f"only {shared} loads are the same in both sweeps", shown, fix="sweep the same loads")
    return passed(f"{shared} loads in both", shown)


def _objective_stated(a: Side, b: Side) -> Finding:
    claimed = [side.bench is not None and bool(side.bench.summary.get("request_goodput")) for side in (a, b)]
    if not any(claimed):
        return inapplicable("no goodput is claimed by the tool (profiler goodput computes it for an SLO)")
    key = "workload.goodput"
    if a.fact(key) is None or b.fact(key) is None:
        return unknown(
            "a tool's goodput is given without its objective",
            stated("objective", a, b, key),
            fix="say workload.goodput in run.json, or compute it with --slo",
        )
    if a.fact(key) != b.fact(key):
        return failed("the goodputs are for different objectives", stated("objective", a, b, key), fix="use one SLO")
    return passed("one objective", stated("objective", a, b, key))


def _over_all_sent(a: Side, b: Side) -> Finding:
    loads = benches(a, b)
    if isinstance(loads, Finding):
        return loads
    shown = pair("requests failed", (loads[0].failed, loads[1].failed), "count")
    if loads[0].failed == loads[1].failed == 0:
        return passed("nothing failed, so attainment over those served is that over those sent", shown)
    lacking = [
        side.run.name for side in (a, b) if side.bench is not None and side.bench.failed and side.requests is None
    ]
    if lacking:
        return unknown(
            f"requests of {' and '.join(lacking)} failed, and single ones are not kept",
            shown,
            fix="save detailed results: failed requests then count as misses",
        )
    return passed("failed requests are kept, and count as misses", shown)


def _percentiles(a: Side, b: Side) -> Finding:
    loads = benches(a, b)
    if isinstance(loads, Finding):
        return loads
    wanted = [f"p{rank}_{name}" for name in ("ttft", "tpot", "e2e") for rank in PERCENTILES]
    known = [metrics_of(load) for load in loads]
    counts = pair("percentiles known", [sum(name in metrics for name in wanted) for metrics in known], "count")
    missing = [name for name in wanted if any(name not in metrics for metrics in known)]
    if missing:
        return failed(
            f"not in both runs: {', '.join(missing)}",
            counts,
            fix="save detailed results: every percentile then follows",
        )
    return passed("P50, P90 and P99 of TTFT, TPOT and E2E are known", counts)


def _no_crossing(a: Side, b: Side) -> Finding:
    """Where both runs were measured at several equal loads, one of them leads at all of them."""
    ours, theirs = loads_of(a), loads_of(b)
    noise = spread.NORMAL_95 * spread.of_difference(None, None)
    leads: dict[str, list[str]] = {"a": [], "b": []}
    shared = [load for load in ours if load in theirs]
    for load in shared:
        rates = [
            bench.total_output_tokens / bench.duration if bench.duration > 0 else 0.0
            for bench in (ours[load], theirs[load])
        ]
        if min(rates) <= 0:
            continue
        ratio = float(np.log(rates[1] / rates[0]))
        if abs(ratio) > noise:
            leads["b" if ratio > 0 else "a"].append(_named(load))
    if len(shared) < 2:
        return inapplicable("one load at most is the same in both runs: no curves to cross")
    shown = pair("leads at", (", ".join(leads["a"]) or "no load", ", ".join(leads["b"]) or "no load"))
    if leads["a"] and leads["b"]:
        return failed(
            f"the curves cross: {a.run.name} serves more at {', '.join(leads['a'])}, {b.run.name} at "
            f"{', '.join(leads['b'])}",
            shown,
            fix="say which load counts; profiler goodput gives the ranges",
        )
    return passed(f"no crossing over {len(shared)} equal loads", shown)


def _named(load: Load) -> str:
    rate, cap = load
    return f"{rate:g} requests/s" if rate is not None and np.isfinite(rate) else f"{cap} in flight"


def _same_saturation(a: Side, b: Side) -> Finding:
    if a.open_loop is False and b.open_loop is False:
        return inapplicable("closed loop: the client waits for the server, no queue can grow without bound")
    grown = a.saturated, b.saturated
    shown = pair("queue grew", [None if one is None else str(one).lower() for one in grown])
    if None in grown:
        return unknown(
            "whether a queue grew is not known in both runs", shown, fix="save detailed results with send times"
        )
    if grown[0] != grown[1]:
        full = a if grown[0] else b
        return failed(
            f"{full.run.name} is saturated at this rate and the other is not: latencies don't compare",
            shown,
            fix="compare latencies at a rate that both sustain",
        )
    return passed("both saturated" if grown[0] else "neither is saturated", shown)


RULES: Final = (
    Rule("F-49", "curves", "warn", _curves),
    Rule("F-50", "objective_stated", "block", _objective_stated),
    Rule("F-51", "over_all_sent", "block", _over_all_sent),
    Rule("F-52", "percentiles", "warn", _percentiles),
    Rule("F-53", "no_crossing", "block", _no_crossing),
    Rule("F-54", "same_saturation", "warn", _same_saturation),
)
