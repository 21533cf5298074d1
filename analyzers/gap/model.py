"""A run's step time, split into what the trace can tell apart, and asked at any composition.

``V(rates of r, composition of q)`` is the time that r would have needed for q's steps. Kernel and communication times
come from the trace as they are; host and idle times are scaled until the step takes the time that it took without a
profiler (the toll is reported). On an engine that runs on the CPU everything in a step is host time, so all of it is
scaled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profiler.analyzers import idle
from profiler.analyzers.device import DeviceAccount, StepCosts
from profiler.analyzers.device_view import CPU
from profiler.analyzers.gap.contention import WAITS, Kept, host_share
from profiler.analyzers.gap.lag import ahead_of_prefills
from profiler.analyzers.gap.load import ALL_TERMS, PREFILL_STEP, SEQUENCE, STEP, TOKEN, Load, narrow
from profiler.analyzers.gap.measured import Measured, Steps, trace_load
from profiler.analyzers.gap.shape import ENOUGH_STEPS, Composite, Shape, StepShape, fit, fit_beside, fit_pair, misfit
from profiler.analyzers.kernels import COMMUNICATION
from profiler.model.requests import Floats

# (cause, part): what a trace's bucket counts as.
Component = tuple[str, str]
GAPS: Final = "gaps between kernels"
UNSPLIT: Final[Component] = ("unexplained", "inside the steps")
# On a CPU there is no launch and no graph: a step's inside is its kernels and their dispatch, which stay together.
UNSPLIT_CPU: Final[Component] = ("kernel", "inside the steps: kernels and dispatch")
UNSHOWN: Final[Component] = ("unexplained", "step time that the trace does not show")

# Traced device times beyond those of the steps by more than this are not what few traced steps miss.
MOST_BEYOND: Final = 0.95
# How much worse the sum of a trace's components may fit a run's own steps than these steps' own shape.
ABOUT_AS_WELL: Final = 1.5

Rows = tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]


@dataclass(frozen=True)
class RunModel:
    """``step`` gives a step's unprofiled seconds. ``device`` (kernels, communication) and ``host`` (idle) split it;
    both are empty where no trace can be used: then all of it is ``whole``. ``scaled`` is True where everything is
    scaled to the step's time. ``launching`` is the host time in a step's launch calls and ``phases`` the annotated
    host phases of a step, seconds, None where the trace does not show them. ``overlapped``: the host prepares a step
    while the device computes the one before. ``period`` is the traced time of a step less what stands between
    serial steps. ``own`` are the run's steps. ``captured``: the tokens of the largest step that graphs replay, of those
    that only decode and of those that prefill; infinite where no larger one was traced."""

    own: Steps
    step: StepShape
    device: Mapping[Component, Shape]
    host: Mapping[Component, Shape]
    scaled: bool
    whole: Component = UNSPLIT
    launching: Shape | None = None
    phases: float | None = None
    overlapped: bool = False
    period: Shape | None = None
    captured: tuple[float, float] = (np.inf, np.inf)

    @cached_property
    def kept(self) -> Kept:
        """How much of the host's traced time is there without a profiler."""
        return host_share(self)

    @cached_property
    def alone(self) -> RunModel:
        """The same with the seconds that a step takes in its engine, of several that ran side by side; else itself."""
        return self.times(self.own.parallel)

    def times(self, times: float) -> RunModel:
        """The same with all seconds so many times as long, as shares of another wall clock."""
        if times == 1.0:
            return self
        return replace(
            self,
            own=self.own.times(times),
            step=self.step.scaled(times),
            device={key: shape.scaled(times) for key, shape in self.device.items()},
            host={key: shape.scaled(times) for key, shape in self.host.items()},
            launching=_times(self.launching, times),
            phases=None if self.phases is None else self.phases * times,
            period=_times(self.period, times),
        )

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
    steps = _step_shapes(a, b, related, like)
    traced_a, traced_b = a.traced, b.traced
    inside = UNSPLIT_CPU if a.device == CPU and b.device == CPU else UNSPLIT
    if not split or traced_a is None or traced_b is None or traced_a.steps is None or traced_b.steps is None:
        return (
            RunModel(a.steps, steps[0], {}, {}, False, inside),
            RunModel(b.steps, steps[1], {}, {}, False, inside),
        )
    sides = _Traced.of(traced_a.steps, traced_a.device, rows[0]), _Traced.of(traced_b.steps, traced_b.device, rows[1])
    # A run beside itself is fitted once.
    each = range(1 if a is b and rows[0] is rows[1] and like is None else 2)
    # Shapes are fitted to steps as they are, for both runs alike; of engines side by side they are shares then.
    shares = 1.0 / a.steps.parallel, 1.0 / b.steps.parallel
    models, devices = [], []
    for index in each:
        own, other = sides[index], sides[1 - index] if related else None
        kept = None if like is None else like[index]
        devices.append({key: own.shape(key, other, kept).scaled(shares[index]) for key in own.device})
    beyond = 1.0 if CPU in (traced_a.device, traced_b.device) else _beyond((a, b), devices)
    for index, measured, its_steps in zip(each, (a, b), (a.steps, b.steps), strict=False):
        own, other = sides[index], sides[1 - index] if related else None
        kept = None if like is None else like[index]
        account = (traced_a, traced_b)[index]
        device = {key: shape.scaled(beyond) for key, shape in devices[index].items()}
        host = {key: own.shape(key, other, kept).scaled(shares[index]) for key in own.host}
        step = steps[index]
        if account.device != CPU:
            step = _better(step, _summed(device, host, its_steps), its_steps, kept)
        models.append(
            RunModel(
                its_steps,
                step,
                device,
                host,
                account.device == CPU,
                inside,
                _times(own.launching(kept), shares[index]),
                _phases(account, its_steps),
                overlaps(measured),
                _growing(
                    _times(own.period(overlaps(measured), kept), shares[index]), own.load, step, device, its_steps
                ),
                (np.inf, np.inf) if account.steps is None else _captured(account.steps, its_steps),
            )
        )
    return models[0], models[-1]


def _growing(
    period: Shape | None, traced: Load, step: StepShape, device: Mapping[Component, Shape], steps: Steps
) -> Shape | None:
    """The host's ``period`` with what a sequence costs it, where the traced batches are too alike to tell and the run's
    own steps, which wait for the host nearly all the time, do tell."""
    if period is None or isinstance(step, Composite) or steps.own is None or not narrow(traced):
        return period
    seconds, weight = step.seconds(steps.load), steps.load.weight
    working = sum((shape.seconds(steps.load) for shape in device.values()), np.zeros(len(seconds)))
    waits = working * (1.0 + WAITS) < seconds
    if float((weight * seconds)[waits].sum()) < _NEARLY_ALL * float(weight @ seconds):
        return period
    # In the trace's own seconds, around the batches that were traced.
    each = float(step.cost[SEQUENCE]) * period.total(traced) / step.total(traced)
    usual = float(traced.weight @ traced.decode) / float(traced.weight.sum())
    each = min(each, float(period.cost[STEP]) / usual) if usual > 0.0 else 0.0
    return replace(period, cost=period.cost + np.array([-each * usual, 0.0, 0.0, each]))


_NEARLY_ALL: Final = 0.9


def _times(shape: Shape | None, factor: float) -> Shape | None:
    return None if shape is None else shape.scaled(factor)


def _phases(account: DeviceAccount, own: Steps) -> float | None:
    costs = account.steps
    return None if costs is None or costs.phases == 0.0 else costs.phases / own.parallel


def _captured(costs: StepCosts, steps: Steps) -> tuple[float, float]:
    """(of steps that only decode, of steps that prefill) the tokens up to which graphs replay; infinite where traced
    steps that were replayed and others overlap in size, or one kind is missing."""
    load, known = trace_load(costs)
    tokens, replayed = load.decode + load.prefill_tokens, costs.replayed[known] > 0
    own = steps.load.decode + steps.load.prefill_tokens
    found = []
    for prefills in (False, True):
        kind = (load.prefill_tokens > 0) == prefills
        within, beyond = tokens[kind & replayed], tokens[kind & ~replayed]
        if len(within) and len(beyond) and within.max() < beyond.min():
            rows = ((steps.load.prefill_tokens > 0) == prefills) & (own >= within.max()) & (own <= beyond.min())
            found.append(
                _jump(within.max(), beyond.min(), own[rows], None if steps.seconds is None else steps.seconds[rows])
            )
        else:
            found.append(float(np.inf))
    return found[0], found[1]


def _jump(low: float, high: float, tokens: Floats, seconds: Floats | None) -> float:
    """Where between two sizes the time of the run's own steps jumps; halfway where too few lie there."""
    if seconds is None or len(np.unique(tokens)) < _ENOUGH_SIZES:
        return 0.5 * (low + high)
    best = (float(np.inf), 0.0)
    sizes = np.unique(tokens)
    for one, two in zip(sizes[:-1].tolist(), sizes[1:].tolist(), strict=True):
        parts = seconds[tokens <= one], seconds[tokens >= two]
        best = min(best, (sum(float(((part - part.mean()) ** 2).sum()) for part in parts), 0.5 * (one + two)))
    return best[1]


_ENOUGH_SIZES: Final = 4


def _beyond(pair: tuple[Measured, Measured], devices: list[dict[Component, Shape]]) -> float:
    """How far traced device times overshoot the steps of a run that is never idle (a factor of at most 1): what a trace
    of few steps misses of all others. The other run's, which may hide it in its idle time, are taken to do the same."""
    found = 1.0
    for measured, device in zip(pair, devices, strict=False):
        assert measured.steps is not None
        working = sum(shape.total(measured.steps.load) for shape in device.values())
        if working > 0.0:
            found = min(found, measured.steps.total / working)
    return found if found >= MOST_BEYOND else 1.0


def _summed(device: Mapping[Component, Shape], host: Mapping[Component, Shape], steps: Steps) -> Composite:
    """The step as its traced components add up: the device's as they are, the host's as far as the steps' measured
    total leaves room for it, all brought to that total."""
    working = sum(shape.total(steps.load) for shape in device.values())
    waiting = sum(shape.total(steps.load) for shape in host.values())
    kept = min(max((steps.total - working) / waiting, 0.0), 1.0) if waiting > 0.0 else 0.0
    parts = Composite((*device.values(), *(shape.scaled(kept) for shape in host.values())))
    return parts.scaled(steps.total / (working + kept * waiting)) if working + kept * waiting > 0.0 else parts


def _better(step: StepShape, summed: Composite, steps: Steps, like: RunModel | None) -> StepShape:
    """The traced components' sum, where it explains the run's own steps about as well as their own fit: a trace shows
    what a shape of four terms can't. In a replicate, what the run itself has."""
    if like is not None:
        return summed if isinstance(like.step, Composite) else step
    if steps.own is None or isinstance(step, Composite):
        return summed
    own, traced = (misfit(shape, steps.load, steps.own, _joined(steps)) for shape in (step, summed))
    return summed if traced <= ABOUT_AS_WELL * own else step


def _joined(steps: Steps) -> NDArray[np.bool_] | None:
    """Which steps' times are known only together with the next one's."""
    return ahead_of_prefills(steps.load) if steps.lagged else None


def overlaps(measured: Measured) -> bool:
    """Whether a run schedules while the device computes: as its settings say, else as its timed steps show, else as
    its engine does by default."""
    stated = measured.run.fact("setting.overlap")
    if stated is not None:
        return bool(stated)
    if measured.steps is not None and measured.steps.own is not None:
        return measured.steps.lagged
    return measured.run.fact("default.overlap") is True


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
    timed_a, timed_b = a.steps.alone.own, b.steps.alone.own  # equal steps take equal time, whatever runs beside them
    joined = _joined(a.steps), _joined(b.steps)
    if timed_a is not None and timed_b is not None and related:
        one, two = fit_pair(a.steps.load, timed_a, b.steps.load, timed_b, hinges[0], joined=joined)
        return _scaled(one, a.steps), _scaled(two, b.steps)
    own_a = None if timed_a is None else _scaled(fit(a.steps.load, timed_a, hinge=hinges[0], joined=joined[0]), a.steps)
    own_b = None if timed_b is None else _scaled(fit(b.steps.load, timed_b, hinge=hinges[1], joined=joined[1]), b.steps)
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
        on_device: dict[Component, Floats] = {}
        on_host: dict[Component, Floats] = {}
        for bucket, values in (*costs.busy.items(), *costs.idle.items()):
            key = component_of(bucket, device)
            # The device's own pauses between kernels are no more slowed by a profiler than its kernels.
            side = on_device if bucket in costs.busy or key == ("kernel", GAPS) else on_host
            side[key] = side.get(key, 0.0) + values[known][chosen]
        return _Traced(load.rows(chosen), on_device, on_host, costs.launching[known][chosen])

    def shape(self, key: Component, other: _Traced | None, like: RunModel | None) -> Shape:
        seconds = self.device[key] if key in self.device else self.host[key]
        kept = None if like is None else like.device.get(key) or like.host.get(key)
        hinge = None if kept is None else kept.hinge
        theirs = None if other is None else (other.device if key in self.device else other.host).get(key)
        # A device waits in steps that only decode for other reasons than in those that prefill.
        apart = key in self.host
        if other is None or theirs is None:
            return fit(self.load, seconds, hinge=hinge, terms=_terms(key, self.load), apart=apart)
        terms = _terms(key, self.load, other.load)
        return fit_beside(self.load, seconds, other.load, theirs, hinge, terms, apart)

    def period(self, overlapped: bool, like: RunModel | None) -> Shape | None:
        """Host and device beside each other where the device waits: what such a step takes but for what stands between
        serial steps. It is the host's time, which prompt tokens don't change. None where no step shows it."""
        none = np.zeros(len(self.load))
        working = sum(self.device.values(), none)
        waiting = sum((s for key, s in self.host.items() if overlapped or key[0] != "scheduling"), none)
        rows = waiting > WAITS * working
        if not rows.any():
            return None
        hinge = None if like is None or like.period is None else like.period.hinge
        load = self.load.rows(rows)
        terms = (STEP, PREFILL_STEP) if narrow(load) else (STEP, PREFILL_STEP, SEQUENCE)
        return fit(load, (working + waiting)[rows], hinge=hinge, terms=terms, apart=True)

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
    return (TOKEN, SEQUENCE) if key == ("kernel", "attention") else (STEP, PREFILL_STEP, TOKEN)
