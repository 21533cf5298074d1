"""Symptoms that a run shows, and the knob that usually answers them: advice where nothing can be predicted.

Each rule needs its evidence; where a file does not hold it, the rule says nothing. Thresholds are starting values of
our own. What the engines' tuning guides say is in docs/recommend.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from profiler.analyzers.gap.measured import Measured
from profiler.analyzers.gap.played import front_of
from profiler.analyzers.metrics import metrics_of


@dataclass(frozen=True)
class Symptom:
    """``knobs``: the first that the engine has answers it; empty where no setting does."""

    name: str
    evidence: str
    knobs: tuple[str, ...]
    value: object
    text: str


Rule = Callable[[Measured], Symptom | None]
# Less of the mean TTFT than this in the queue is no waiting.
_QUEUED: Final = 0.1


def symptoms_of(measured: Measured) -> tuple[Symptom, ...]:
    """Every symptom whose evidence the run holds."""
    return tuple(found for rule in _RULES if (found := rule(measured)) is not None)


def _at_the_limit(measured: Measured) -> Symptom | None:
    share = measured.limits.get("sequence limit", 0.0)
    waiting = _waiting(measured)
    usage = measured.gauges.get("kv_usage_max")
    if share < 0.3 or not waiting or (usage is not None and usage > 0.85):
        return None
    return Symptom(
        "requests wait while steps are at the sequence limit",
        f"{share:.0%} of the steps at the limit; {waiting}",
        ("max_num_seqs",),
        None,
        "raise the limit, with captured sizes that cover it",
    )


def _held_back(measured: Measured) -> Symptom | None:
    share, waiting, usage = (
        measured.limits.get("sequence limit"),
        _waiting(measured),
        measured.gauges.get("kv_usage_max"),
    )
    if share is None or share > 0.05 or not waiting or usage is None or usage > 0.85:
        return None
    name = "requests wait although neither the sequence limit nor the KV cache is reached"
    evidence = f"{waiting}; KV cache at most {usage:.0%}"
    if measured.limits.get("token budget", 0.0) > 0.2:
        return Symptom(name, evidence, ("token_budget",), None, "raise the token budget")
    text = "admit requests with less caution; look for what else limits admission: token budget, policy"
    return Symptom(name, evidence, ("admission_caution", "token_budget"), None, text)


def _preempting(measured: Measured) -> Symptom | None:
    count, usage = measured.counters.get("preemptions", 0.0), measured.gauges.get("kv_usage_max", 0.0)
    # One a minute is no harm, say the guides.
    if usage < 0.9 or count * 60.0 <= max(measured.duration, 60.0):
        return None
    return Symptom(
        "sequences are preempted",
        f"{count:.0f} preemptions; KV cache up to {usage:.0%}",
        ("memory_fraction",),
        None,
        "give the KV cache more memory, store it in 8 bits, or lower the sequence limit",
    )


def _client_limited(measured: Measured) -> Symptom | None:
    gauges, account = measured.gauges, measured.traced
    if account is None or account.steps is None or "waiting_requests_max" not in gauges:
        return None
    idle = account.idle.get("no work", 0) + account.idle.get("outside the steps", 0)
    if gauges["waiting_requests_max"] > 0 or not account.window_ns or idle / account.window_ns < 0.2:
        return None
    return Symptom(
        "the client does not send enough",
        f"no request ever waited; {idle / account.window_ns:.0%} of the trace has no work",
        (),
        None,
        "raise the load before comparing engines",
    )


def _eager(measured: Measured) -> Symptom | None:
    account = measured.traced
    use = None if account is None else account.graphs
    if use is None or measured.device != "gpu" or not len(use.mode):
        return None
    eager, launch = use.share("eager") or 0.0, account.idle.get("in step: launch", 0) if account is not None else 0
    waits = launch / account.window_ns if account is not None and account.window_ns else 0.0
    if eager < 0.5 or waits < 0.1:
        return None
    return Symptom(
        "steps run eagerly and wait for launches",
        f"{eager:.0%} of the traced steps; {waits:.0%} of the device's time",
        ("cuda_graph",),
        True,
        "let decode steps replay graphs; check what keeps them from it",
    )


def _host_between(measured: Measured) -> Symptom | None:
    account = measured.traced
    if account is None or measured.device != "gpu" or not account.window_ns:
        return None
    between = sum(ns for cause, ns in account.idle.items() if cause.startswith("between steps"))
    if between / account.window_ns < 0.1 or measured.run.fact("setting.overlap") is True:
        return None
    return Symptom(
        "the device waits for the host between steps",
        f"{between / account.window_ns:.0%} of the traced time",
        ("overlap",),
        True,
        "schedule the next step while this one runs",
    )


def _interference(measured: Measured) -> Symptom | None:
    metrics, steps = metrics_of(measured.bench), measured.steps
    if steps is None or steps.own is None or not {"p99_itl", "p50_itl"} <= metrics.keys() or not metrics["p50_itl"]:
        return None
    mixed = (steps.load.prefill_tokens > 0) & ((steps.load.decode > 0) | (steps.load.stalled > 0))
    pure = (steps.load.prefill_tokens == 0) & (steps.load.decode > 0)
    if not mixed.any() or not pure.any():
        return None
    factor = float(np.median(steps.own[mixed]) / max(float(np.median(steps.own[pure])), 1e-9))
    ratio = metrics["p99_itl"] / metrics["p50_itl"]
    if ratio < 3 or factor < 2:
        return None
    return Symptom(
        "prefills hold up decodes",
        f"p99 ITL is {ratio:.1f} times the median; steps with prompt tokens take {factor:.1f} times as long",
        ("token_budget",),
        None,
        "lower the token budget, or let prefills come less often",
    )


def _outside(measured: Measured) -> Symptom | None:
    client, metrics = front_of(measured).first, metrics_of(measured.bench)
    ttft = metrics.get("mean_ttft")
    if not ttft or client / ttft < 0.3:
        return None
    name, evidence = "TTFT passes outside the engine", f"{client:.3g} s of {ttft:.3g} s"
    if measured.device == "cpu":  # more processes need cores to spare, say the guides
        text = "the model, the front end and perhaps the client share the cores: give them their own"
        return Symptom(name, evidence, (), None, f"{text}; look at the network")
    text = "more processes for HTTP and tokenizing; look at the network"
    return Symptom(name, evidence, ("frontend_processes",), None, text)


def _no_hits(measured: Measured) -> Symptom | None:
    cache = measured.run.fact("setting.prefix_cache")
    if cache is not False:
        return None
    return Symptom(
        "the prefix cache is off",
        "setting prefix_cache",
        ("prefix_cache",),
        True,
        "switch it on where prompts share beginnings",
    )


def _waiting(measured: Measured) -> str:
    """What shows that requests waited; empty where nothing does, or only a burst: one sample is no queue, nor is what
    the engine itself counts as next to no time in it."""
    gauges, steps = measured.gauges, measured.steps
    count, ttft = measured.counters.get("queue_seconds_count", 0.0), metrics_of(measured.bench).get("mean_ttft")
    if count and ttft and measured.counters.get("queue_seconds_sum", 0.0) / count < _QUEUED * ttft:
        return ""
    seen = sum(snapshot.values.get("waiting_requests", 0.0) > 0 for snapshot in measured.run.snapshots)
    if gauges.get("waiting_requests_max", 0.0) > 0 and seen > 1:
        return f"up to {gauges['waiting_requests_max']:.0f} requests wait"
    if steps is not None and steps.table is not None and (steps.table.waiting > 0).any():
        return f"up to {int(steps.table.waiting.max())} requests wait"
    return ""


_RULES: Final[tuple[Rule, ...]] = (
    _at_the_limit,
    _held_back,
    _preempting,
    _eager,
    _host_between,
    _interference,
    _outside,
    _no_hits,
    _client_limited,
)
