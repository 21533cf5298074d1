"""Honest accounting: who was slow, what was counted."""

from __future__ import annotations

from typing import Final

import numpy as np

from profiler.analyzers.fairness.needs import benches, tables
from profiler.analyzers.fairness.rule import Finding, Rule, failed, inapplicable, pair, passed, stated, unknown
from profiler.analyzers.fairness.side import Side, first_tokens
from profiler.analyzers.metrics import metrics_of
from profiler.model.requests import Floats, RequestTable

LATE_MEDIAN: Final = 0.010
LATE_P99: Final = 0.020
LATE_OF_TTFT: Final = 0.05
ACHIEVED: Final = 0.99
# Client and server may differ by the way of a request; beyond this somebody between them was slow.
TTFT_EXCESS: Final = 0.25
TTFT_FLOOR: Final = 0.010
OMITTED: Final = 1.05
FAILURES: Final = 0.001


def _lateness(side: Side) -> tuple[float, float] | None:
    """(median, P99) of seconds from due to sent, for an open loop; from the records, or the tool's own summary."""
    if not side.open_loop or side.bench is None:
        return None
    late = None if side.requests is None else side.requests.late
    if late is not None and np.isfinite(late).any():
        known = late[np.isfinite(late)]
        return float(np.median(known)), float(np.percentile(known, 99))
    told = [side.bench.summary.get(f"{name}_send_delay") for name in ("median", "p99")]
    return None if told[0] is None or told[1] is None else (told[0], told[1])


def _client_free(a: Side, b: Side) -> Finding:
    """The client sent in time, and saw first tokens about when the server says it gave them."""
    loads = benches(a, b)
    if isinstance(loads, Finding):
        return loads
    lates = [_lateness(side) for side in (a, b)]
    medians, tails = ([None if late is None else late[i] for late in lates] for i in (0, 1))
    client = [metrics_of(load).get("mean_ttft") for load in loads]
    called, first = first_tokens(a, b)
    server = [None if one is None else one[0] for one in first]
    shown = (
        pair("sent late, median", (medians[0], medians[1]), "s"),
        pair("sent late, p99", (tails[0], tails[1]), "s"),
        pair("mean TTFT, client", (client[0], client[1]), "s"),
        pair(called, (server[0], server[1]), "s", "metrics"),
    )
    for side, load, late in zip((a, b), loads, lates, strict=True):
        allowed = max(LATE_P99, LATE_OF_TTFT * metrics_of(load).get("p50_ttft", 0.0))
        if late is not None and (late[0] >= LATE_MEDIAN or late[1] > allowed):
            return failed(
                f"{side.run.name}'s requests left {late[0] * 1e3:.3g} ms late (p99 {late[1] * 1e3:.3g} ms): "
                "the client was full",
                *shown,
                fix="use more client processes, on cores of their own",
            )
        achieved = load.summary.get("achieved_rate")
        if achieved is not None and load.request_rate and achieved < ACHIEVED * load.request_rate:
            return failed(
                f"{side.run.name}'s client sent {achieved:.4g} of {load.request_rate:.4g} requests/s",
                *shown,
                fix="use more client processes, on cores of their own",
            )
    waits = [
        f"{side.run.name}'s client saw first tokens {(seen - own) * 1e3:.3g} ms after the server's own time"
        for side, seen, own in zip((a, b), client, server, strict=True)
        if seen is not None and own and seen - own > max(TTFT_FLOOR, TTFT_EXCESS * own)
    ]
    if waits:
        detail = f"{'; '.join(waits)}: a busy client or HTTP front end, so TTFT is not the engine's"
        return failed(detail, *shown, fix="give the client cores of its own, and more processes", severity="warn")
    if all(late is not None for late in lates) or None not in server:
        return passed("requests left in time, or first tokens came when the servers say", *shown)
    return unknown(
        "neither the lateness of requests nor the servers' own TTFT is known on both sides",
        *shown,
        fix="scrape the servers' metrics, and keep when each request was due",
    )


def _no_omission(a: Side, b: Side) -> Finding:
    """No cap of the client hid a wait: latency from the moment a request was due is that from its send."""
    loads = benches(a, b)
    if isinstance(loads, Finding):
        return loads
    if a.open_loop is False and b.open_loop is False:
        return inapplicable("closed loop: latencies are those under a number of requests in flight, and no more")
    records = tables(a, b)
    late = [None, None] if isinstance(records, Finding) else [table.late for table in records]
    if isinstance(records, Finding) or late[0] is None or late[1] is None:
        return unknown(
            "when requests were due is not kept on both sides", fix="use a client that keeps when each request was due"
        )
    ends = [_p99s(table, due) for table, due in zip(records, late, strict=True) if due is not None]
    shown = pair("p99 TTFT from send", (ends[0][0], ends[1][0]), "s"), pair("from due", (ends[0][1], ends[1][1]), "s")
    for side, (sent, due) in zip((a, b), ends, strict=True):
        if due > OMITTED * sent:
            return failed(
                f"a wait in {side.run.name}'s client is not in its latencies: p99 TTFT is {due:.3g} s from "
                f"when requests were due, {sent:.3g} s from their send",
                *shown,
                fix="lift the client's cap on requests in flight, or measure from when they were due",
            )
    return passed("latency from the due time is that from the send, within 5%", *shown)


def _p99s(table: RequestTable, late: Floats) -> tuple[float, float]:
    sent = table.ttft[table.ok]
    due = (table.ttft + np.nan_to_num(late))[table.ok]
    return float(np.percentile(sent, 99)) if len(sent) else 0.0, float(np.percentile(due, 99)) if len(due) else 0.0


def _no_failures(a: Side, b: Side) -> Finding:
    """Errors count, and must not differ."""
    loads = benches(a, b)
    if isinstance(loads, Finding):
        return loads
    shown = pair("requests failed", (loads[0].failed, loads[1].failed), "count")
    shares = [load.failed / max(load.failed + load.completed, 1) for load in loads]
    if max(shares) > FAILURES:
        detail = f"{shares[0]:.1%} and {shares[1]:.1%} of the requests failed; dropped requests make a run look faster"
        return failed(detail, shown, fix="find out why requests failed, repeat")
    return passed("no request failed" if max(shares) == 0 else "at most 0.1% of the requests failed", shown)


def _no_hidden_retries(a: Side, b: Side) -> Finding:
    key = "workload.retries"
    one, two = a.number(key), b.number(key)
    shown = stated("retries", a, b, key)
    if one is None or two is None:
        return unknown(
            "no file counts retries of client or router",
            shown,
            fix="switch retries off, and say workload.retries in run.json",
        )
    if max(one, two) > 0:
        return failed("requests were sent again behind the client's back", shown, fix="switch retries off")
    return passed("no retries, as both runs say", shown)


def _all_answered(a: Side, b: Side) -> Finding:
    """Every request that was asked for is among those completed or failed."""
    loads = benches(a, b)
    if isinstance(loads, Finding):
        return loads
    asked = []
    for side, load in zip((a, b), loads, strict=True):
        told = load.metadata.get("num_prompts", "")
        asked.append(float(told) if told.isdigit() else side.number("workload.requests"))
    shown = pair("requests asked for", (asked[0], asked[1]), "count"), pair("accounted for", (a.sent, b.sent), "count")
    for side, wanted in zip((a, b), asked, strict=True):
        if wanted is not None and side.sent is not None and side.sent < wanted:
            return failed(
                f"{wanted - side.sent:g} of {side.run.name}'s {wanted:g} requests are neither completed nor failed",
                *shown,
                fix="find out which were rejected or given up; count them as failed",
            )
    if None in asked:
        return unknown(
            "how many requests were asked for is not stated on both sides", *shown, fix="keep the client's command"
        )
    return passed("every request is accounted for", *shown)


RULES: Final = (
    Rule("F-38", "client_free", "block", _client_free),
    Rule("F-39", "no_omission", "block", _no_omission),
    Rule("F-40", "no_failures", "block", _no_failures),
    Rule("F-41", "no_hidden_retries", "warn", _no_hidden_retries),
    Rule("F-42", "all_answered", "block", _all_answered),
)
