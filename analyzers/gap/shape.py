"""The time of a step as a function of what it carries: a floor, plus a cost for each token and each sequence.

Simple monotone shapes on purpose: every coefficient is at least zero and has a meaning that can be checked, and a step
that carried more can't be predicted to take less. A step computes one token of each sequence in decode, and its prompt
tokens. The first of all these can be free (a step that waits for the weights anyway computes them on the way): the
shape has a hinge, chosen by what fits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profiler.analyzers.gap.least_squares import nonnegative
from profiler.analyzers.gap.load import ALL_TERMS, APART, SEQUENCE, TERMS, TOKEN, Load, beginnings, narrow
from profiler.model.requests import Floats

# What a step's time is spent on.
WORK: Final = ("step", "prefill step", "prefill token", "sequence")
# Equal steps of one engine on one device are expected to cost the same to this relative standard deviation.
POOLING: Final = 0.2
# A prior that makes a run's own steps fit this much worse is not theirs.
DIFFERENT: Final = 1.2
# What fits both runs' steps is contradicted by a run whose steps it usually misses by so many times what its own does.
CONTRADICTED: Final = 4.0
# A factor between two runs is taken where it leaves less than this of the squared error without one.
CLEARLY: Final = 0.5
# Fewer steps than this have no shape of their own.
ENOUGH_STEPS: Final = 10
# So many steps show what steps like them take; one or two may be odd: timed with their neighbours, warm or cold.
SEVERAL: Final = 3
# Tokens that a step may carry for free: about the ridge of the roofline, below it on slower devices.
HINGES: Final = (0.0, 64.0, 128.0, 256.0, 512.0)
FINER: Final = 17


@dataclass(frozen=True)
class Shape:
    """``cost`` (4,) seconds per unit of each term, tokens beyond ``hinge``. ``low``/``high`` (2, 4) bound the terms
    that were seen in steps that only decode and in those that prefill."""

    cost: Floats
    low: Floats
    high: Floats
    hinge: float = 0.0

    def seconds(self, load: Load) -> Floats:
        """Predicted seconds of each step."""
        return load.features(self.hinge) @ self.cost

    def total(self, load: Load) -> float:
        """Predicted seconds of all steps, by weight."""
        return float(load.summed(self.hinge) @ self.cost)

    def by_work(self, load: Load) -> Floats:
        """(4,): the predicted seconds of all steps by what they were spent on, in the order of ``WORK``: a decoded
        token is its sequence's."""
        found: Floats = load.summed(self.hinge) * self.cost
        decoded = float(load.weight @ np.maximum(load.decode - self.hinge, 0.0)) * float(self.cost[TOKEN])
        found[TOKEN] -= decoded
        found[SEQUENCE] += decoded
        return found

    def covers(self, load: Load) -> bool:
        """Whether nearly all of the load's time lies within what the fit has seen (else it is extrapolated)."""
        seen = load.features(0.0)
        margin = 0.05 * np.maximum(self.high - self.low, 1e-12)
        kind = (load.prefill_tokens > 0).astype(np.int64)
        inside = ((seen >= (self.low - margin)[kind]) & (seen <= (self.high + margin)[kind])).all(axis=1)
        weight = load.weight * np.maximum(self.seconds(load), 1e-12)
        return bool((weight * inside).sum() >= 0.8 * weight.sum())

    def scaled(self, factor: float) -> Shape:
        """The same shape, ``factor`` times as slow."""
        return Shape(self.cost * factor, self.low, self.high, self.hinge)


@dataclass(frozen=True)
class Composite:
    """A sum of shapes that is asked like one."""

    parts: tuple[Shape, ...]

    def total(self, load: Load) -> float:
        """Predicted seconds of all steps, by weight."""
        return sum(part.total(load) for part in self.parts)

    def seconds(self, load: Load) -> Floats:
        """Predicted seconds of each step."""
        found: Floats = np.sum([part.seconds(load) for part in self.parts], axis=0)
        return found

    def by_work(self, load: Load) -> Floats:
        """(4,): the predicted seconds of all steps by what they were spent on, in the order of ``WORK``."""
        found: Floats = np.sum([part.by_work(load) for part in self.parts], axis=0)
        return found

    def covers(self, load: Load) -> bool:
        """Whether nearly all of the load lies within what the parts have seen (they saw the same steps)."""
        return self.parts[0].covers(load)

    def scaled(self, factor: float) -> Composite:
        """The same sum, ``factor`` times as slow."""
        return Composite(tuple(part.scaled(factor) for part in self.parts))

    @property
    def hinge(self) -> None:
        """A sum has no hinge of its own."""
        return None


StepShape = Shape | Composite


def fit(
    load: Load,
    seconds: Floats,
    prior: Shape | None = None,
    hinge: float | None = None,
    terms: tuple[int, ...] = ALL_TERMS,
    joined: NDArray[np.bool_] | None = None,
    apart: bool = False,
) -> Shape:
    """Least squares with costs of at least zero, scaled so that the predicted total is the measured one. Deviations
    count by the size of the step: long prefills vary by as much as whole decode steps take.

    ``prior`` pulls each cost towards another shape's, as if that were known to ``POOLING`` of itself: it decides only
    where the steps themselves say little. The hinge is the prior's, or the given one, or the one that fits best.
    ``terms`` are the terms that may have a cost. ``joined`` marks steps whose time is known only together with that of
    the step after them. ``apart`` gives steps that prefill a floor of their own, which may be lower than the others'.
    """
    fixed = prior.hinge if prior is not None else hinge
    hinges = HINGES if fixed is None else (fixed,)
    if not (load.prefill_tokens > 0).any():
        # Each token is a sequence's.
        hinges = hinges if fixed is not None else (0.0,)
        terms = tuple(term for term in terms if term != TOKEN) if SEQUENCE in terms else terms
    sample = _Sample.of(load, seconds, joined, apart)
    best: tuple[float, Floats, float] | None = None
    for candidate in hinges:
        cost, error = sample.fitted(candidate, prior, terms)
        if best is None or error < 0.98 * best[0]:
            best = (error, cost, candidate)
    assert best is not None
    if len(hinges) > 1:
        # Between the neighbours of the best hinge: where it lies is a property of the device, not of the list.
        place = hinges.index(best[2])
        low, high = hinges[max(place - 1, 0)], hinges[min(place + 1, len(hinges) - 1)]
        for candidate in np.linspace(low, high, FINER)[1:-1].tolist():
            cost, error = sample.fitted(candidate, prior, terms)
            if error < best[0]:
                best = (error, cost, candidate)
    _, cost, chosen = best
    lowest, highest = load.bounds
    if prior is not None:
        lowest, highest = np.minimum(lowest, prior.low), np.maximum(highest, prior.high)
    return _brought(Shape(cost, lowest, highest, chosen), load, seconds)


def fit_pair(
    load_a: Load,
    seconds_a: Floats,
    load_b: Load,
    seconds_b: Floats,
    hinge: float | None = None,
    terms: tuple[int, ...] = ALL_TERMS,
    joined: tuple[NDArray[np.bool_] | None, NDArray[np.bool_] | None] = (None, None),
    apart: bool = False,
) -> tuple[Shape, Shape]:
    """Shapes of two runs whose equal steps should take about equal time (one engine, model and device): each leans on
    both runs' steps where its own say little, and is its own where they say enough. Where one of them has hardly seen
    different batches, the two may also differ by a factor, if that fits clearly better. With a ``hinge`` given this is
    a replicate, of which only the spread counts: it leans as it is."""
    pooled, factor = _pooled(load_a, seconds_a, load_b, seconds_b, hinge, terms, joined, apart)
    lean = _leaning if hinge is None else fit
    one = lean(load_a, seconds_a, pooled, terms=terms, joined=joined[0], apart=apart)
    two = lean(load_b, seconds_b, pooled.scaled(factor), terms=terms, joined=joined[1], apart=apart)
    if _seen(one, load_a).covers(load_b) or _seen(two, load_b).covers(load_a):
        return one, two
    # Hardly a step of the one is like any of the other's: what lies between is told best by what fits both, if it does.
    same = _brought(pooled, load_a, seconds_a), _brought(pooled, load_b, seconds_b)
    for own, shape, load, seconds, mark in zip(
        (one, two), same, (load_a, load_b), (seconds_a, seconds_b), joined, strict=True
    ):
        if _usual_miss(shape, load, seconds, mark) > CONTRADICTED * _usual_miss(own, load, seconds, mark):
            return one, two
    return same


def _seen(shape: Shape, load: Load) -> Shape:
    """The shape with the bounds of the load's own steps, those of a single odd step left out."""
    low, high = load.reached(SEVERAL)
    return replace(shape, low=low, high=high)


def _brought(shape: Shape, load: Load, seconds: Floats) -> Shape:
    """The shape with the steps' measured total."""
    predicted, measured = shape.total(load), float(load.weight @ seconds)
    return shape.scaled(measured / predicted) if predicted > 0 else shape


def fit_beside(
    load_a: Load,
    seconds_a: Floats,
    load_b: Load,
    seconds_b: Floats,
    hinge: float | None = None,
    terms: tuple[int, ...] = ALL_TERMS,
    apart: bool = False,
) -> Shape:
    """The first shape of ``fit_pair``."""
    pooled, _ = _pooled(load_a, seconds_a, load_b, seconds_b, hinge, terms, (None, None), apart)
    return (_leaning if hinge is None else fit)(load_a, seconds_a, pooled, terms=terms, apart=apart)


def _pooled(
    load_a: Load,
    seconds_a: Floats,
    load_b: Load,
    seconds_b: Floats,
    hinge: float | None,
    terms: tuple[int, ...],
    joined: tuple[NDArray[np.bool_] | None, NDArray[np.bool_] | None],
    apart: bool,
) -> tuple[Shape, float]:
    """(the shape of both runs' steps at A's level, B's level over A's); see ``fit_pair``."""
    both = load_a.beside(load_b)
    marked = None
    if any(mark is not None for mark in joined):
        marks = [
            np.zeros(len(load), bool) if mark is None else mark
            for load, mark in zip((load_a, load_b), joined, strict=True)
        ]
        marked = np.concatenate(marks)

    def together(factor: float) -> Shape:
        return fit(both, np.concatenate([seconds_a, seconds_b / factor]), None, hinge, terms, marked, apart)

    pooled = together(1.0)
    if hinge is None and narrow(load_a) != narrow(load_b):
        apart_by = _factor(load_a, seconds_a, load_b, seconds_b, terms, apart)
        if apart_by is not None:
            other = together(apart_by)
            errors = [
                misfit(shape, both, np.concatenate([seconds_a, seconds_b / by]), marked)
                for shape, by in ((pooled, 1.0), (other, apart_by))
            ]
            if errors[1] < CLEARLY * errors[0]:
                return other, apart_by
    return pooled, 1.0


def _leaning(
    load: Load,
    seconds: Floats,
    prior: Shape,
    terms: tuple[int, ...],
    joined: NDArray[np.bool_] | None = None,
    apart: bool = False,
) -> Shape:
    """The run's shape with a prior, or without one where that fits its own steps clearly better: then equal steps do
    not take about equal time."""
    leant = fit(load, seconds, prior, terms=terms, joined=joined, apart=apart)
    own = fit(load, seconds, hinge=prior.hinge, terms=terms, joined=joined, apart=apart)
    errors = [misfit(shape, load, seconds, joined) for shape in (leant, own)]
    return own if errors[0] > DIFFERENT * errors[1] else leant


def _factor(
    load_a: Load, seconds_a: Floats, load_b: Load, seconds_b: Floats, terms: tuple[int, ...], apart: bool
) -> float | None:
    """B's level over A's at equal steps, by the shape of the run that has seen different batches."""
    wide, level = (
        ((load_b, seconds_b), (load_a, seconds_a)) if narrow(load_a) else ((load_a, seconds_a), (load_b, seconds_b))
    )
    shape = fit(*wide, terms=terms, apart=apart)
    predicted = shape.total(level[0])
    measured = float(level[0].weight @ level[1])
    if predicted <= 0.0 or measured <= 0.0:
        return None
    return predicted / measured if narrow(load_a) else measured / predicted


@dataclass(frozen=True)
class _Sample:
    """Steps as a fit takes them: those whose times are known only together are one."""

    load: Load
    joined: NDArray[np.bool_] | None
    seconds: Floats
    weight: Floats
    apart: bool

    @staticmethod
    def of(load: Load, seconds: Floats, joined: NDArray[np.bool_] | None, apart: bool = False) -> _Sample:
        counted, weight = _grouped(load.weight * seconds, joined), _grouped(load.weight, joined)
        mean = counted / np.maximum(weight, 1e-12)
        size = float(counted.sum() / max(weight.sum(), 1e-12)) + mean
        return _Sample(load, joined, mean, weight / np.maximum(size, 1e-12), apart)

    def fitted(self, hinge: float, prior: Shape | None, terms: tuple[int, ...]) -> tuple[Floats, float]:
        """(cost, weighted squared error) of the best shape with this hinge."""
        features = self.load.design(hinge, self.joined, self.apart)
        normal = features.T @ (features * self.weight[:, None])
        moment = features.T @ (self.weight * self.seconds)
        cost = nonnegative(normal, moment, terms)
        basis = APART if self.apart else _AS_THEY_ARE
        if prior is not None:
            noise = _noise((self.seconds - features @ cost) * np.sqrt(self.weight))
            expected = np.linalg.solve(basis, prior.cost)
            strength = noise / np.maximum(POOLING * expected, 1e-9) ** 2
            strength = np.where(expected > 0, strength, 0.0)
            cost = nonnegative(normal + np.diag(strength), moment + strength * expected, terms)
        return basis @ cost, float(self.weight @ (self.seconds - features @ cost) ** 2)

    def missed(self, shape: StepShape) -> Floats:
        """What the steps took beyond a shape's prediction, seconds."""
        predicted = _grouped(self.load.weight * shape.seconds(self.load), self.joined)
        return self.seconds - predicted / np.maximum(_grouped(self.load.weight, self.joined), 1e-12)


def _grouped(values: Floats, joined: NDArray[np.bool_] | None) -> Floats:
    return values if joined is None else np.add.reduceat(values, beginnings(joined))


_AS_THEY_ARE: Final = np.eye(len(TERMS))


def misfit(shape: StepShape, load: Load, seconds: Floats, joined: NDArray[np.bool_] | None = None) -> float:
    """Weighted squared error of a shape's prediction, as a fit to these steps counts it."""
    sample = _Sample.of(load, seconds, joined)
    return float(sample.weight @ sample.missed(shape) ** 2)


def _usual_miss(shape: StepShape, load: Load, seconds: Floats, joined: NDArray[np.bool_] | None) -> float:
    """The median of how far a shape is off a step, seconds: no odd step counts in it."""
    return float(np.median(np.abs(_Sample.of(load, seconds, joined).missed(shape))))


def _noise(residual: Floats) -> float:
    """Residual variance of a single step, raised by what neighbouring steps share."""
    n = len(residual)
    if n < 4:
        return float(np.mean(residual**2)) if n else 0.0
    length = max(n // 16, 1)
    blocks = residual[: n // length * length].reshape(-1, length).mean(axis=1)
    return float(max(np.var(residual), length * np.var(blocks)))
