"""Repeats: several results of one load in one run, and what belongs to each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final, Protocol, TypeVar

import numpy as np

from profiler.model.requests import BenchResult
from profiler.model.run import Run

# Two results of one load made the same tokens, up to what natural ends of answers differ by.
SAME_WORK: Final = 0.02


def repeats_of(benches: Sequence[BenchResult], bench: BenchResult) -> tuple[BenchResult, ...]:
    """The results of the load of ``bench``, itself included, in the run's order.

    A file that lies there twice is one measurement: results of the same duration and tokens count once.
    """
    found: list[BenchResult] = []
    seen = {(bench.duration, bench.total_output_tokens)}
    for other in benches:
        if other is bench:
            found.append(bench)
        elif _same_load(bench, other) and (other.duration, other.total_output_tokens) not in seen:
            seen.add((other.duration, other.total_output_tokens))
            found.append(other)
    return tuple(found)


def _same_load(one: BenchResult, two: BenchResult) -> bool:
    stated = (
        one.tool == two.tool
        and one.request_rate == two.request_rate
        and one.max_concurrency == two.max_concurrency
        and one.completed + one.failed == two.completed + two.failed
    )
    # Without a rate and a cap nothing says that two results are of one load.
    told = one.request_rate is not None or one.max_concurrency is not None
    timed = min(one.duration, two.duration) > 0
    return (
        stated and told and timed and _near(one, two, "total_output_tokens") and _near(one, two, "total_input_tokens")
    )


def _near(one: BenchResult, two: BenchResult, count: str) -> bool:
    values: tuple[int, int] = (getattr(one, count), getattr(two, count))
    return min(values) > 0 and abs(values[0] - values[1]) <= SAME_WORK * max(values)


def log_rates(repeats: Sequence[BenchResult]) -> list[float]:
    """Log output throughput of each repeat; empty where a single result counts no tokens."""
    counted = [bench for bench in repeats if bench.total_output_tokens > 0 and bench.duration > 0]
    return [float(np.log(bench.total_output_tokens / bench.duration)) for bench in counted]


def log_values(repeats: Sequence[Mapping[str, float]], metric: str) -> list[float]:
    """Logarithm of a metric (by its name in the result document) of each repeat that has it; ``repeats`` are the
    metrics of each."""
    values = [metrics.get(metric, 0.0) for metrics in repeats]
    return [float(np.log(value)) for value in values if value > 0 and np.isfinite(value)]


def typical(repeats: Sequence[BenchResult], bench: BenchResult) -> BenchResult:
    """The repeat that stands for its load: the one whose throughput is nearest to the mean of all; where two are
    equally near, the later one. ``bench`` where there are no repeats."""
    if len(repeats) < 2:
        return bench
    rates = log_rates(repeats)
    mean = float(np.mean(rates))
    return min(reversed(list(zip(rates, repeats, strict=True))), key=lambda pair: round(abs(pair[0] - mean), 9))[1]


def focused(run: Run, bench: BenchResult, repeats: Sequence[BenchResult]) -> Run:
    """The run without what was recorded of the other repeats: files in a folder that holds one of them, and does not
    hold ``bench``, are left out. The settings and what else the run states are those of all."""
    ours = PurePosixPath(bench.path).parent
    others = {PurePosixPath(other.path).parent for other in repeats if other is not bench} - {ours, *ours.parents}
    if not others:
        return run
    return replace(
        run,
        traces=_of(run.traces, others),
        snapshots=_of(run.snapshots, others),
        logs=_of(run.logs, others),
        counters=_of(run.counters, others),
        stacks=_of(run.stacks, others),
    )


class _Placed(Protocol):
    @property
    def path(self) -> str: ...


_P = TypeVar("_P", bound=_Placed)


def _of(items: Sequence[_P], others: set[PurePosixPath]) -> tuple[_P, ...]:
    return tuple(item for item in items if others.isdisjoint(PurePosixPath(item.path).parents))
