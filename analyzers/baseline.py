"""A run as a document keeps it for later comparisons, and back."""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np

from profiler.analyzers.gap.measured import device_kind
from profiler.analyzers.kept import kept_accounts
from profiler.analyzers.metrics import metrics_of
from profiler.model.baseline import Baseline, StoredFact, StoredLoad
from profiler.model.fact import Fact
from profiler.model.requests import BenchResult
from profiler.model.run import Run

# What rules of fairness ask of a result beside its own fields.
_METADATA: Final = ("burstiness", "clock", "num_prompts", "total_output_tokens_retokenized")
# Readers of JSON differ on larger numbers.
_WIDEST: Final = 1 << 53
_CLAIM: Final = "request_goodput"
# In ``BenchResult.metadata``: the metrics of a stored result are those of its records.
RECOMPUTED: Final = "recomputed"
# What a document does not hold, by the field of a run, in words.
NOT_STORED: Final = {
    "files": "files",
    "traces": "traces",
    "snapshots": "scheduler metrics",
    "logs": "server logs",
    "counters": "device counters",
    "stacks": "host stacks",
    "totals": "summaries of calls",
    "components": "metrics of what stands beside the engine",
    "workers": "metrics of single workers",
    "problems": "problems of files",
}


class NotStoredError(Exception):
    """Something was asked for that a stored document does not hold; the text says what."""


class StoredResult(BenchResult):
    """A result whose records no document keeps: asked for them, it raises NotStoredError."""

    def __getattribute__(self, name: str) -> Any:
        if name == "requests":
            raise NotStoredError("records of single requests")
        return super().__getattribute__(name)


class StoredRun(Run):
    """The run of a baseline: its name, facts and results. Asked for evidence that no document keeps, it raises
    NotStoredError, so that nothing can take "not kept" for "nothing was there"."""

    def __getattribute__(self, name: str) -> Any:
        if name in NOT_STORED:
            raise NotStoredError(NOT_STORED[name])
        return super().__getattribute__(name)


def device_of(run: Run) -> Literal["gpu", "cpu"] | None:
    """What a run computed on; its traces are read only where nothing else says."""
    return device_kind(run) or device_kind(run, [one for trace in run.traces for one in kept_accounts(trace)])


def baseline_of(run: Run) -> Baseline | None:
    """What a document keeps of a run; None where it holds no benchmark result."""
    if not run.benches:
        return None
    return Baseline(
        run=run.name,
        device=device_of(run),
        facts={
            key: StoredFact(value=_plain(fact.value), source=fact.source, inferred=fact.inferred)
            for key, fact in sorted(run.facts.items())
        },
        loads=tuple(_stored(bench) for bench in run.benches if np.isfinite(bench.duration)),
    )


def facts_of(baseline: Baseline) -> dict[str, Fact[object]]:
    """The facts as a run holds them."""
    return {key: Fact(fact.value, fact.source, fact.inferred) for key, fact in baseline.facts.items()}


def run_of(baseline: Baseline, path: str, name: str) -> StoredRun:
    """The run of a baseline, called ``name``; ``path`` is the document. Its results are as a tool's that keeps no
    records."""
    results = tuple(_result(load) for load in baseline.loads)
    return StoredRun(name=name, path=path, files=(), facts=facts_of(baseline), benches=results)


def without_records(run: StoredRun) -> StoredRun:
    """The same run whose results raise where records are asked for that were there when it was stored."""
    results = tuple(StoredResult(**bench.__dict__) if RECOMPUTED in bench.metadata else bench for bench in run.benches)
    return StoredRun(name=run.name, path=run.path, files=(), facts=run.facts, benches=results)


def _plain(value: object) -> Any:
    """A fact's value in the types of JSON, so that it is equal to itself when it was written and read."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) < _WIDEST else str(value)
    if isinstance(value, float):
        return float(value) if np.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else str(value)


def _stored(bench: BenchResult) -> StoredLoad:
    rate = bench.request_rate
    values = metrics_of(bench)
    if _CLAIM in bench.summary:
        values[_CLAIM] = bench.summary[_CLAIM]
    return StoredLoad(
        path=bench.path,
        tool=bench.tool,
        duration=bench.duration,
        completed=bench.completed,
        failed=bench.failed,
        total_input_tokens=bench.total_input_tokens,
        total_output_tokens=bench.total_output_tokens,
        request_rate=rate if rate is not None and np.isfinite(rate) else None,
        all_at_once=rate == float("inf"),
        max_concurrency=bench.max_concurrency,
        client_protocol=bench.client_protocol,
        recomputed=bench.requests is not None and bool(bench.requests.ok.any()),
        metrics={key: float(value) for key, value in values.items() if np.isfinite(value)},
        metadata={key: bench.metadata[key] for key in _METADATA if key in bench.metadata},
    )


def _result(load: StoredLoad) -> BenchResult:
    """The result without its records: what they gave stands where a tool's summary does."""
    return BenchResult(
        path=load.path,
        tool=load.tool,
        duration=load.duration,
        completed=load.completed,
        failed=load.failed,
        total_input_tokens=load.total_input_tokens,
        total_output_tokens=load.total_output_tokens,
        request_rate=float("inf") if load.all_at_once else load.request_rate,
        max_concurrency=load.max_concurrency,
        client_protocol=load.client_protocol,
        summary=load.metrics,
        metadata={**load.metadata, **({RECOMPUTED: "true"} if load.recomputed else {})},
    )
