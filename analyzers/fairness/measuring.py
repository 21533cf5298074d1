"""Same way of measuring: warm-up, cache state, length, repeats."""

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
from profiler.analyzers.repeats import log_rates

HIT_RATES: Final = 0.02
CACHE_STATES: Final = 0.10
LONG_ENOUGH: Final = 60.0
TURNS: Final = 10
ENOUGH_FOR_P99: Final = 299


def _warmed_up(a: Side, b: Side) -> Finding:
    shown = stated("warm-up requests", a, b, "workload.warmups")
    fix = "send twice as many warm-up requests as are in flight"
    lacking = []
    for side in (a, b):
        sent = side.number("workload.warmups")
        if sent is None:
            return unknown(
                "not both runs state how many requests warmed the server up",
                shown,
                fix="keep the client's command, or say workload.warmups in run.json",
            )
        wanted = 2 * ((side.bench.max_concurrency if side.bench is not None else None) or 1)
        if sent < wanted:
            lacking.append(f"{side.run.name} sent {sent:g} where {wanted} would reach every batch size")
    if lacking:
        return failed("; ".join(lacking) + ": what is compiled or captured late is measured", shown, fix=fix)
    return passed("both warmed up with at least twice the requests in flight", shown)


def _same_cache_state(a: Side, b: Side) -> Finding:
    switches = [side.fact("setting.prefix_cache") for side in (a, b)]
    rates = a.hit_rate, b.hit_rate
    shown = stated("prefix cache", a, b, "setting.prefix_cache"), pair("hit rate", rates, "fraction", "metrics")
    if None in switches:
        return unknown(
            "not both runs state whether the prefix cache was on", *shown, fix="keep the server's log or command"
        )
    if switches[0] != switches[1]:
        return failed(
            "the prefix cache is on in one run only; what it saves is booked under memory",
            *shown,
            fix="switch it on, or off, on both sides",
            severity="warn",
        )
    if switches[0] is False:
        return passed("off on both sides", *shown)
    if rates[0] is None or rates[1] is None:
        return unknown(
            "on in both, and the hits of a run were not counted",
            *shown,
            fix="scrape the metrics before and after the load",
        )
    # Another setting may change what is found (a small token budget does); one engine set alike finds as much.
    one = a.fact("engine.name") is not None and a.fact("engine.name") == b.fact("engine.name")
    if one and a.settings == b.settings and abs(rates[1] - rates[0]) > CACHE_STATES:
        return failed(
            f"one engine, set alike, yet {rates[0]:.0%} and {rates[1]:.0%} of the prompt tokens were "
            "cached: one run began with a warm cache",
            *shown,
            fix="flush the cache before each load",
        )
    return passed("on in both, no sign that one began warm", *shown)


def _cache_hits_alike(a: Side, b: Side) -> Finding:
    shown = pair("hit rate", (a.hit_rate, b.hit_rate), "fraction", "metrics")
    if a.hit_rate is None or b.hit_rate is None:
        return unknown(
            "the prefix cache's hits were not counted on both sides",
            shown,
            fix="scrape the metrics before and after the load",
        )
    if abs(a.hit_rate - b.hit_rate) > HIT_RATES:
        detail = f"{a.hit_rate:.1%} and {b.hit_rate:.1%} of the prompt tokens came from the cache"
        return failed(f"{detail}: booked under memory", shown, fix="use prompts that share nothing, or say it")
    return passed("equal hit rates, within 2 points", shown)


def _long_enough(a: Side, b: Side) -> Finding:
    loads = benches(a, b)
    if isinstance(loads, Finding):
        return loads
    shown = (
        pair("duration", (loads[0].duration, loads[1].duration), "s"),
        pair("requests sent", (a.sent, b.sent), "count"),
    )
    growing = [side.run.name for side in (a, b) if side.saturated]
    if growing:
        return failed(
            f"the queue grew to the end in {' and '.join(growing)}: latencies depend on the run's length",
            *shown,
            fix="send at a rate that the server sustains",
        )
    short = [
        f"{side.run.name} lasted {load.duration:.3g} s"
        for side, load in zip((a, b), loads, strict=True)
        if load.duration < LONG_ENOUGH
    ]
    short += [
        f"{side.run.name} sent {side.sent} requests at {load.max_concurrency} in flight"
        for side, load in zip((a, b), loads, strict=True)
        if load.max_concurrency and (side.sent or 0) < TURNS * load.max_concurrency
    ]
    if short:
        return failed(
            "; ".join(short) + ": ramp and drain weigh in (60 s and ten turns are wanted)",
            *shown,
            fix="send more requests",
        )
    return passed("at least 60 s, and ten times the requests in flight", *shown)


def _enough_for_p99(a: Side, b: Side) -> Finding:
    """A 99th percentile needs 299 requests to be bounded by the largest of them."""
    loads = benches(a, b)
    if isinstance(loads, Finding):
        return loads
    done = loads[0].completed, loads[1].completed
    shown = pair("requests completed", (done[0], done[1]), "count")
    if min(done) < ENOUGH_FOR_P99:
        return failed(f"{min(done)} requests don't carry a 99th percentile (299 do)", shown, fix="send more requests")
    return passed("enough requests for a 99th percentile", shown)


def _repeats(a: Side, b: Side) -> Finding:
    """One start of each engine does not show how far starts differ."""
    if a.bench is None or b.bench is None:
        return inapplicable("nothing was measured that could be repeated")
    counts = len(a.repeats), len(b.repeats)
    shown = [pair("results of this load", (counts[0], counts[1]), "count")]
    spans = [max(rates) - min(rates) for side in (a, b) if len(rates := log_rates(side.repeats)) > 1]
    fix = "repeat both runs, alternating, three times"
    if max(counts) == 1:
        return failed("one start of each run: the spread between starts is assumed, not measured", *shown, fix=fix)
    spread = f"repeats of one side differ by up to {float(np.expm1(max(spans))):.1%}"
    if min(counts) < 3:
        return failed(
            f"{counts[0]} and {counts[1]} results of this load, three of each are wanted; {spread}", *shown, fix=fix
        )
    return passed(f"{counts[0]} and {counts[1]} results of this load; {spread}", *shown)


RULES: Final = (
    Rule("F-23", "warmed_up", "warn", _warmed_up),
    Rule("F-24", "same_cache_state", "block", _same_cache_state),
    Rule("F-25", "cache_hits_alike", "warn", _cache_hits_alike),
    Rule("F-26", "long_enough", "warn", _long_enough),
    Rule("F-27", "enough_for_p99", "warn", _enough_for_p99),
    Rule("F-28", "repeats", "warn", _repeats),
)
