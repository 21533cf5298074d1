"""One run as the decomposition sees it: the measured load, its steps, what they cost, and what held them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from profiler.analyzers.device import DeviceAccount, StepCosts
from profiler.analyzers.device_view import CPU
from profiler.analyzers.gap.lag import attributed
from profiler.analyzers.gap.load import Load
from profiler.analyzers.gap.window import Window, measured_window, shared_window
from profiler.analyzers.kept import kept_accounts
from profiler.model.metrics import GAUGES, MetricsSnapshot
from profiler.model.requests import BenchResult, Floats, Ints
from profiler.model.run import Run
from profiler.model.steps import EngineLog, StepLabel, StepTable

Limit = Literal["sequence limit", "token budget", "KV cache"]


@dataclass(frozen=True)
class Steps:
    """The steps of the measured load. ``seconds`` is None where no source times single steps; ``total`` is their
    time added up. ``source`` and ``timing`` name the evidence. ``lagged``: the engine schedules asynchronously, so a
    step's elapsed time is that of the work of the one before, and its tokens come out one step later; ``own`` are the
    seconds that belong to each step's work. ``parallel`` engines ran side by side behind a router: all seconds here are
    the share of the wall clock that a step takes up, its own time over so many."""

    load: Load
    seconds: Floats | None
    total: float
    source: str
    timing: str
    exact: bool
    table: StepTable | None = None
    lagged: bool = False
    own: Floats | None = None
    parallel: int = 1

    @property
    def alone(self) -> Steps:
        """The same with the seconds that a step takes in its engine."""
        return self if self.parallel == 1 else replace(self.times(self.parallel), parallel=1)

    def times(self, times: float) -> Steps:
        """The same with all seconds so many times as long."""
        seconds, own = (None if one is None else one * times for one in (self.seconds, self.own))
        return replace(self, seconds=seconds, own=own, total=self.total * times)


@dataclass(frozen=True)
class Measured:
    """A run with a benchmark. ``duration`` seconds for ``tokens`` output tokens of ``completed`` requests."""

    name: str
    run: Run
    bench: BenchResult
    steps: Steps | None
    counters: Mapping[str, float]
    gauges: Mapping[str, float]
    accounts: tuple[DeviceAccount, ...]
    device: Literal["gpu", "cpu"] | None
    settings: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def tokens(self) -> int:
        """Output tokens of the measured load."""
        return self.bench.total_output_tokens

    @property
    def duration(self) -> float:
        """Seconds of the measured load, on the client's clock."""
        return self.bench.duration

    @property
    def outside(self) -> float:
        """Seconds of the load that no step covers; 0 where the steps are not timed."""
        return 0.0 if self.steps is None else max(self.duration - self.steps.total, 0.0)

    @property
    def traced(self) -> DeviceAccount | None:
        """The device account that stands for the run's steps: the first that has steps with a composition."""
        with_steps = [a for a in self.accounts if a.steps is not None]
        labelled = [a for a in with_steps if a.steps is not None and any(_known(x) for x in a.steps.spans.labels)]
        return labelled[0] if labelled else None

    @cached_property
    def limits(self) -> dict[Limit, float]:
        """The share of steps that ran into each limit; a limit that nothing shows is left out."""
        found: dict[Limit, float] = {}
        table = None if self.steps is None else self.steps.table
        sequences, budget = self.settings.get("max_num_seqs"), self.settings.get("token_budget")
        if table is not None and len(table):
            weight = table.weight / table.weight.sum()
            running = np.maximum(table.decode_requests, 0) + np.maximum(table.prefill_requests, 0)
            tokens = np.maximum(table.decode_tokens, 0) + np.maximum(table.prefill_tokens, 0)
            if sequences:
                found["sequence limit"] = float(weight @ (running >= 0.97 * sequences))
            if budget:
                found["token budget"] = float(weight @ (tokens >= 0.97 * budget))
            usage = table.kv_usage
            if np.isfinite(usage).any():
                found["KV cache"] = float(np.nansum(weight * (usage >= 0.94)))
        elif sequences and "running_requests" in self.gauges:
            found["sequence limit"] = float(self.gauges["running_requests_max"] >= 0.97 * sequences)
        if "KV cache" not in found and self.gauges.get("kv_usage_max", 0.0) >= 0.94:
            found["KV cache"] = 1.0
        return found

    def first_token(self) -> float | None:
        """Mean seconds from arrival at the engine to the first token, by the engine's own queue and prefill
        histograms; None where one is missing."""
        total = 0.0
        for name in ("queue_seconds", "prefill_seconds"):
            count, seconds = self.counters.get(f"{name}_count"), self.counters.get(f"{name}_sum")
            if not count or seconds is None:
                return None
            total += seconds / count
        return total

    def computed_ratio(self) -> float | None:
        """Prompt tokens that the model ran over, per prompt token asked for; None where nothing counts them."""
        asked = self.bench.total_input_tokens
        if asked and self.steps is not None and self.steps.exact and self.steps.table is not None:
            return float(np.maximum(self.steps.table.prefill_tokens, 0).sum()) / asked
        if "computed_prompt_tokens" in self.counters and asked:
            return self.counters["computed_prompt_tokens"] / asked
        if {"prefix_queries", "prefix_hits"} <= self.counters.keys() and self.counters["prefix_queries"]:
            return 1.0 - self.counters["prefix_hits"] / self.counters["prefix_queries"]
        return None


def measure(run: Run, bench: BenchResult, known: Sequence[DeviceAccount] | None = None) -> Measured:
    """Gather what the run says of one measured load. ``known``: its traces' accounts, where they were made before."""
    if known is None:
        known = [account for trace in run.traces for account in kept_accounts(trace)]
    accounts = tuple(known)
    counters, gauges = counters_of(run.snapshots, bench)
    device = device_kind(run, accounts)
    steps = _from_logs(run, bench, counters, mixes_phases(accounts))
    if steps is None:
        steps = _from_trace(run, accounts, bench, counters)
    settings = _numbers(run, "default.") | _numbers(run, "setting.")
    return Measured(run.name, run, bench, steps, counters, gauges, accounts, device, settings)


def _numbers(run: Run, kind: str) -> dict[str, float]:
    """The facts of one kind that are numbers, by the knob's name."""
    return {
        key.removeprefix(kind): float(fact.value)
        for key, fact in run.facts.items()
        if key.startswith(kind) and isinstance(fact.value, int | float) and not isinstance(fact.value, bool)
    }


def counters_of(
    snapshots: Sequence[MetricsSnapshot], bench: BenchResult | None
) -> tuple[dict[str, float], dict[str, float]]:
    """(counter increments over the load, gauge means and maxima under load).

    Snapshots may span warm-up requests too; increments are scaled to the output tokens of ``bench`` where it is given,
    and single events then counted whole. A first snapshot may also come late: where what it already counts is just what
    the load lacks, the server had served nothing else before, and it counts too. A counter that falls was reset by a
    restart: only its rises count.
    Histograms appear as ``name_sum`` and ``name_count``.
    """
    if len(snapshots) < 2:
        return {}, {}
    names = {name for snapshot in snapshots for name in snapshot.values}
    rises: dict[str, float] = {}
    before: dict[str, float] = {}
    gauges: dict[str, float] = {}
    busy = [s for s in snapshots if s.values.get("running_requests", 0) > 0]
    for name in sorted(names):
        if name in GAUGES:
            values = [s.values[name] for s in busy if name in s.values and np.isfinite(s.values[name])]
            if values:
                gauges[name], gauges[f"{name}_max"] = float(np.mean(values)), float(np.max(values))
                gauges[f"{name}_share"] = float(np.mean(np.array(values) > 0))
            continue
        series = np.array([s.values[name] for s in snapshots if name in s.values])
        if len(series) >= 2:
            rises[name] = float(np.maximum(np.diff(series), 0.0).sum())
            before[name] = float(series[0])
    generated = rises.get("generation_tokens", 0.0)
    if bench is not None and before.get("generation_tokens", 0.0) > 0.0:
        whole = generated + before["generation_tokens"]
        if abs(whole - bench.total_output_tokens) <= _ALL_OF_IT * bench.total_output_tokens:
            rises = {name: value + before[name] for name, value in rises.items()}
            generated = whole
    if generated > 0 and bench is not None:
        factor = bench.total_output_tokens / generated
        rises = {name: value * factor for name, value in rises.items()}
    return {name: float(round(value)) if name in _EVENTS else value for name, value in rises.items()}, gauges


# Single events, some in a load: a share of one that scaling leaves is none.
_EVENTS: Final = frozenset({"preemptions"})
# Counted tokens are those of a load up to this share of them.
_ALL_OF_IT: Final = 0.01


def device_kind(run: Run, accounts: Sequence[DeviceAccount] = ()) -> Literal["gpu", "cpu"] | None:
    """What the run computed on: as it is stated, else as its files show; None where none of them does."""
    stated = run.fact("hardware.device")
    if stated in ("cpu", "gpu"):
        return "cpu" if stated == "cpu" else "gpu"
    if any(a.device != CPU for a in accounts) or run.counters or run.fact("hardware.gpu"):
        return "gpu"
    return "cpu" if accounts else None


def mixes_phases(accounts: Sequence[DeviceAccount]) -> bool:
    """Whether the traces hold steps that prefill and decode at once."""
    labels = [x for a in accounts if a.steps is not None for x in a.steps.spans.labels]
    return any(x.phase == "mixed" or (x.prefill_requests and x.decode_requests) for x in labels)


def _from_logs(run: Run, bench: BenchResult, counters: Mapping[str, float], mixed: bool) -> Steps | None:
    found: list[tuple[Window, bool, str]] = []
    for logs in _side_by_side(run):
        (first, *others), every = logs, all(log.every_step for log in logs)
        window = measured_window(first.steps, bench, every)
        if others:
            window = shared_window([log.steps for log in logs], bench, every)
        if window is not None:
            window = replace(window, steps=_worked(window.steps))
            found.append((window, every, first.path + (f" and {len(others)} more" if others else "")))
    if not found:
        return None
    window, every_step, path = max(found, key=lambda f: (f[0].exact, f[1], _timed(f[0].steps), len(f[0].steps)))
    table = window.steps
    if mixed:
        # The log names the requests beside a prefill; the trace shows that they decode with it.
        table = replace(table, decode_requests=np.maximum(table.decode_requests, np.maximum(table.beside, 0)))
    decode = np.maximum(table.decode_requests, 0).astype(np.float64)
    weight = table.weight.copy()
    if not every_step:
        # A log that prints every n-th decode step: its lines stand for as many steps as the tokens need.
        pure = (table.prefill_requests <= 0) & (decode > 0)
        beside = float(decode[~pure].sum())
        sampled = float(decode[pure].sum())
        missing = max(bench.total_output_tokens - bench.completed - beside, 0.0)
        if sampled > 0:
            weight[pure] = missing / sampled
    load = Load(
        decode=decode,
        prefill_tokens=np.maximum(table.prefill_tokens, 0).astype(np.float64),
        prefill_requests=np.maximum(table.prefill_requests, 0).astype(np.float64),
        stalled=_stalled(decode, table.prefill_requests),
        weight=weight,
    )
    timed = every_step and _timed(table)
    scale = 1.0
    if timed and not window.exact:
        scale = (bench.total_output_tokens - bench.completed) / max(float(weight @ decode), 1.0)
        load = Load(load.decode, load.prefill_tokens, load.prefill_requests, load.stalled, load.weight * scale)
    if timed:
        seconds, parallel = table.seconds / engines_of(run), engines_of(run)
        total = min(float(load.weight @ seconds), bench.duration)
        own, lag = attributed(load, seconds)
        return Steps(load, seconds, total, f"{path} ({window.how})", f"{path}: elapsed time", window.exact, table,
                     lag, own, parallel)  # fmt: skip
    total, timing = _untimed_total(run, bench, counters)
    return Steps(load, None, total, f"{path} ({window.how})", timing, window.exact, table, parallel=engines_of(run))


def _worked(table: StepTable) -> StepTable:
    """Without records of moments in which requests ended and nothing ran: they have neither work nor a time."""
    idle = (table.decode_requests <= 0) & (table.prefill_requests <= 0) & (table.prefill_tokens <= 0)
    return table.select(~(idle & ~np.isfinite(table.seconds)))


def _timed(table: StepTable) -> bool:
    return bool(np.isfinite(table.seconds).all())


def engines_of(run: Run) -> int:
    """How many engines served the run's load side by side."""
    return max(len(run.workers), 1)


def _side_by_side(run: Run) -> list[list[EngineLog]]:
    """The run's logs: those that workers wrote under one name are of one load."""
    found: dict[tuple[str, str], list[EngineLog]] = {}
    for log in run.logs:
        path = PurePosixPath(log.path)
        of_worker = next((folder for folder in run.workers if PurePosixPath(folder) in path.parents), None)
        name = str(path) if of_worker is None else str(path.relative_to(of_worker))
        found.setdefault(("" if of_worker is None else "worker", name), []).append(log)
    return list(found.values())


def _untimed_total(run: Run, bench: BenchResult, counters: Mapping[str, float]) -> tuple[float, str]:
    executor = counters.get("executor_seconds")
    if executor:
        return min(executor / engines_of(run), bench.duration), "metrics: seconds inside the executor"
    return bench.duration, "the benchmark's duration, spread over the steps"


def _stalled(decode: Floats, prefill_requests: Floats | Ints) -> Floats:
    """Sequences that were decoding before a step without decodes and therefore waited for it."""
    pure_prefill = (decode == 0) & (prefill_requests > 0)
    last = np.where(~pure_prefill, np.arange(len(decode)), -1)
    last = np.maximum.accumulate(last) if len(last) else last
    before = np.where(last >= 0, decode[np.maximum(last, 0)], 0.0)
    return np.where(pure_prefill, before, 0.0)


def _known(label: StepLabel) -> bool:
    return _composition(label) is not None


def trace_load(costs: StepCosts) -> tuple[Load, NDArray[np.int64]]:
    """(the composition of a trace's steps, which steps these are): steps whose annotation does not say what they
    carried are left out. A mixed step that states totals only is taken to hold one prefill."""
    rows = [_composition(label) for label in costs.spans.labels]
    known = np.array([i for i, row in enumerate(rows) if row is not None], np.int64)
    columns = np.array([row for row in rows if row is not None], np.float64).reshape(-1, 3)
    decode, tokens, requests = columns.T
    return Load(decode, tokens, requests, _stalled(decode, requests), np.ones(len(known))), known


def _composition(label: StepLabel) -> tuple[float, float, float] | None:
    total = label.requests
    if label.decode_requests is not None or label.prefill_requests is not None:
        return float(label.decode_requests or 0), float(label.prefill_tokens or 0), float(label.prefill_requests or 0)
    if total is None:
        return None
    if label.phase == "mixed":
        if label.tokens is None:
            return None
        decode = max(total - 1, 0)
        return float(decode), float(max(label.tokens - decode, 1)), 1.0
    if label.phase == "prefill":
        return 0.0, float(label.prefill_tokens or label.tokens or 0), float(total)
    return float(total), 0.0, 0.0


def _from_trace(
    run: Run, accounts: Sequence[DeviceAccount], bench: BenchResult, counters: Mapping[str, float]
) -> Steps | None:
    labelled = [a for a in accounts if a.steps is not None and any(_known(x) for x in a.steps.spans.labels)]
    if not labelled or labelled[0].steps is None:
        return None
    load, _ = trace_load(labelled[0].steps)
    decoded = float(load.decode.sum())
    if decoded <= 0:
        return None
    # The traced steps are a sample of the load's: scaled until they decode as many tokens.
    factor = (bench.total_output_tokens - bench.completed) / decoded
    counted = counters.get("step_tokens_count") or counters.get("steps")
    if counted:
        factor = counted / len(load)
    scaled = Load(load.decode, load.prefill_tokens, load.prefill_requests, load.stalled, load.weight * factor)
    total, timing = _untimed_total(run, bench, counters)
    source = f"{labelled[0].trace}: annotated steps, scaled to the load"
    return Steps(scaled, None, total, source, timing, False, parallel=engines_of(run))
