"""Each engine tuned, by the same effort: settings, capacity, layout."""

from __future__ import annotations

from typing import Final

from profiler.analyzers.fairness.needs import two_engines
from profiler.analyzers.fairness.rule import (
    Finding,
    Rule,
    failed,
    inapplicable,
    pair,
    passed,
    sources,
    stated,
    unknown,
)
from profiler.analyzers.fairness.side import Side

CAPACITY: Final = 0.10
FULL: Final = 0.90
PINNED: Final = 0.20
GRAPH_SHARES: Final = 0.10
MOST_TRIALS: Final = 2.0
LAYOUT: Final = ("setting.tensor_parallel", "setting.pipeline_parallel", "setting.data_parallel")


def _tuned(a: Side, b: Side) -> Finding:
    key = "engine.tuned"
    if (alone := two_engines(a, b)) is not None:
        return alone
    if a.fact(key) is None or b.fact(key) is None:
        return unknown(
            "no file says whether an engine's settings were chosen or left at its defaults",
            stated("tuned", a, b, key),
            fix="say engine.tuned in run.json, and how",
        )
    left = [side.run.name for side in (a, b) if side.fact(key) is False]
    if left:
        return failed(
            f"{' and '.join(left)} was left at its defaults",
            stated("tuned", a, b, key),
            fix="tune both engines by their own advice",
        )
    return passed("both were tuned, as their runs say", stated("tuned", a, b, key))


def _same_tuning_effort(a: Side, b: Side) -> Finding:
    key = "engine.tuning_trials"
    if (alone := two_engines(a, b)) is not None:
        return alone
    one, two = a.number(key), b.number(key)
    if one is None or two is None:
        return unknown(
            "no file says how many settings were tried",
            stated("trials", a, b, key),
            fix="say engine.tuning_trials in run.json",
        )
    if max(one, two) > MOST_TRIALS * max(min(one, two), 1):
        return failed(
            f"tuned with {one:g} and {two:g} trials",
            stated("trials", a, b, key),
            fix="give both engines the same number of trials",
        )
    return passed("about as many trials", stated("trials", a, b, key))


def _same_kv_capacity(a: Side, b: Side) -> Finding:
    shown = [
        pair(
            "KV capacity", (a.kv_tokens, b.kv_tokens), "tokens", sources(a, b, "setting.kv_tokens", "setting.kv_blocks")
        )
    ]
    if not a.kv_tokens or not b.kv_tokens:
        return unknown("not both runs state their KV cache's capacity in tokens", *shown, fix="keep the server's log")
    if abs(b.kv_tokens / a.kv_tokens - 1) <= CAPACITY:
        return passed("equal within 10%", *shown)
    used = [side.gauges.get("kv_usage_max") for side in (a, b)]
    shown.append(pair("most in use", (used[0], used[1]), "fraction", "metrics"))
    full = [share for share in used if share is not None and share >= FULL]
    detail = f"room for {a.kv_tokens:,.0f} and {b.kv_tokens:,.0f} tokens"
    fix = "set the capacity in tokens, not the share of memory"
    if full:
        return failed(f"{detail}, and one was full: a cause of the gap (memory)", *shown, fix=fix, severity="warn")
    if None in used:
        return failed(f"{detail}; whether one was full is not known", *shown, fix=fix)
    return failed(f"{detail}; neither was full", *shown, fix=fix)


def _batch_limit_alike(a: Side, b: Side) -> Finding:
    limits = a.number("setting.max_num_seqs"), b.number("setting.max_num_seqs")
    steps = "; ".join(dict.fromkeys((a.pinned_source, b.pinned_source)))
    shown = (
        pair("sequence limit", limits, "sequences", sources(a, b, "setting.max_num_seqs")),
        pair("steps at it", (a.pinned, b.pinned), "fraction", steps),
    )
    if a.pinned is None or b.pinned is None:
        return unknown(
            "the sequence limit, or the batches under it, are not known in both runs",
            *shown,
            fix="keep the server's log with a line a step",
        )
    if (a.pinned >= PINNED) != (b.pinned >= PINNED):
        side = a if a.pinned >= PINNED else b
        return failed(
            f"{side.run.name} ran at its limit in {side.pinned:.0%} of the steps, the other did not: a cause "
            "of the gap (batching)",
            *shown,
            fix="raise the limit, or set one on both sides",
        )
    return passed("neither, or both, ran at the limit", *shown)


def _graphs_alike(a: Side, b: Side) -> Finding:
    shares, source = (a.graph_share, b.graph_share), "log or metrics"
    if None in shares and None not in (replays := (a.traced_replays, b.traced_replays)):
        shares, source = replays, "traces"
    shown = (
        stated("CUDA Graphs", a, b, "setting.cuda_graph"),
        pair("decode steps replayed", shares, "fraction", source),
    )
    fix = "switch graphs on, or off, on both sides; capture the batch sizes that occur"
    if shares[0] is not None and shares[1] is not None:
        if abs(shares[0] - shares[1]) > GRAPH_SHARES:
            return failed(
                f"{shares[0]:.0%} and {shares[1]:.0%} of the decode steps replayed a graph: a cause of the "
                "gap (CUDA Graph)",
                *shown,
                fix=fix,
            )
        return passed("equal within 10 points", *shown)
    switches = [side.fact("setting.cuda_graph") for side in (a, b)]
    if None not in switches and switches[0] != switches[1]:
        return failed("graphs are on in one run only: a cause of the gap (CUDA Graph)", *shown, fix=fix)
    if switches == [False, False]:
        return passed("off on both sides", *shown)
    return unknown(
        "how many steps replayed a graph is not known in both runs",
        *shown,
        fix="keep the server's log with a line a step, or its metrics, or trace both runs",
    )


def devices_used(side: Side) -> float | None:
    """Devices that the parallel layout takes, None where it is not stated."""
    sizes = [side.number(key) for key in LAYOUT]
    if sizes[0] is None:
        return None
    total = 1.0
    for size in sizes:
        total *= size if size is not None and size >= 1 else 1.0
    return total


def _devices_counted(a: Side, b: Side) -> Finding:
    if a.on_cpu and b.on_cpu:
        return inapplicable("no accelerators to count")
    used = devices_used(a), devices_used(b)
    held = a.number("hardware.count"), b.number("hardware.count")
    shown = (
        pair("devices in the layout", used, "count", sources(a, b, LAYOUT[0])),
        pair("devices of the machine", held, "count", sources(a, b, "hardware.count")),
    )
    if used[0] is None or used[1] is None:
        return unknown("not both runs state their parallel layout", *shown, fix="keep the server's log or command")
    for side, layout, machine in zip((a, b), used, held, strict=True):
        if machine is not None and layout is not None and layout > machine:
            return failed(
                f"{side.run.name}'s layout takes {layout:g} devices and its files show {machine:g}",
                *shown,
                fix="say hardware.count in run.json, all machines together",
            )
    if used[0] != used[1]:
        return failed(
            f"the layouts take {used[0]:g} and {used[1]:g} devices: throughput compares per device only",
            *shown,
            fix="use as many devices, or compare per device (profiler goodput)",
        )
    return passed(f"both layouts take {used[0]:g}", *shown)


def _speculation(side: Side) -> str | None:
    told = side.fact("setting.speculative")
    if told is not None and str(told).lower() not in ("", "none", "false"):
        return str(told)
    if side.counter("draft_tokens"):
        return "drafts counted"
    return "none" if told is not None or side.told_by_command else None


def _same_speculation(a: Side, b: Side) -> Finding:
    used = _speculation(a), _speculation(b)
    lengths: list[float | None] = []
    for side in (a, b):
        drafted, accepted = side.counter("draft_tokens"), side.counter("accepted_tokens")
        lengths.append(accepted / drafted if drafted and accepted is not None else None)
    shown = (
        pair("speculative decoding", used, source=sources(a, b, "setting.speculative", "engine.command")),
        pair("drafts accepted", (lengths[0], lengths[1]), "fraction", "metrics"),
    )
    if None in used:
        return unknown("not both runs state whether they decode speculatively", *shown, fix="keep the server's command")
    if any("synthetic" in str(told) for told in used):
        return failed("the acceptance of drafts is made up", *shown, fix="use a real draft model", severity="block")
    if used[0] != used[1]:
        return failed(
            "the runs decode speculatively in other ways; what that saves is booked under speculation",
            *shown,
            fix="use one method and draft on both sides, or none",
        )
    return passed("none on both sides" if used[0] == "none" else "the same on both sides", *shown)


RULES: Final = (
    Rule("F-29", "tuned", "warn", _tuned),
    Rule("F-30", "same_tuning_effort", "warn", _same_tuning_effort),
    Rule("F-31", "same_kv_capacity", "info", _same_kv_capacity),
    Rule("F-32", "batch_limit_alike", "warn", _batch_limit_alike),
    Rule("F-33", "graphs_alike", "warn", _graphs_alike),
    Rule("F-34", "devices_counted", "block", _devices_counted),
    Rule("F-35", "same_speculation", "warn", _same_speculation),
)
