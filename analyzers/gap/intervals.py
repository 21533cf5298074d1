"""Intervals: what resampling within the runs and the spread between starts leave open.

Within a run the steps' work is given; what is uncertain is the time of equal steps. So residuals of the step-time
model are drawn again, the trace's steps in blocks of neighbours, and the whole split is done again. The spread between
starts is added on top, in proportion to the size of each part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profiler.analyzers.gap import spread
from profiler.analyzers.gap.ledger import UNEXPLAINED, Ledger
from profiler.analyzers.gap.load import Load
from profiler.analyzers.gap.measured import Measured
from profiler.analyzers.gap.model import RunModel, models_of
from profiler.analyzers.metrics import samples, statistic
from profiler.model.requests import BenchResult, Floats

REPLICATES: Final = 40
BLOCKS: Final = 16
MOST_ALIKE: Final = 20
SEED: Final = 20_261_130
SPLIT: Final = 0.05


def redrawn(measured: Measured, model: RunModel, rng: np.random.Generator) -> Measured:
    """The run as it might have been: the residuals of its step times drawn again."""
    steps = measured.steps
    assert steps is not None
    if steps.seconds is None or len(steps.seconds) < 2:
        return measured
    predicted = model.step.seconds(steps.load)
    pool = chance(steps.seconds, steps.load)
    if not len(pool):
        pool = (steps.seconds - predicted) / np.maximum(predicted, 1e-12)
    again = predicted * (1.0 + pool[rng.integers(0, len(pool), len(predicted))])
    change = float(steps.load.weight @ (again - predicted))
    total = max(steps.total + change, 0.05 * steps.total)
    return replace(
        measured,
        steps=replace(steps, seconds=np.maximum(again, 0.0), own=np.maximum(again, 0.0), total=total),
        bench=replace(measured.bench, duration=measured.duration + total - steps.total),
    )


def chance(seconds: Floats, load: Load) -> Floats:
    """Relative deviations that are chance: steps in a row that decoded the same sequences and nothing else, each
    against the one before it. Empty where there are fewer than MOST_ALIKE of them.

    Only neighbours of equal composition are compared, and none that follows another kind of step (with asynchronous
    scheduling a step's time can be that of the one before): a shape that is not quite linear, or a context that grows,
    is no chance, and a slow drift is what the spread between starts stands for.
    """
    pure = (load.prefill_tokens == 0) & (load.decode > 0)
    alike = pure[1:] & pure[:-1] & (load.decode[1:] == load.decode[:-1])
    third = alike[1:] & alike[:-1]
    if int(third.sum()) < MOST_ALIKE:
        return np.zeros(0)
    later, earlier = seconds[2:][third], seconds[1:-1][third]
    deviation: Floats = (later - earlier) / np.maximum(later + earlier, 1e-12) * np.sqrt(2)
    return deviation


def _rows(measured: Measured, rng: np.random.Generator) -> NDArray[np.int64] | None:
    account = measured.traced
    return None if account is None or account.steps is None else blocks(len(account.steps.first), rng)


def blocks(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Indices of a block resample of n rows: BLOCKS blocks of neighbours where there are enough rows."""
    length = max(n // BLOCKS, 1)
    starts = rng.integers(0, max(n - length, 0) + 1, size=-(-n // length))
    return (starts[:, None] + np.arange(length)).ravel()[:n]


def cause_intervals(
    point: Ledger, replicas: list[Mapping[str, float]], deviation: float
) -> dict[str, tuple[float, float]]:
    """95% interval of every cause's amount, around the point estimate.

    Beside chance within the runs and between starts: what stays unexplained may be any cause's, in proportion, and the
    method itself is off by about SPLIT of an amount (the median attribution error on the lab).
    """
    found = {}
    size = sum(abs(amount) for cause, amount in point.by_cause().items() if cause != UNEXPLAINED)
    slack = SPLIT + (point.left() / size if size else 0.0)
    for cause, amount in point.by_cause().items():
        drawn = np.array([replica.get(cause, 0.0) for replica in replicas]) if replicas else np.zeros(0)
        within = float(np.std(drawn)) if len(drawn) else 0.0
        between = deviation * point.level_of(cause)
        half = spread.NORMAL_95 * float(np.hypot(within, between)) + slack * abs(amount)
        found[cause] = (amount - half, amount + half)
    return found


def throughput_interval(a: Measured, b: Measured, replicas: list[float], deviation: float) -> tuple[float, float]:
    """95% interval of B's throughput minus A's. ``replicas`` are drawn gaps in seconds per output token."""
    low, high = a.tokens / a.duration, b.tokens / b.duration
    gap = b.duration / b.tokens - a.duration / a.tokens
    within = float(np.std(replicas)) if replicas else _from_requests(a.bench, b.bench)
    between = deviation * 0.5 * (a.duration / a.tokens + b.duration / b.tokens)
    half = spread.NORMAL_95 * float(np.hypot(within, between))
    factor = -low * high
    ends = sorted(((gap - half) * factor, (gap + half) * factor))
    return ends[0], ends[1]


def _from_requests(a: BenchResult, b: BenchResult) -> float:
    """Standard deviation of the difference in seconds per output token, from the requests' TPOT alone."""
    total = 0.0
    for bench in (a, b):
        if bench.requests is None or bench.total_output_tokens == 0:
            continue
        values = samples(bench.requests, "tpot")
        if len(values) > 1 and values.mean() > 0:
            relative = float(np.std(values) / values.mean() / np.sqrt(len(values)))
            total += (relative * bench.duration / bench.total_output_tokens) ** 2
    return float(np.sqrt(total))


def same_requests(a: BenchResult, b: BenchResult) -> bool:
    """Whether both runs sent the same requests in the same order, as far as the files show."""
    one, two = a.requests, b.requests
    return (
        one is not None
        and two is not None
        and len(one) == len(two)
        and bool(one.ok.all() and two.ok.all())
        and bool((one.output_tokens == two.output_tokens).all())
    )


def latency_interval(a: BenchResult, b: BenchResult, metric: str, deviation: float) -> tuple[float, float] | None:
    """95% interval of a latency metric's difference, resampling requests in blocks (in pairs where they are the same
    requests); None where a file has no records.

    A mean TPOT of the same requests varies less: which of them there are is no chance, so only what differs between
    neighbours is. A queue carries chance over many requests, which neighbours don't show: so not TTFT, not E2E.
    """
    if a.requests is None or b.requests is None:
        return None
    sample, reduce = statistic(metric)
    one, two = samples(a.requests, sample), samples(b.requests, sample)
    if len(one) < 2 or len(two) < 2:
        return None
    paired = sample != "itl" and len(one) == len(two) and same_requests(a, b)
    value_a, value_b = reduce(one), reduce(two)
    between = deviation * 0.5 * (value_a + value_b)
    if paired and metric == "mean_tpot":
        half = spread.NORMAL_95 * float(np.hypot(of_neighbours(two - one), between))
        return value_b - value_a - half, value_b - value_a + half
    # Pairs are drawn as one, whichever run is called A.
    rng_a, rng_b = _generators(paired or a.duration <= b.duration)
    drawn = np.empty(REPLICATES)
    for i in range(REPLICATES):
        rows_a = blocks(len(one), rng_a)
        rows_b = rows_a if paired else blocks(len(two), rng_b)
        drawn[i] = reduce(two[rows_b]) - reduce(one[rows_a])
    half = spread.NORMAL_95 * float(np.hypot(np.std(drawn), between))
    return value_b - value_a - half, value_b - value_a + half


def of_neighbours(values: Floats) -> float:
    """Standard error of a mean of values in a fixed order, from how far neighbours differ (von Neumann's estimate):
    what changes slowly along the order is no chance."""
    return float(np.sqrt(np.mean(np.diff(values) ** 2) / 2 / len(values)))


def _generators(in_order: bool, *numbers: int) -> tuple[np.random.Generator, np.random.Generator]:
    """One for each run, by which of them is the faster: the intervals do not depend on which is called A."""
    one, two = (np.random.default_rng((SEED, side, *numbers)) for side in range(2))
    return (one, two) if in_order else (two, one)


@dataclass(frozen=True)
class Replica:
    """Both runs as they might have been, with their models, and the gap in seconds per output token."""

    a: Measured
    b: Measured
    model_a: RunModel
    model_b: RunModel
    gap: float


def replica_of(a: Measured, b: Measured, models: tuple[RunModel, RunModel], number: int) -> Replica:
    """One redrawn pair of REPLICATES, the same one for every metric; each can be drawn by itself."""
    rng_a, rng_b = _generators(a.duration <= b.duration, number)
    split = bool(models[0].device) and bool(models[1].device)
    one, two = redrawn(a, models[0], rng_a), redrawn(b, models[1], rng_b)
    drawn = models_of(one, two, split, (_rows(a, rng_a), _rows(b, rng_b)), models)
    assert drawn is not None
    gap = two.duration / max(b.tokens, 1) - one.duration / max(a.tokens, 1)
    return Replica(one, two, *drawn, gap)
