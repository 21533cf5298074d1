"""Which knobs to turn: every candidate is replayed, the best of each knob is ranked by what it gains on the metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from profiler.analyzers.confidence import CLOSE, confidence_of
from profiler.analyzers.identity import engine_of
from profiler.analyzers.knobs import Effect, NotPredictable, Situation, Value
from profiler.analyzers.knobs_on_cpu import effect_of, ineffective
from profiler.analyzers.limits import TPOT, limits_of
from profiler.analyzers.metrics import changed, higher_is_better, metrics_of
from profiler.analyzers.predict import Known, Outlook, glance, outlook, situation_of
from profiler.analyzers.symptoms import symptoms_of
from profiler.model.diagnosis import Prediction, Recommendation
from profiler.model.extension import Engine
from profiler.model.knob import Allowed, Knob
from profiler.model.recommendation import (
    RECOMMENDATION_SCHEMA,
    WHATIF_SCHEMA,
    Advice,
    Confidence,
    Limit,
    RecommendationDocument,
    WhatIfDocument,
)
from profiler.model.run import Run

# Smaller gains than this are not worth a restart.
WORTH: Final = 0.02
# An interval that reaches as far down says nothing: no advice rests on it.
NOTHING_LEFT: Final = -0.95
SHOWN: Final = ("output_throughput", "mean_ttft", "mean_tpot", "mean_e2e")
_SLO: Final = {"ttft": "mean_ttft", "tpot": "mean_tpot", "e2e": "mean_e2e"}


class OutOfRange(Exception):
    """A value that a setting does not take: which it takes."""


def spelled_for(run: Run, engine: Engine | None) -> dict[str, Knob]:
    """The engine's knobs by their shared name, as the run's version spells them."""
    version = _version(run)
    return {knob.name: knob.at(version) for knob in (engine.knobs if engine is not None else ())}


def _version(run: Run) -> str | None:
    stated = run.fact("engine.version")
    return stated if isinstance(stated, str) else None


def recommend(
    run: Run,
    engine: Engine | None,
    other: Run | None = None,
    metric: str = "output_throughput",
    slo: Mapping[str, float] | None = None,
) -> RecommendationDocument:
    """Knobs for ``metric``, best first; ``slo`` (seconds by ttft, tpot, e2e) bounds the predicted means.

    Raises NotPredictable where the run lacks what any prediction needs, or does not measure ``metric``.
    """
    situation = situation_of(run, other, engine=engine)
    own = outlook(situation, {})
    reasons: dict[str, str] = {}
    rows = _ranked(situation, own, engine, metric, slo, reasons)
    knobs = spelled_for(run, engine)
    limits = limits_of(situation.measured)
    return RecommendationDocument(
        schema=RECOMMENDATION_SCHEMA,
        run=run.name,
        engine=engine_of(run),
        metric=metric,
        metrics=dict(own.metrics),
        error=dict(own.error),
        recommendations=rows,
        verdict=_impossible(slo or {}, limits) or _verdict(rows, metric, engine),
        advice=_advice(situation, knobs, {row.knob for row in rows}),
        limits=limits,
        without_effect=ineffective(situation),
        not_predicted=reasons,
    )


def recommended(
    run: Run, engine: Engine, other: Run | None, metric: str, slo: Mapping[str, float] | None, known: Known
) -> tuple[Recommendation, ...]:
    """The knobs alone, best first; ``known`` as for ``situation_of``. Raises like ``recommend``."""
    situation = situation_of(run, other, known, engine)
    return _ranked(situation, outlook(situation, {}), engine, metric, slo, {})


def _ranked(
    situation: Situation,
    own: Outlook,
    engine: Engine | None,
    metric: str,
    slo: Mapping[str, float] | None,
    reasons: dict[str, str],
) -> tuple[Recommendation, ...]:
    """``reasons`` takes up why a knob was not predicted."""
    if metric not in own.predicted:
        raise NotPredictable(f"the run does not measure {metric}, or no replay gives it")
    run = situation.measured.run
    found: list[tuple[float, Recommendation]] = []
    for knob in spelled_for(run, engine).values():
        effect = effect_of(situation, knob.name)
        if effect is None or knob.name in situation.elsewhere.values():
            continue  # what another of its knobs is on this device is offered as that one
        try:
            best = _best(situation, effect, knob.allowed, metric, slo)
        except NotPredictable as reason:
            reasons[knob.name] = str(reason)
            continue
        if best is not None:
            value, seen = best
            gain = _gain(seen.predicted[metric].change, metric)
            typed = _typed(knob, value, spelled_for(run, engine))
            found.append((gain, _recommendation(run, knob, effect, value, typed, seen, metric)))
    return tuple(row for _, row in sorted(found, key=lambda item: -item[0]))


def whatif(run: Run, engine: Engine | None, settings: Mapping[str, Value], other: Run | None = None) -> WhatIfDocument:
    """The metrics under ``settings`` (knob by its shared name). Raises OutOfRange for a value that the engine does not
    take, NotPredictable with the reason."""
    knobs = spelled_for(run, engine)
    for name, value in settings.items():
        allowed = knobs[name].allowed if name in knobs else None
        if allowed is not None and not allowed.takes(value):
            raise OutOfRange(f"{name} takes {allowed.words}, not {_shown(value)}")
    seen = outlook(situation_of(run, other, engine=engine), settings)
    return WhatIfDocument(
        schema=WHATIF_SCHEMA,
        run=run.name,
        engine=engine_of(run),
        settings={name: _shown(value) for name, value in settings.items()},
        typed={name: knobs[name].spelled(value) for name, value in settings.items() if name in knobs},
        metrics=dict(seen.metrics),
        predicted=dict(seen.predicted),
        error=dict(seen.error),
        extrapolated=seen.extrapolated,
        notes=seen.notes,
        confidence={name: Confidence(*confidence_of(seen, name)) for name in seen.predicted},
    )


def scores(before: Run, after: Run, knob: str, value: str, predicted: Mapping[str, Prediction]) -> tuple[str, ...]:
    """One line a metric where ``after`` is ``before`` with the knob turned as predicted; none where it is not."""
    if _shown(after.fact(f"setting.{knob}")) != value or _shown(before.fact(f"setting.{knob}")) == value:
        return ()
    if not before.benches or not after.benches:
        return ()
    own, now = metrics_of(before.benches[-1]), metrics_of(after.benches[-1])
    lines = []
    for metric, guess in predicted.items():
        if own.get(metric) and metric in now:
            change = now[metric] / own[metric] - 1.0
            low, high = guess.interval
            held = "within" if low <= change <= high else "outside"
            lines.append(
                f"{knob}={value} was predicted to change {metric} by {changed(guess.change)}; "
                f"it changed by {changed(change)}, {held} the interval ({changed(low)} to {changed(high)})"
            )
    return tuple(lines)


def _best(
    situation: Situation, effect: Effect, allowed: Allowed | None, metric: str, slo: Mapping[str, float] | None
) -> tuple[Value, Outlook] | None:
    """The candidate that gains most and keeps the SLO; None where none is worth it. Raises NotPredictable where no
    candidate can be predicted."""
    candidates = [v for v in effect.candidates(situation) if allowed is None or allowed.takes(v)]
    gains: list[tuple[float, Value]] = []
    refused: NotPredictable | None = None
    own = situation.metrics
    for value in candidates:
        try:
            changes = glance(situation, {effect.knob: value})
        except NotPredictable as reason:
            refused = reason
            continue
        gain = _gain(changes[metric], metric)
        if gain >= WORTH and _kept(own, changes, slo):
            gains.append((gain, value))
    # A closer look may see less in a value than the glance, or nothing at all.
    for _, value in sorted(gains, key=lambda item: -item[0]):
        seen = outlook(situation, {effect.knob: value})
        if metric not in seen.predicted:
            refused = NotPredictable(f"the replay leaves nothing of {metric}, which the client holds up")
            continue
        low, _ = seen.predicted[metric].interval
        if _gain(seen.predicted[metric].change, metric) < WORTH:
            continue
        if "throughput" in metric and low <= 0.0 and _lowers(situation.measured.run, effect.knob, value):
            continue  # every guide says to raise a limit for throughput: against it only what is sure
        if seen.extrapolated and higher_is_better(metric) and low <= NOTHING_LEFT:
            refused = NotPredictable("outside what this run has seen, where all may be lost as well as much be gained")
            continue
        return value, seen
    if refused is not None and (gains or len(candidates) == 1):
        raise refused
    return None


def _lowers(run: Run, knob: str, value: Value) -> bool:
    """Whether a value is below the limit in force."""
    current = run.fact(f"setting.{knob}")
    numbers = [x for x in (value, current) if isinstance(x, int | float) and not isinstance(x, bool)]
    return len(numbers) == 2 and numbers[0] < numbers[1]


def _gain(change: float, metric: str) -> float:
    return change if higher_is_better(metric) else -change


def _kept(own: Mapping[str, float], changes: Mapping[str, float], slo: Mapping[str, float] | None) -> bool:
    """Whether the predicted means stay within the SLO."""
    for name, bound in (slo or {}).items():
        metric = _SLO[name]
        if metric in own and own[metric] * (1.0 + changes.get(metric, 0.0)) > bound:
            return False
    return True


def _typed(knob: Knob, value: Value, knobs: Mapping[str, Knob]) -> str:
    """What an operator types; of a KV cache whose tokens no flag sets, what makes it larger."""
    ways = [knobs[name].flags[0] for name in _ROOM if name in knobs and knobs[name].flags]
    if knob.name == "kv_tokens" and not knob.flags and ways:
        return f"a KV cache of {value} tokens ({' or '.join(ways)})"
    return knob.spelled(value)


_ROOM: Final = ("kv_blocks", "memory_fraction")


def _recommendation(
    run: Run, knob: Knob, effect: Effect, value: Value, spelled: str, seen: Outlook, metric: str
) -> Recommendation:
    current = run.fact(f"setting.{effect.knob}")
    numeric = not isinstance(value, bool) and bool(knob.flags)
    confidence, reason = confidence_of(seen, metric)
    why = f"Acts on {effect.title}."
    for note in seen.notes:
        why += f" {note[0].upper()}{note[1:]}."
    if seen.extrapolated and not reason.startswith("extrapolated"):
        why += " Extrapolated: steps would carry what this run has not seen."
    for name, prediction in seen.predicted.items():
        error = seen.error.get(name, 0.0)
        if name in SHOWN and name != metric and abs(error) > max(CLOSE, abs(prediction.change)):
            off = f"is off by {changed(error)} in {name}, more than what is predicted of it"
            why += f" The replay of the run as it was {off}."
    return Recommendation(
        run=run.name,
        knob=effect.knob,
        flag=knob.flags[0] if numeric else spelled,
        current=None if current is None else _shown(current),
        to=_shown(value) if numeric else None,
        predicted={name: seen.predicted[name] for name in SHOWN if name in seen.predicted},
        why=why,
        check=f"start the engine {_with(spelled)}, send the same load, then: profiler diagnose {run.name} AFTER",
        default=knob.default(_version(run)),
        allowed=None if knob.allowed is None else knob.allowed.words,
        needs=knob.needs,
        price="; ".join(price for price in (_worse(seen), effect.trade, knob.price(value)) if price),
        confidence=confidence,
        confidence_reason=reason,
    )


def _with(spelled: str) -> str:
    """A setting behind a verb; one that is left out brings its own word."""
    return spelled if spelled.startswith("without ") else f"with {spelled}"


def _worse(seen: Outlook) -> str:
    """The metrics that get worse for sure."""
    found = [
        f"{name} {changed(prediction.change)}"
        for name, prediction in seen.predicted.items()
        if name in SHOWN
        and _gain(prediction.change, name) <= -WORTH
        and not prediction.interval[0] <= 0.0 <= prediction.interval[1]
    ]
    return f"worse: {', '.join(found)}" if found else ""


def _verdict(rows: tuple[Recommendation, ...], metric: str, engine: Engine | None) -> str:
    if engine is None:
        return "The run does not say which engine it is of, so no flag can be named."
    if not rows:
        return f"Nothing to gain: no setting whose effect can be predicted changes {metric} by {WORTH:.0%} or more."
    first = rows[0]
    prediction: Prediction = first.predicted[metric]
    sure = prediction.interval[0] > 0 or prediction.interval[1] < 0
    text = f"{first.flag} {first.to or ''}".strip()
    return f"{text}: {metric} {changed(prediction.change)} predicted" + (
        "." if sure else "; the interval holds no change too."
    )


def _impossible(slo: Mapping[str, float], limits: Sequence[Limit]) -> str:
    """A goal below a floor is out of reach of any setting; empty where none is known to be."""
    for limit in limits:
        if limit.name == TPOT and slo.get("tpot", limit.value) < limit.value:
            return (
                f"Impossible: a TPOT within {slo['tpot'] * 1e3:.3g} ms, where no step is shorter than "
                f"{limit.value * 1e3:.3g} ms: {limit.how}."
            )
    return ""


def _advice(situation: Situation, knobs: Mapping[str, Knob], predicted: set[str]) -> tuple[Advice, ...]:
    found = []
    for symptom in symptoms_of(situation.measured):
        name = next((one for one in symptom.knobs if one in knobs), symptom.knobs[0] if symptom.knobs else None)
        if name in predicted:
            continue
        knob = None if name is None else knobs.get(name)
        flag = None
        if knob is not None:
            flag = (
                knob.spelled(symptom.value) if symptom.value is not None else (knob.flags or knob.settings or ("",))[0]
            )
        found.append(Advice(symptom=symptom.name, evidence=symptom.evidence, knob=name, flag=flag, text=symptom.text))
    return tuple(found)


def _shown(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
