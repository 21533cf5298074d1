"""A run's step time, split into what the trace can tell apart, and asked at any composition.

``V(rates of r, composition of q)`` is the time that r would have needed for q's steps. Kernel and communication times
come from the trace as they are; host and idle times are scaled until the step takes the time that it took without a
profiler (the toll is reported). On an engine that runs on the CPU everything in a step is host time, so all of it is
scaled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profiler.analyzers import idle
from profiler.analyzers.device import StepCosts
from profiler.analyzers.device_view import CPU
from profiler.analyzers.gap.measured import Measured, Steps, trace_load
from profiler.analyzers.gap.shape import (
    ALL_TERMS,
    ENOUGH_STEPS,
    PREFILL_STEP,
    PREFILL_TOKEN,
    SEQUENCE,
    STEP,
    Composite,
    Load,
    Shape,
    StepShape,
    fit,
    fit_pair,
    narrow,
)
from profiler.analyzers.kernels import COMMUNICATION
from profiler.model.requests import Floats

# (cause, part): what a trace's bucket counts as.
Component = tuple[str, str]
GAPS: Final = "gaps between kernels"
UNSPLIT: Final[Component] = ("unexplained", "inside the steps")
# On a CPU there is no launch and no graph: a step's inside is its kernels and their dispatch, which stay together.
UNSPLIT_CPU: Final[Component] = ("kernel", "inside the steps: kernels and dispatch")
UNSHOWN: Final[Component] = ("unexplained", "step time that the trace does not show")

Rows = tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]


@dataclass(frozen=True)
class RunModel:
    """``step`` gives a step's unprofiled seconds. ``device`` (kernels, communication) and ``host`` (idle) split it;
    both are empty where no trace can be used: then all of it is ``whole``. ``scaled`` is True where everything is
    scaled to the step's time. ``launching`` is the host time in a step's launch calls and ``phases`` the annotated
    host phases of a step, seconds, None where the trace does not show them."""

    step: StepShape
    device: Mapping[Component, Shape]
    host: Mapping[Component, Shape]
    scaled: bool
    whole: Component = UNSPLIT
    launching: Shape | None = None
    phases: float | None = None

    def seconds(self, load: Load) -> float:
        """Seconds for all steps of ``load``."""
        return self.step.total(load)

    def components(self, load: Load) -> dict[Component, float]:
        """The same seconds by component; they add up to ``seconds(load)``.

        A profiler slows the host and never speeds it up, so traced idle time is scaled down to what the unprofiled
        step leaves for it, but not up: what the trace can't account for stays apart.
        """
        total = self.seconds(load)
        if not self.device:
            return {self.whole: total}
        device = {key: shape.total(load) for key, shape in self.device.items()}
        host = {key: shape.total(load) for key, shape in self.host.items()}
        working, waiting = sum(device.values()), sum(host.values())
        if working + waiting <= 0.0:
            return {UNSHOWN: total}
        if self.scaled:
            return {key: value * total / (working + waiting) for key, value in (device | host).items()}
        if working >= total:
            return {key: value * total / working for key, value in device.items()} | dict.fromkeys(host, 0.0)
        kept = min(1.0, (total - working) / waiting) if waiting > 0.0 else 0.0
        left = total - working - kept * waiting
        return device | {key: value * kept for key, value in host.items()} | {UNSHOWN: left}

    def toll(self, load: Load) -> float | None:
        """Traced over unprofiled time of the same steps: the profiler's slow-down. None without a trace."""
        if not self.device:
            return None
        traced = sum(shape.total(load) for shape in (*self.device.values(), *self.host.values()))
        total = self.seconds(load)
        return traced / total if total > 0 else None


def component_of(bucket: str, device: str) -> Component:
    """The cause that a bucket of the device's time counts as, and the part's name."""
    if bucket == COMMUNICATION:
        return "communication", "exposed collectives"
    if bucket == idle.IN_STEP_LAUNCH:
        return "cuda_graph", "idle until the launch"
    if bucket in (idle.IN_STEP_DEVICE, idle.IN_STEP_UNKNOWN):
        return "kernel", GAPS
    if bucket == idle.IN_STEP_HOST:
        return "kernel", "host time inside the step" if device == CPU else GAPS
    if bucket == idle.IN_STEP_SYNC:
        return "scheduling", "synchronise in a step"
    if bucket == idle.IN_STEP_GARBAGE:
        return "scheduling", "garbage collection in a step"
    if bucket.startswith(idle.BETWEEN_PREFIX):
        return "scheduling", bucket.removeprefix(idle.BETWEEN_PREFIX)
    if bucket in (idle.OUTSIDE, idle.NO_WORK):
        return "scheduling", bucket
    return "kernel", bucket


def models_of(
    a: Measured,
    b: Measured,
    split: bool,
    rows: Rows = (None, None),
    like: tuple[RunModel, RunModel] | None = None,
) -> tuple[RunModel, RunModel] | None:
    """Both runs' models; None where a run has no steps.

    ``split`` False leaves step times whole (the traces can't be compared). ``rows`` resamples the traced steps;
    ``like`` gives models whose hinges are kept instead of chosen anew.
    """
    if a.steps is None or b.steps is None:
        return None
    related = related_runs(a, b)
    step_a, step_b = _step_shapes(a, b, related, like)
    traced_a, traced_b = a.traced, b.traced
    inside = UNSPLIT_CPU if a.device == CPU and b.device == CPU else UNSPLIT
    if not split or traced_a is None or traced_b is None or traced_a.steps is None or traced_b.steps is None:
        return RunModel(step_a, {}, {}, False, inside), RunModel(step_b, {}, {}, False, inside)
    sides = _Traced.of(traced_a.steps, traced_a.device, rows[0]), _Traced.of(traced_b.steps, traced_b.device, rows[1])
    models = []
    for index, step in enumerate((step_a, step_b)):
        own, other = sides[index], sides[1 - index] if related else None
        kept = None if like is None else like[index]
        account = (traced_a, traced_b)[index]
        models.append(
            RunModel(
                step,
                {key: own.shape(key, other, kept) for key in own.device},
                {key: own.shape(key, other, kept) for key in own.host},
                account.device == CPU,
                inside,
                own.launching(kept),
                None if account.steps is None or account.steps.phases == 0.0 else account.steps.phases,
            )
        )
    return models[0], models[1]


def related_runs(a: Measured, b: Measured) -> bool:
    """One engine and version on one kind of device with one model: equal steps should take about equal time."""
    keys = ("engine.name", "engine.version", "model.name", "hardware.gpu")
    stated = [(a.run.fact(key), b.run.fact(key)) for key in keys]
    return a.device == b.device and stated[0][0] is not None and all(one == two for one, two in stated)


def _step_shapes(
    a: Measured, b: Measured, related: bool, like: tuple[RunModel, RunModel] | None
) -> tuple[StepShape, StepShape]:
    """Step times of both runs. Where no source times single steps, the trace's shape or the other run's, scaled."""
    assert a.steps is not None and b.steps is not None
    hinges = (None, None) if like is None else (like[0].step.hinge, like[1].step.hinge)
    timed_a, timed_b = a.steps.own, b.steps.own
    if timed_a is not None and timed_b is not None and related:
        one, two = fit_pair(a.steps.load, timed_a, b.steps.load, timed_b, hinges[0])
        return _scaled(one, a.steps), _scaled(two, b.steps)
    own_a = None if timed_a is None else _scaled(fit(a.steps.load, timed_a, hinge=hinges[0]), a.steps)
    own_b = None if timed_b is None else _scaled(fit(b.steps.load, timed_b, hinge=hinges[1]), b.steps)
    return own_a or _borrowed(a, own_b), own_b or _borrowed(b, own_a)


def _borrowed(measured: Measured, other: StepShape | None) -> StepShape:
    steps, traced = measured.steps, measured.traced
    assert steps is not None
    if traced is not None and traced.steps is not None and len(traced.steps.first) >= ENOUGH_STEPS:
        sample = _Traced.of(traced.steps, traced.device, None)
        keys = (*sample.device, *sample.host)
        shape: StepShape = Composite(tuple(sample.shape(key, None, None) for key in keys))
    elif other is not None:
        shape = other
    else:
        low, high = steps.load.bounds
        shape = Shape(np.array([1.0, 0.0, 0.0, 0.0]), low, high)
    return _scaled(shape, steps)


def _scaled(shape: StepShape, steps: Steps) -> StepShape:
    """The shape brought to the steps' measured total."""
    predicted = shape.total(steps.load)
    return shape.scaled(steps.total / predicted if predicted > 0 else 0.0)


@dataclass(frozen=True)
class _Traced:
    """The traced steps of a run: their composition, and their seconds by component on the device and the host."""

    load: Load
    device: Mapping[Component, Floats]
    host: Mapping[Component, Floats]
    launches: Floats

    @staticmethod
    def of(costs: StepCosts, device: str, rows: NDArray[np.int64] | None) -> _Traced:
        load, known = trace_load(costs)
        # Rows are drawn over all traced steps; those of unknown composition fall out.
        position = np.full(len(costs.first), -1, np.int64)
        position[known] = np.arange(len(known))
        chosen = position if rows is None else position[rows]
        chosen = chosen[chosen >= 0]
        sides: list[dict[Component, Floats]] = []
        for buckets in (costs.busy, costs.idle):
            seconds: dict[Component, Floats] = {}
            for bucket, values in buckets.items():
                key = component_of(bucket, device)
                seconds[key] = seconds.get(key, 0.0) + values[known][chosen]
            sides.append(seconds)
        return _Traced(load.rows(chosen), sides[0], sides[1], costs.launching[known][chosen])

    def shape(self, key: Component, other: _Traced | None, like: RunModel | None) -> Shape:
        seconds = self.device[key] if key in self.device else self.host[key]
        kept = None if like is None else like.device.get(key) or like.host.get(key)
        hinge = None if kept is None else kept.hinge
        theirs = None if other is None else (other.device if key in self.device else other.host).get(key)
        if other is None or theirs is None:
            return fit(self.load, seconds, hinge=hinge, terms=_terms(key, self.load))
        return fit_pair(self.load, seconds, other.load, theirs, hinge, _terms(key, self.load, other.load))[0]

    def launching(self, like: RunModel | None) -> Shape | None:
        known = np.isfinite(self.launches)
        if not known.any():
            return None
        hinge = None if like is None or like.launching is None else like.launching.hinge
        return fit(self.load.rows(known), self.launches[known], hinge=hinge)


def _terms(key: Component, *loads: Load) -> tuple[int, ...]:
    """What a component's time can depend on where the traced batches are too alike to tell: attention grows with the
    sequences that it reads, everything else mostly with the weights that every step reads."""
    if not all(narrow(load) for load in loads):
        return ALL_TERMS
    return (PREFILL_TOKEN, SEQUENCE) if key == ("kernel", "attention") else (STEP, PREFILL_STEP, PREFILL_TOKEN)
