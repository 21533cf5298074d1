"""One run over its loads: a point a load, and the rate at which the SLO is still met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from profiler.analyzers.fairness.side import Side
from profiler.analyzers.fairness.tuning import devices_used
from profiler.analyzers.gap.metrics_split import keeps_up
from profiler.analyzers.goodput import attainment_interval, good
from profiler.analyzers.metrics import metrics_of
from profiler.analyzers.repeats import log_rates, repeats_of, typical
from profiler.model.goodput import Axis, LoadPoint, Reached
from profiler.model.requests import BenchResult, Floats
from profiler.model.run import Run

TARGETS: Final = (0.9, 0.99)


@dataclass(frozen=True)
class Point:
    """A load, with the log throughputs of its repeats; ``kept_up``: an open loop whose arrivals set the throughput."""

    shown: LoadPoint
    rates: tuple[float, ...]
    kept_up: bool

    @property
    def place(self) -> tuple[Axis, float] | None:
        """Where it lies: the axis of its kind of load, and the load."""
        axis, load = self.shown.axis, self.shown.load
        return None if axis is None or load is None else (axis, load)


def devices_of(run: Run) -> float | None:
    """Devices that the run took: those of its parallel layout, or else those that its files show."""
    side = Side(run, None)
    if side.on_cpu:
        return None
    used = devices_used(side)
    return side.number("hardware.count") if used is None else used


def points_of(run: Run, slo: Mapping[str, float], devices: float | None) -> tuple[Point, ...]:
    """Every load of the run, from light to heavy: first those with a number in flight, then those at a rate."""
    points: list[Point] = []
    told: set[int] = set()
    for bench in run.benches:
        if id(bench) in told or bench.duration <= 0:
            continue
        repeats = repeats_of(run.benches, bench)
        told |= {id(one) for one in repeats}
        points.append(_point(repeats, typical(repeats, bench), slo, devices))
    return tuple(sorted(points, key=lambda p: (str(p.shown.axis), p.shown.load or 0.0)))


def _point(
    repeats: Sequence[BenchResult], bench: BenchResult, slo: Mapping[str, float], devices: float | None
) -> Point:
    axis, load, label = load_of(bench)
    metrics = metrics_of(bench)
    seconds = sum(one.duration for one in repeats)
    tokens = sum(one.total_output_tokens for one in repeats)
    met = [found for one in repeats if slo and (found := good(one, slo)) is not None and len(found)]
    attainment, share_interval, rate, rate_interval = None, None, None, None
    if met and len(met) == len(repeats):
        sent = sum(len(one) for one in met)
        attainment, share_interval = sum(int(one.sum()) for one in met) / sent, attainment_interval(met)
        rate = attainment * sent / seconds
        rate_interval = (share_interval[0] * sent / seconds, share_interval[1] * sent / seconds)
    interactivity, note = _interactivity(bench, metrics)
    shown = LoadPoint(
        axis=axis,
        load=load,
        label=label,
        sent=sum(one.completed + one.failed for one in repeats),
        failed=sum(one.failed for one in repeats),
        repeats=len(repeats),
        request_rate=sum(one.completed + one.failed for one in repeats) / seconds,
        output_throughput=tokens / seconds,
        per_device=tokens / seconds / (devices or 1.0),
        interactivity=interactivity,
        attainment=attainment,
        attainment_interval=share_interval,
        goodput=rate,
        goodput_interval=rate_interval,
        latencies={
            name: value for name, value in metrics.items() if name.split("_")[-1] in ("ttft", "tpot", "itl", "e2e")
        },
        sources=tuple(one.path for one in repeats),
        note=note,
    )
    return Point(shown, tuple(log_rates(repeats)), keeps_up(bench))


def load_of(bench: BenchResult) -> tuple[Axis | None, float | None, str]:
    """(the axis of its kind of load, its place there, what it is called)."""
    rate, cap = bench.request_rate, bench.max_concurrency
    if rate is not None and np.isfinite(rate):
        return "requests/s", rate, f"{rate:g}/s" + (f", at most {cap}" if cap is not None else "")
    if cap is not None:
        return "requests in flight", float(cap), f"{cap} in flight"
    return None, None, "not stated" if rate is None else "all at once"


def _interactivity(bench: BenchResult, metrics: Mapping[str, float]) -> tuple[float | None, str]:
    """(tokens/s of one user, how it was found where TPOT is not stated)."""
    median = metrics.get("p50_tpot")
    if median is not None and median > 0:
        return 1.0 / median, ""
    each = bench.total_output_tokens / bench.completed if bench.completed else 0.0
    span = metrics.get("mean_e2e", 0.0) - metrics.get("mean_ttft", float("inf"))
    if each > 1 and span > 0:
        return (each - 1) / span, "tokens/s of one user from the means of E2E, TTFT and tokens: no TPOT is stated"
    return None, "no TPOT, and no means to find it from"


def reached(points: Sequence[Point], target: float) -> Reached:
    """The highest request rate at which ``target`` of the requests meet the SLO, between measured loads on a line.

    Loads of one kind only (the kind with more of them): a closed and an open loop are no one curve.
    """
    kinds = [p.shown.axis for p in points if p.shown.axis is not None and p.shown.attainment is not None]
    if not kinds:
        return Reached(attainment=target, rate=None, interval=None, kind="not known")
    axis = max(dict.fromkeys(kinds), key=kinds.count)
    line = [p for p in points if p.shown.axis == axis and p.shown.attainment is not None]
    rates = np.array([p.shown.request_rate for p in line])
    rate, kind = _crossing(rates, np.array([p.shown.attainment for p in line], np.float64), target)
    if kind != "interpolated":
        found = None if np.isnan(rate) else rate
        return Reached(attainment=target, rate=found, interval=None,
                       kind="at least" if kind == "at least" else "below the lowest load")  # fmt: skip
    ends = [
        _crossing(rates, np.array([bounds[side] for p in line if (bounds := p.shown.attainment_interval)]), target)[0]
        for side in (0, 1)
    ]
    low, high = (value if np.isfinite(value) else 0.0 for value in ends)
    return Reached(attainment=target, rate=rate, interval=(low, high), kind="interpolated")


def _crossing(rates: Floats, shares: Floats, target: float) -> tuple[float, str]:
    """(rate, how) where the shares first fall below ``target``; NaN where the lightest load already misses it."""
    missed = np.flatnonzero(shares < target)
    if not len(missed):
        return float(rates[-1]), "at least"
    first = int(missed[0])
    if first == 0:
        return float("nan"), "below"
    part = (shares[first - 1] - target) / (shares[first - 1] - shares[first])
    return float(rates[first - 1] + part * (rates[first] - rates[first - 1])), "interpolated"
