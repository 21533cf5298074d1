"""The figures of the scheduler: what steps carried against the limits, what waited, and what the cache saved.

From the log's steps where it has them, from the counters of the metrics else. The measured load's part of both is used
where a benchmark ties it down, the whole recording else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from profiler.analyzers.gap.measured import counters_of
from profiler.analyzers.gap.window import measured_window
from profiler.analyzers.log_figures import log_figures
from profiler.model.inspection import Figure, Section
from profiler.model.requests import Floats, Ints
from profiler.model.run import Run
from profiler.model.steps import EngineLog, StepTable

_FULL: Final = 0.97


def serving_figures(run: Run) -> tuple[Figure, ...]:
    """Batching, queueing, memory and cache of a run, as far as its files say."""
    bench = run.benches[-1] if run.benches else None
    counters, gauges = counters_of(run.snapshots, bench)
    found: list[Figure] = []
    for log in run.logs:
        if len(log.steps):
            window = None if bench is None else measured_window(log.steps, bench, log.every_step)
            steps = log.steps if window is None else window.steps
            part = "the whole log" if window is None else window.how
            found += _steps(run, steps, f"{log.path}, {part}", log.every_step)
        found += _stated(log)
        found += log_figures(log)
    metrics = "metrics" if counters or gauges else ""
    found += _counted(run, counters, gauges, metrics)
    return tuple(found)


def _stated(log: EngineLog) -> list[Figure]:
    """What lines state whether or not the log has steps."""
    found = []
    length, collections = log.readings.get("accepted_length"), log.readings.get("gc_seconds")
    if length is not None:
        detail = f"the target's own included; mean of {len(length.value):,} lines"
        found.append(_figure("speculation", "accepted length", float(length.value.mean()), "tokens", detail, log.path))
    if collections is not None:
        spent = collections.value
        detail = f"{len(spent):,} collections, the longest {spent.max():.3g} s"
        found.append(_figure("host", "garbage collection", float(spent.sum()), "s", detail, log.path))
    return found


def _figure(section: Section, name: str, value: float | None, unit: str, detail: str, source: str) -> Figure:
    return Figure(section=section, name=name, value=value, unit=unit, detail=detail, source=source)


def _steps(run: Run, steps: StepTable, source: str, every_step: bool) -> list[Figure]:
    decode, prefill = _known(steps.decode_requests), _known(steps.prefill_requests)
    tokens = _known(steps.decode_tokens) + _known(steps.prefill_tokens)
    running = decode + prefill
    busy = running > 0
    if not busy.any():
        return []
    rows: list[Figure] = []

    def add(name: str, value: float | None, unit: str, detail: str = "") -> None:
        rows.append(_figure("batching", name, value, unit, detail, source))

    some = running[busy]
    # Lines of sampled decode steps are no even sample of all steps.
    sampled = "" if every_step else "; decode steps are sampled in this log"
    spread = f"median {np.median(some):.0f}, 95th percentile {np.percentile(some, 95):.0f}, at most {some.max():.0f}"
    add("sequences a step", float(some.mean()), "sequences", spread + sampled)
    limit = _number(run, "setting.max_num_seqs")
    if limit:
        add("steps at the sequence limit", float((some >= _FULL * limit).mean()), "fraction", f"limit {limit:.0f}")
    if tokens.any():
        add("tokens a step", float(tokens[busy].mean()), "tokens", f"at most {tokens.max():.0f}")
        budget = _number(run, "setting.token_budget")
        if budget:
            full = float((tokens[busy] >= _FULL * budget).mean())
            add("steps at the token budget", full, "fraction", f"budget {budget:.0f}")
    only = (prefill > 0) & (decode == 0)
    add("steps that only prefill", float(only[busy].mean()), "fraction",
        f"{float(((prefill > 0) & (decode > 0))[busy].mean()):.1%} of the steps are mixed")  # fmt: skip
    stalled = _stalled(decode, only, steps.seconds)
    if stalled is not None:
        add("time in which decodes waited for a prefill step", stalled, "s")
    if (steps.waiting >= 0).any():
        waiting = steps.waiting[steps.waiting >= 0]
        add("requests waiting, mean", float(waiting.mean()), "requests",
            f"in {float((waiting > 0).mean()):.1%} of the steps; at most {waiting.max():,}")  # fmt: skip
    graph = steps.graph[steps.graph >= 0]
    if len(graph):
        rows.append(_figure("CUDA Graph", "steps replayed, as the log says", float(graph.mean()), "fraction",
                            f"{len(graph):,} steps", source))  # fmt: skip
    usage = steps.kv_usage[np.isfinite(steps.kv_usage)]
    if len(usage):
        rows.append(_figure("memory and cache", "KV cache in use", float(usage.mean()), "fraction",
                            f"at most {usage.max():.1%}", source))  # fmt: skip
    cached, computed = steps.cached_tokens, steps.prefill_tokens
    known = (cached >= 0) & (computed >= 0)
    asked = float(cached[known].sum() + computed[known].sum())
    if asked:
        rows.append(_figure("memory and cache", "prompt tokens found in the prefix cache",
                            float(cached[known].sum()) / asked, "fraction", f"of {asked:,.0f}", source))  # fmt: skip
    return rows


def _known(column: Ints) -> Floats:
    return np.maximum(column, 0).astype(np.float64)


def _stalled(decode: Floats, only_prefill: np.ndarray, seconds: Floats) -> float | None:
    """Seconds of prefill-only steps that ran while sequences were in decode; None where steps are not timed."""
    if not np.isfinite(seconds).any():
        return None
    before = np.concatenate([[0.0], decode[:-1]])
    # A run of prefill steps stalls whoever was decoding before it.
    last = np.maximum.accumulate(np.where(~only_prefill, np.arange(len(decode)), -1))
    before = np.where(last >= 0, decode[np.maximum(last, 0)], 0.0)
    return float(np.nansum(seconds[only_prefill & (before > 0)]))


def _counted(run: Run, counters: Mapping[str, float], gauges: Mapping[str, float], source: str) -> list[Figure]:
    rows: list[Figure] = []
    raw, _ = counters_of(run.snapshots, None)

    def add(section: Section, name: str, value: float | None, unit: str, detail: str = "") -> None:
        rows.append(_figure(section, name, value, unit, detail, source))

    if "running_requests" in gauges:
        add("batching", "requests running, mean", gauges["running_requests"], "requests",
            f"at most {gauges['running_requests_max']:.0f}")  # fmt: skip
    if "waiting_requests" in gauges:
        often, most = gauges["waiting_requests_share"], gauges["waiting_requests_max"]
        detail = f"in {often:.1%} of the samples; at most {most:,.0f}"
        add("batching", "requests waiting, mean", gauges["waiting_requests"], "requests", detail)
    for name, title in (("queue_seconds", "time in the queue, a request"), ("step_tokens", "tokens a step")):
        count = counters.get(f"{name}_count", 0.0)
        if count:
            unit = "s" if name == "queue_seconds" else "tokens"
            add("batching", title, counters.get(f"{name}_sum", 0.0) / count, unit)
    drafted, drafts = counters.get("draft_tokens"), counters.get("drafts")
    accepted = counters.get("accepted_tokens", 0.0)
    if drafted:
        add("speculation", "draft tokens accepted", accepted / drafted, "fraction", f"of {drafted:,.0f}")
    if drafts:
        add(
            "speculation",
            "accepted length",
            1 + accepted / drafts,
            "tokens",
            f"the target's own included; {drafts:,.0f} drafts",
        )
    elif gauges.get("accepted_length", 0.0) >= 1:
        add("speculation", "accepted length", gauges["accepted_length"], "tokens", "the target's own included; a gauge")
    capacity = _number(run, "setting.kv_tokens")
    if capacity:
        rows.append(_figure("memory and cache", "KV cache capacity", capacity, "tokens", "",
                            run.facts["setting.kv_tokens"].source))  # fmt: skip
    if "kv_usage" in gauges:
        add(
            "memory and cache",
            "KV cache in use",
            gauges["kv_usage"],
            "fraction",
            f"at most {gauges['kv_usage_max']:.1%}",
        )
    queries = counters.get("prefix_queries")
    if queries:
        hits = counters.get("prefix_hits", 0.0)
        add(
            "memory and cache",
            "prompt tokens found in the prefix cache",
            hits / queries,
            "fraction",
            f"of {queries:,.0f}, scaled to the load from {raw['prefix_queries']:,.0f} counted",
        )
    if "preemptions" in counters:
        add("memory and cache", "preemptions", counters["preemptions"], "count")
    computed, prompts = counters.get("computed_prompt_tokens"), counters.get("prompt_tokens")
    if computed is not None and prompts is not None:
        saved = counters.get("cached_tokens", counters.get("prefix_hits", 0.0))
        again = computed + saved - prompts
        add("memory and cache", "prompt tokens computed again", max(again, 0.0), "tokens", "after preemptions")
    return rows


def _number(run: Run, key: str) -> float | None:
    value = run.fact(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
