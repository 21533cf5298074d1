"""The additive split of a gap: composition against rates, then each by what it is made of.

A metric that is a weighted sum of step times, v = sum over steps of w(x) t(x), differs between two runs because the
steps are others (composition x, weight w) or because equal steps take another time (rates t). Both orders of the swap
are averaged where both runs have seen each other's steps; where only one has, its rates judge the composition, so
nothing is asked of a model outside what it was fitted on (the Kitagawa-Oaxaca-Blinder trap).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from profiler.analyzers.gap.contention import hidden, known, paces
from profiler.analyzers.gap.load import Load
from profiler.analyzers.gap.model import Component, RunModel
from profiler.analyzers.gap.shape import WORK
from profiler.model.requests import Floats


@dataclass(frozen=True)
class Split:
    """B minus A in the unit of the metric. ``composition`` by what a step's time is spent on, ``rates`` by component;
    ``level`` is the size that each has in the runs themselves (for intervals). Both together add up to ``total``.
    ``launching`` and ``phases`` are the changes of the host's time in launch calls and in its annotated phases, in the
    same unit (0 where a trace does not show them)."""

    total: float
    composition: Mapping[str, float]
    rates: Mapping[Component, float]
    composition_level: Mapping[str, float]
    rates_level: Mapping[Component, float]
    extrapolated: bool
    launching: float
    phases: float


def split(model_a: RunModel, load_a: Load, model_b: RunModel, load_b: Load) -> Split:
    """Split v_B - v_A, where v is the weighted sum of step seconds and the weights are in the loads."""
    covers_ab = model_a.step.covers(load_b)
    covers_ba = model_b.step.covers(load_a)
    by_a = 0.5 if covers_ab == covers_ba else 1.0 if covers_ab else 0.0
    at_a = model_a.step.by_work(load_b) - model_a.step.by_work(load_a)
    at_b = model_b.step.by_work(load_b) - model_b.step.by_work(load_a)
    moved = by_a * at_a + (1 - by_a) * at_b
    composition = dict(zip(WORK, moved.tolist(), strict=True))
    own_a, own_b = model_a.components(load_a), model_b.components(load_b)
    a_on_b, b_on_a = model_a.components(load_b), model_b.components(load_a)
    rates: defaultdict[Component, float] = defaultdict(float)
    # If A's rates judge the composition, the rates are compared on B's steps, and the other way round.
    for weight, load, fast, slow in ((by_a, load_b, a_on_b, own_b), (1 - by_a, load_a, own_a, b_on_a)):
        changes = {key: slow.get(key, 0.0) - fast.get(key, 0.0) for key in sorted({**fast, **slow})}
        for key, amount in _contended(model_a, model_b, load, changes).items():
            rates[key] += weight * amount
    levels = {key: 0.5 * (own_a.get(key, 0.0) + own_b.get(key, 0.0)) for key in rates}
    term_level = 0.5 * (model_a.step.by_work(load_a) + model_b.step.by_work(load_b))
    launching = phases = 0.0
    for weight, load in ((by_a, load_b), (1 - by_a, load_a)):
        if model_a.launching is not None and model_b.launching is not None:
            launching += weight * (model_b.launching.total(load) - model_a.launching.total(load))
        if model_a.phases is not None and model_b.phases is not None:
            phases += weight * (model_b.phases - model_a.phases) * float(load.weight.sum())
    return Split(
        total=model_b.seconds(load_b) - model_a.seconds(load_a),
        composition=composition,
        rates=dict(rates),
        composition_level=dict(zip(WORK, term_level.tolist(), strict=True)),
        rates_level=levels,
        extrapolated=not covers_ab and not covers_ba,
        launching=launching,
        phases=phases,
    )


def _contended(
    model_a: RunModel, model_b: RunModel, load: Load, changes: Mapping[Component, float]
) -> Mapping[Component, float]:
    """Changes of the components at equal steps, as host and device share them: what the one hides of the other's change
    is counted for neither alone (contention.py). They add up to the same. As they were where a model does not tell the
    device from its host."""
    if not known(model_a, model_b):
        return changes
    counts = hidden(paces(model_a, model_a.kept, load), paces(model_b, model_b.kept, load))
    found = dict(changes)
    moved = 0.0
    for key in changes:
        if key not in model_a.device and key not in model_b.device:
            continue
        change = np.zeros(len(load))
        for model, sign in ((model_a, -1.0), (model_b, 1.0)):
            if key in model.device:
                change = change + sign * model.device[key].seconds(load)
        found[key] -= (left := float(load.weight @ ((1.0 - counts) * change)))
        moved += left
    waiting = {key: abs(amount) for key, amount in changes.items() if key in model_a.host or key in model_b.host}
    total = sum(waiting.values())
    if total <= 0.0:
        return changes
    for key, size in waiting.items():
        found[key] += moved * size / total
    return found


def per_output_token(load: Load, tokens: int) -> Load:
    """Weights such that v is step seconds per output token."""
    return load.weighted(("output token", tokens), lambda: load.weight / max(tokens, 1))


def per_decoded_token(load: Load) -> tuple[Load, Load]:
    """Weights such that v is TPOT: (the steps in which a sequence decodes, the steps that make it wait)."""
    decoded = max(float(load.weight @ load.decode), 1e-12)
    return (
        load.weighted("decoded token", lambda: load.weight * load.decode / decoded),
        load.weighted("stalled token", lambda: load.weight * load.stalled / decoded),
    )


def per_prefill(load: Load, requests: int, lagged: bool) -> Load:
    """Weights such that v is the seconds of the steps that a request's prefill takes part in, per request; where
    tokens come out one step later (``lagged``), of the steps after them too."""

    def weight() -> Floats:
        each = load.weight * load.prefill_requests / max(requests, 1)
        return each + np.append(0.0, each[:-1]) if lagged else each

    return load.weighted(("prefill", requests, lagged), weight)
