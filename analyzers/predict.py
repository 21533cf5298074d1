"""The metrics of a run under another setting: the replay with the changed part against the replay as it was.

Only the relative change is used, and applied to the measured metric, so what the replay gets wrong in both cancels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from profiler.analyzers.device import DeviceAccount
from profiler.analyzers.gap import spread
from profiler.analyzers.gap.ledger import UNEXPLAINED
from profiler.analyzers.gap.measured import Measured, measure
from profiler.analyzers.gap.model import models_of
from profiler.analyzers.gap.played import Player, linear, player_of
from profiler.analyzers.gap.replay import StepCost
from profiler.analyzers.gap.shape import ENOUGH_STEPS, HINGES, fit
from profiler.analyzers.gap.shares import shortened
from profiler.analyzers.knobs import EFFECTS, NotPredictable, Situation, Turned, Value
from profiler.analyzers.knobs_captured import CAPTURED
from profiler.analyzers.knobs_on_cpu import COMPILER, effect_of
from profiler.model.diagnosis import Prediction
from profiler.model.extension import Engine
from profiler.model.run import Run

Known = tuple[Sequence[DeviceAccount] | None, Sequence[DeviceAccount] | None]

# A change is a factor, so intervals are on a log scale. Half their width beyond what bounds and other fits span, as a
# part of the change: with it they hold the truth of the lab's predictions about as often as they should
# (tests/benchmarks/knobs.py).
OF_THE_CHANGE: Final = 0.25
AT_LEAST: Final = 0.01
EXTRAPOLATED: Final = 2.0
# A fit whose residual is within this factor of the best can't be ruled out.
AS_GOOD: Final = 1.3


@dataclass(frozen=True)
class Outlook:
    """``predicted`` relative changes by metric, with intervals; ``metrics`` are the run's own. ``error`` is the
    replay's relative error on each of them. ``notes`` say how a prediction is meant. ``bounded``: the effect is known
    between bounds; ``midway``: either of them is as likely."""

    metrics: Mapping[str, float]
    predicted: Mapping[str, Prediction]
    error: Mapping[str, float]
    extrapolated: bool
    notes: tuple[str, ...] = ()
    bounded: bool = False
    midway: bool = False


def situation_of(
    run: Run, other: Run | None = None, known: Known = (None, None), engine: Engine | None = None
) -> Situation:
    """What a prediction starts from; ``other`` may show what this run has not measured. ``known`` are the accounts of
    both, where they were made before; ``engine`` is the run's, where it is known. Raises NotPredictable, saying what
    the run lacks."""
    measured, player = _played(run, known[0])
    shown = None
    if other is not None:
        try:
            shown = _played(other, known[1])
        except NotPredictable:
            shown = None
    theirs, account = (None, None) if shown is None else (shown[1], shown[0])
    elsewhere = engine.on_cpu if engine is not None and measured.device == "cpu" else {}
    return Situation(measured, shortened(player), theirs, _doubts(measured), account, elsewhere)


def _doubts(measured: Measured) -> tuple[StepCost, ...]:
    """Step times with another hinge that fit the run's own steps about as well as the best."""
    steps = measured.steps
    if steps is None or steps.own is None or len(steps.load) < ENOUGH_STEPS:
        return ()
    fitted = []
    for hinge in HINGES:
        shape = fit(steps.load, steps.own, hinge=hinge)
        fitted.append((float(steps.load.weight @ np.abs(steps.own - shape.seconds(steps.load))), shape))
    best = min(error for error, _ in fitted)
    return tuple(linear(shape) for error, shape in fitted if error <= AS_GOOD * best)


def _played(run: Run, known: Sequence[DeviceAccount] | None) -> tuple[Measured, Player]:
    if not run.benches:
        raise NotPredictable("the run holds no benchmark result")
    measured = measure(run, run.benches[-1], known)
    if measured.steps is None:
        raise NotPredictable("no steps (iteration log, batch log or annotated trace) say how long a step takes")
    if measured.steps.parallel > 1:
        raise NotPredictable("several engines shared the load, and which requests each took is not known")
    models = models_of(measured, measured, split=True)
    player = player_of(measured, None if models is None else models[0])
    if player is None:
        raise NotPredictable("the benchmark result holds no single requests, or not when they were sent")
    return measured, player


def glance(situation: Situation, settings: Mapping[str, Value]) -> dict[str, float]:
    """The likeliest relative changes alone, without intervals: to choose what is worth a closer look. Raises
    NotPredictable."""
    try:
        turned = _turned(situation, settings)
        before, after = _as_it_was(situation, turned), turned.player.play().metrics()
    except ValueError as error:
        raise NotPredictable(f"the replay can't serve these requests: {error}") from error
    return {metric: after[metric] / value - 1.0 for metric, value in before.items() if value and metric in after}


def outlook(situation: Situation, settings: Mapping[str, Value]) -> Outlook:
    """The predicted metrics with every setting applied. Raises NotPredictable with the reason."""
    measured = situation.metrics
    turned = _turned(situation, settings)
    try:
        before = _as_it_was(situation, turned)
        after = turned.player.play().metrics()
        sides = [side.play().metrics() for side in (turned.low, turned.high) if side is not None]
        ratios = [(side, before) for side in sides]
        for doubt in situation.doubts:
            doubted = replace(situation, player=_with(situation.player, doubt))
            other = _turned(doubted, settings)
            ratios.append((other.player.play().metrics(), _as_it_was(doubted, other)))
    except ValueError as error:
        raise NotPredictable(f"the replay can't serve these requests: {error}") from error
    device = situation.measured.device
    predicted, errors = {}, {}
    for metric, value in measured.items():
        if not before.get(metric) or not value:
            continue
        errors[metric] = before[metric] / value - 1.0
        # The engine will be started again, and starts differ by themselves.
        starts = spread.NORMAL_95 * spread.of_difference(device, device, metric)
        # What the replay gets wrong may stay or may go with the change: halfway between both.
        stays, goes = after[metric] / before[metric], after[metric] / value
        bounds = [side[metric] / base[metric] for side, base in ratios if base.get(metric)]
        if turned.midway and sides:
            stays = goes = float(np.prod(bounds[: len(sides)])) ** (1.0 / len(sides))
        if abs(stays - 1.0) <= AT_LEAST:
            goes = stays
        factor = (stays * goes) ** 0.5
        factors = (factor, stays, goes, *bounds)
        if min(factors) <= 0.0:
            continue  # of a latency that the client holds up longer than the engine takes, a replay may leave nothing
        half = OF_THE_CHANGE * abs(np.log(factor)) * (EXTRAPOLATED if turned.extrapolated else 1.0)
        wider = float(np.exp(half + AT_LEAST + starts))
        interval = (min(factors) / wider - 1.0, max(factors) * wider - 1.0)
        predicted[metric] = Prediction(change=factor - 1.0, interval=interval)
    return Outlook(
        measured, predicted, errors, turned.extrapolated, turned.notes, turned.low is not None, turned.midway
    )


def _as_it_was(situation: Situation, turned: Turned) -> Mapping[str, float]:
    """The replay's metrics before the change, read as the change reads it."""
    if turned.reads is None:
        return situation.replayed
    return replace(situation.player, apart=turned.reads).play().metrics()


def _with(player: Player, cost: StepCost) -> Player:
    """The player with another whole step: the difference is one more part."""
    rest = cost.plus(player.cost, -1.0)
    return replace(player, costs={**player.costs, (UNEXPLAINED, "another fit"): rest})


def _turned(situation: Situation, settings: Mapping[str, Value]) -> Turned:
    total = Turned(situation.player)
    for knob, value in settings.items():
        effect = effect_of(situation, knob)
        if effect is None:
            known = ", ".join(sorted((*EFFECTS, *CAPTURED, COMPILER.knob)))
            raise NotPredictable(f"the effect of {knob} can't be predicted; known are {known}")
        one = effect.turn(replace(situation, player=total.player), value)
        low = high = None
        if one.low is not None or total.low is not None:
            low = effect.turn(replace(situation, player=total.low or total.player), value)
            high = effect.turn(replace(situation, player=total.high or total.player), value)
        total = Turned(
            one.player,
            None if low is None else low.low or low.player,
            None if high is None else high.high or high.player,
            total.extrapolated or one.extrapolated,
            total.midway or one.midway,
            (*total.notes, *one.notes),
            one.reads or total.reads,
        )
    return total
