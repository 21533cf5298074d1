"""The documents of ``profiler recommend`` and ``profiler whatif``: what to turn, what it is predicted to do, why."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from profiler.model.diagnosis import Prediction, Recommendation
from profiler.model.document import EngineRef

RECOMMENDATION_SCHEMA: Final = "profiler.recommendation/1"
WHATIF_SCHEMA: Final = "profiler.whatif/1"


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """A symptom that the run shows and the knob that usually answers it: evidence, and no predicted amount."""

    symptom: str
    evidence: str
    knob: str | None
    flag: str | None
    text: str


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """A bound in closed form as the run stands: a ceiling, or a floor where ``floor`` is true. ``value`` is in
    ``unit``; ``now`` is where the run is, and ``how`` also says what moves the bound."""

    name: str
    value: float
    now: float | None
    unit: str
    how: str
    floor: bool = False


class RecommendationDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that ``recommend`` found for one run. ``error`` is the replay's relative error on the run's own
    metrics, ``not_predicted`` why a knob has no prediction, ``without_effect`` why one changes nothing here."""

    schema: str
    run: str
    engine: EngineRef
    metric: str
    metrics: dict[str, float]
    error: dict[str, float]
    recommendations: tuple[Recommendation, ...]
    verdict: str
    advice: tuple[Advice, ...]
    limits: tuple[Limit, ...]
    not_predicted: dict[str, str]
    without_effect: dict[str, str] = {}


class Confidence(msgspec.Struct, frozen=True):
    """How well a prediction is founded, and what lowers it most (or what it rests on)."""

    word: Literal["high", "medium", "low"]
    reason: str


class WhatIfDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of one run under other settings. ``predicted`` are relative changes with 95% intervals, and
    ``notes`` say how they are meant; ``confidence`` is how well each is founded."""

    schema: str
    run: str
    engine: EngineRef
    settings: dict[str, str]
    typed: dict[str, str]
    metrics: dict[str, float]
    predicted: dict[str, Prediction]
    error: dict[str, float]
    extrapolated: bool
    notes: tuple[str, ...] = ()
    confidence: dict[str, Confidence] = {}
