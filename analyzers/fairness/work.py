"""Same work: requests, their answers, and how they arrive."""

from __future__ import annotations

from typing import Final

import numpy as np

from profiler.analyzers.fairness.needs import benches
from profiler.analyzers.fairness.rule import Finding, Rule, failed, inapplicable, pair, passed, stated, unknown
from profiler.analyzers.fairness.side import Side
from profiler.model.requests import BenchResult

SAME_TOKENS: Final = 0.02
STOPPED_EARLY: Final = 0.005


def _same_requests(a: Side, b: Side) -> Finding:
    """As far as lengths and seeds show: as many requests, with the same output lengths in the same order."""
    loads = benches(a, b)
    if isinstance(loads, Finding):
        return loads
    counts = pair("requests sent", (a.sent, b.sent), "count")
    one, two = loads[0].requests, loads[1].requests
    fix = "send the same request set to both, by one seed"
    if a.sent != b.sent or (one is not None and two is not None and len(one) != len(two)):
        return failed("the runs sent different numbers of requests", counts, fix=fix)
    if one is None or two is None:
        return unknown(
            "no per-request records: the request sets can't be compared",
            counts,
            fix="save detailed results (--save-detailed, --output-details)",
        )
    different = int((one.output_tokens != two.output_tokens).sum())
    if different > SAME_TOKENS * len(one):
        return failed(
            f"{different} of {len(one)} requests differ in output length",
            counts,
            fix="fix output lengths (ignore_eos), one seed",
            severity="warn",
        )
    seeds = a.fact("workload.seed"), b.fact("workload.seed")
    if None not in seeds and seeds[0] != seeds[1]:
        return failed(
            f"the request sets were drawn by other seeds: {seeds[0]} and {seeds[1]}",
            counts,
            stated("seed", a, b, "workload.seed"),
            fix=fix,
            severity="warn",
        )
    return passed("as many requests, with the same output lengths in the same order", counts)


def _same_output_tokens(a: Side, b: Side) -> Finding:
    """The runs produced as many tokens, within 2%."""
    loads = benches(a, b)
    if isinstance(loads, Finding):
        return loads
    made = loads[0].total_output_tokens, loads[1].total_output_tokens
    shown = pair("output tokens", (made[0], made[1]), "tokens")
    if any(load.total_output_tokens == 0 and load.completed for load in loads):
        return unknown("output tokens were not counted on both sides", shown, fix="use a client that keeps usage")
    difference = abs(made[1] / made[0] - 1) if made[0] else 1.0
    if difference > SAME_TOKENS:
        return failed(
            f"output tokens differ by {difference:.1%}", shown, fix="fix output lengths: ignore_eos and one max_tokens"
        )
    return passed("equal output tokens, within 2%", shown)


def _stopped_early(side: Side) -> float | None:
    """The share of answers shorter than the one length that was asked for with ignore_eos; None where that is not
    known, or where lengths were drawn (less than half reach it)."""
    asked, table = side.number("workload.output_tokens"), side.requests
    if asked is None or table is None or not table.ok.any():
        return None
    short = float(np.mean(table.output_tokens[table.ok] < asked))
    return short if short <= 0.5 else None


def _length_honoured(a: Side, b: Side) -> Finding:
    flags = a.fact("workload.ignore_eos"), b.fact("workload.ignore_eos")
    told = stated("ignore_eos", a, b, "workload.ignore_eos")
    if None in flags:
        return unknown(
            "not both runs state whether answers were made to run to their full length",
            told,
            fix="keep the client's command, or say workload.ignore_eos in run.json",
        )
    if flags[0] != flags[1]:
        return failed(
            f"answers ran to their full length in one run only: ignore_eos {flags[0]} against {flags[1]}",
            told,
            fix="use --ignore-eos on both sides, or on none",
        )
    if not flags[0]:
        return inapplicable("answers end where the model ends them, on both sides")
    short = [_stopped_early(side) for side in (a, b)]
    shown = pair("answers below the length asked for", (short[0], short[1]), "fraction")
    known = [share for share in short if share is not None]
    if any(share > STOPPED_EARLY for share in known):
        return failed(
            f"{max(known):.1%} of the answers stopped early although ignore_eos was set",
            told,
            shown,
            fix="look for a context limit or a stop sequence; ask for max_tokens that fit",
        )
    if len(known) < 2:
        return unknown(
            "the length that each request asked for is not kept",
            told,
            fix="ask for one length, and keep the client's command",
        )
    return passed("answers have the length that was asked for", told, shown)


def _counted(side: Side) -> tuple[float | None, str]:
    """(tokens by another count over the client's, where that count is from); None where there is none to compare."""
    bench = side.bench
    if bench is None or not bench.total_output_tokens:
        return None, ""
    again = bench.metadata.get("total_output_tokens_retokenized", "")
    if again.replace(".", "", 1).isdigit() and float(again) > 0:
        return float(again) / bench.total_output_tokens, "counted again by the client's tokenizer"
    if side.decoded is not None:
        return (side.decoded + bench.completed) / bench.total_output_tokens, "the log's steps"
    generated = side.counter("generation_tokens")
    if not generated:
        return None, ""
    share = generated / bench.total_output_tokens
    # A scrape that began before the warm-up counts more than the load: that says nothing about the load.
    return (share if share <= 1 + SAME_TOKENS else None), "the server's counter"


def _tokens_counted_alike(a: Side, b: Side) -> Finding:
    counts = [_counted(side) for side in (a, b)]
    shown = pair(
        "tokens by the other count, of the client's",
        (counts[0][0], counts[1][0]),
        "fraction",
        "; ".join(dict.fromkeys(how for _, how in counts if how)) or "no file",
    )
    known = [share for share, _ in counts if share is not None]
    if any(abs(share - 1) > SAME_TOKENS for share in known):
        worst = max(known, key=lambda share: abs(share - 1))
        return failed(
            f"client and server disagree on the output tokens by {abs(worst - 1):.1%}",
            shown,
            fix="count by the server's usage on both sides",
        )
    if len(known) < 2:
        return unknown(
            "there is no second count of the output tokens on both sides",
            shown,
            fix="scrape the server's metrics before and after the load",
        )
    return passed("client and server count the same output tokens, within 2%", shown)


def load_of(bench: BenchResult) -> str | None:
    """How requests arrived, in words; None where the file does not say."""
    rate, cap = bench.request_rate, bench.max_concurrency
    if rate is None and cap is None:
        return None
    offered = "all at once" if rate is None or rate == float("inf") else f"{rate:g} requests/s"
    return f"{offered}, at most {cap} in flight" if cap is not None else offered


def _same_load(a: Side, b: Side) -> Finding:
    """One arrival process."""
    loads = benches(a, b)
    if isinstance(loads, Finding):
        return loads
    one, two = (load_of(load) for load in loads)
    shown = pair("load", (one, two))
    fix = "use one request rate and one concurrency for both"
    if one is None or two is None:
        return unknown("the arrival process of a run is not stated", shown, fix="keep the client's command")
    if one != two:
        return failed(f"the load differs: {one} against {two}", shown, fix=fix)
    bursts = [load.metadata.get("burstiness") for load in loads]
    if None not in bursts and a.open_loop and bursts[0] != bursts[1]:
        return failed(f"one rate, other burstiness: {bursts[0]} against {bursts[1]}", shown, fix=fix)
    return passed(f"one load: {one}", shown)


def _same_load_mode(a: Side, b: Side) -> Finding:
    modes = [None if side.open_loop is None else "open loop" if side.open_loop else "closed loop" for side in (a, b)]
    shown = pair("load mode", (modes[0], modes[1]))
    if None in modes:
        return unknown("not both runs state a rate or a number in flight", shown, fix="keep the client's command")
    if modes[0] != modes[1]:
        return failed(
            f"{a.run.name} is {modes[0]} and {b.run.name} {modes[1]}",
            shown,
            fix="send at one rate, or keep one number in flight, on both sides",
        )
    return passed(f"both {modes[0]}", shown)


def _same_interface(a: Side, b: Side) -> Finding:
    key = "workload.endpoint"
    if a.fact(key) is not None and b.fact(key) is not None:
        shown = stated("endpoint", a, b, key)
        if a.fact(key) != b.fact(key):
            return failed(
                f"the runs used {a.fact(key)} and {b.fact(key)}: the servers' work differs",
                shown,
                fix="use one endpoint",
            )
        return passed(f"both used {a.fact(key)}", shown)
    protocols = [None if side.bench is None else side.bench.client_protocol for side in (a, b)]
    shown = pair("client's protocol", (protocols[0], protocols[1]))
    if None in protocols:
        return unknown("not both runs state the interface that was used", shown, fix="keep the client's command")
    if protocols[0] != protocols[1]:
        return failed(
            f"the client spoke {protocols[0]} and {protocols[1]}, which may be other endpoints",
            shown,
            fix="use one endpoint",
            severity="warn",
        )
    return passed(f"the client spoke {protocols[0]} to both", shown)


def _same_prefix_sharing(a: Side, b: Side) -> Finding:
    """The same data share the same prefixes; prompts themselves are in no file."""
    keys = ("workload.dataset", "workload.seed")
    need = "use one data set and seed, and keep the client's command"
    shown = [stated(key.removeprefix("workload."), a, b, key) for key in keys]
    lacking = [said for said, key in zip(("data set", "seed"), keys, strict=True) if None in (a.fact(key), b.fact(key))]
    if lacking:
        verb = "is" if len(lacking) == 1 else "are"
        detail = f"{' and '.join(lacking)} {verb} not stated by both runs, and prompts are in no file"
        return unknown(detail, *shown, fix=need)
    if any(a.fact(key) != b.fact(key) for key in keys):
        return unknown("other data or another seed: how much prompts share is not known", *shown, fix=need)
    return passed("one data set and seed, so prompts share what they share on both sides", *shown)


RULES: Final = (
    Rule("F-09", "same_requests", "block", _same_requests),
    Rule("F-10", "same_output_tokens", "block", _same_output_tokens),
    Rule("F-11", "length_honoured", "block", _length_honoured),
    Rule("F-12", "tokens_counted_alike", "block", _tokens_counted_alike),
    Rule("F-13", "same_load", "block", _same_load),
    Rule("F-14", "same_load_mode", "block", _same_load_mode),
    Rule("F-15", "same_interface", "block", _same_interface),
    Rule("F-16", "same_prefix_sharing", "warn", _same_prefix_sharing),
)
