"""How tokens came, and what was watching: chunks, profilers, logs, clocks."""

from __future__ import annotations

from typing import Final

import numpy as np

from profiler.analyzers.fairness.needs import benches, streams, tables
from profiler.analyzers.fairness.rule import Finding, Rule, failed, pair, passed, unknown
from profiler.analyzers.fairness.side import Side, first_tokens
from profiler.analyzers.metrics import metrics_of
from profiler.model.requests import RequestTable

CHUNKS: Final = 0.05
BURST: Final = 0.001
BURSTS: Final = 0.10


def _tokens_per_chunk(table: RequestTable) -> float | None:
    """Median over requests of tokens a chunk after the first; None without such requests."""
    gaps = np.diff(table.itl_offset)
    rows = table.ok & (gaps > 0) & (table.output_tokens > 1)
    if not rows.any():
        return None
    return float(np.median((table.output_tokens[rows] - 1) / gaps[rows]))


def _same_chunks(a: Side, b: Side) -> Finding:
    records = streams(a, b)
    if isinstance(records, Finding):
        return records
    sizes = [_tokens_per_chunk(table) for table in records]
    shown = pair("tokens a chunk, median", (sizes[0], sizes[1]), "tokens")
    if sizes[0] is None or sizes[1] is None:
        return unknown("no request has chunks and counted tokens on both sides", shown, fix="stream the answers")
    if abs(sizes[1] / sizes[0] - 1) > CHUNKS:
        return failed(
            f"a chunk holds {sizes[0]:.3g} and {sizes[1]:.3g} tokens: gaps between chunks (ITL) don't "
            "compare, TPOT does",
            shown,
            fix="set one stream interval; look at TPOT",
        )
    return passed("equal chunks", shown)


def _first_token_real(a: Side, b: Side) -> Finding:
    """The client's TTFT is not far below the server's own, as an empty first chunk would make it."""
    loads = benches(a, b)
    if isinstance(loads, Finding):
        return loads
    client = [metrics_of(load).get("mean_ttft") for load in loads]
    called, first = first_tokens(a, b)
    # The server's mean counts only where it is of this load: a slow warm-up would raise it.
    server = [
        None if one is None or not side.sent or one[1] > 1.02 * side.sent else one[0]
        for side, one in zip((a, b), first, strict=True)
    ]
    shown = pair("mean TTFT, client", client, "s"), pair(called, server, "s", "metrics")
    for side, seen, own in zip((a, b), client, server, strict=True):
        if seen is not None and own is not None and seen < 0.9 * own:
            return failed(
                f"{side.run.name}'s client stops its clock {(own - seen) * 1e3:.3g} ms before the server's "
                "first token: an empty first chunk",
                *shown,
                fix="take the first chunk with text as the first token",
            )
    if None in client or None in server:
        return unknown(
            "whether the first chunk holds a token is in no file, and the server's TTFT of this load alone is "
            "not known on both sides",
            *shown,
            fix="scrape the metrics after the warm-up and after the load",
        )
    return passed("the client's first tokens are not earlier than the servers'", *shown)


def burst_share(table: RequestTable) -> float:
    """The share of chunks that came within 1 ms of the one before."""
    return float(np.mean(table.itl < BURST))


def _even_delivery(a: Side, b: Side) -> Finding:
    records = streams(a, b)
    if isinstance(records, Finding):
        return records
    shares = [burst_share(table) for table in records]
    shown = pair("chunks within 1 ms of the one before", (shares[0], shares[1]), "fraction")
    # Where a step takes no longer than that, chunks in a row are no burst. A client that is late says nothing of that.
    own = [side.first_token("itl_seconds") for side in (a, b)]
    paces = [float(np.median(table.itl)) if told is None else told[0] for table, told in zip(records, own, strict=True)]
    if min(paces) < 2 * BURST:
        return unknown(
            "tokens come every millisecond or two: a burst can't be told from the engine's own pace",
            shown,
            fix="look at TPOT",
        )
    if abs(shares[0] - shares[1]) > BURSTS:
        side = a if shares[0] > shares[1] else b
        return failed(
            f"{max(shares):.0%} of {side.run.name}'s chunks came in bursts ({min(shares):.0%} on the other "
            "side): a starved client, a proxy or the engine held tokens back; TTFT, TPOT and ITL are not the "
            "engine's",
            shown,
            fix="give the client cores of its own; send past the proxy",
        )
    return passed("chunks come alike", shown)


def _not_profiled(a: Side, b: Side) -> Finding:
    """No trace was taken while the load was measured."""
    shown = pair(
        "traces and stacks in the run",
        [len(s.run.traces) + len(s.run.stacks) for s in (a, b)],
        "count",
        "files of the run",
    )
    unsure = []
    for side in (a, b):
        window = side.fact("workload.measured_window_epoch")
        ends = [float(end) for end in window] if isinstance(window, list | tuple) else []
        traced = [t for t in side.run.traces if t.base and len(t.events)]
        for trace in traced:
            start, end = (trace.base + int(ns) for ns in (trace.events.start.min(), trace.events.end.max()))
            if len(ends) == 2 and start < ends[1] * 1e9 and end > ends[0] * 1e9:
                return failed(
                    f"{trace.path} was taken while {side.run.name}'s load was measured",
                    shown,
                    fix="measure without a profiler, trace in a pass of its own",
                )
        if side.fact("workload.profiled") is not False and not (traced and len(ends) == 2):
            unsure.append(side.run.name)
    if unsure:
        return unknown(
            f"whether a profiler ran during the load of {' and '.join(unsure)} is not stated",
            shown,
            fix="say workload.profiled and times.measured_window_s in run.json",
        )
    return passed("no profiler during the measured load", shown)


def _same_logging(a: Side, b: Side) -> Finding:
    """Whether a line is logged for every step: with tiny steps that costs a third of the throughput."""
    every = [any(log.every_step for log in side.run.logs) if side.run.logs else None for side in (a, b)]
    told = [None if one is None else "every step" if one else "sampled steps or none" for one in every]
    shown = pair("logged", told, source="; ".join(log.path for s in (a, b) for log in s.run.logs) or "no file")
    if None in every:
        return unknown("not both runs hold the server's log", shown, fix="keep the server's log")
    if every[0] != every[1]:
        return failed("one server logged every step, the other did not", shown, fix="log alike, or not at all")
    return passed("both servers logged alike", shown)


def _clocks_sane(a: Side, b: Side) -> Finding:
    records = tables(a, b)
    if isinstance(records, Finding):
        return records
    wrong = [int(((t.ttft < 0) | (t.e2e < t.ttft - 1e-6)).sum()) + int((t.itl < 0).sum()) for t in records]
    shown = pair("negative intervals", (wrong[0], wrong[1]), "count")
    if max(wrong):
        whose = " and ".join(f"{side.run.name} ({n:,})" for side, n in zip((a, b), wrong, strict=True) if n)
        return failed(
            f"the client's record holds intervals that run backwards: {whose}",
            shown,
            fix="use a client that measures with a monotonic clock",
        )
    return passed("no interval runs backwards; client and server clocks are not mixed", shown)


RULES: Final = (
    Rule("F-43", "same_chunks", "warn", _same_chunks),
    Rule("F-44", "first_token_real", "block", _first_token_real),
    Rule("F-45", "even_delivery", "warn", _even_delivery),
    Rule("F-46", "not_profiled", "block", _not_profiled),
    Rule("F-47", "same_logging", "info", _same_logging),
    Rule("F-48", "clocks_sane", "warn", _clocks_sane),
)
