"""How much a prediction is worth: a word, and what it rests on."""

from __future__ import annotations

from typing import Final, Literal

from profiler.analyzers.metrics import changed
from profiler.analyzers.predict import Outlook

Confidence = Literal["high", "medium", "low"]
# A replay that is as close to its own run stands for it; ours, and about what starts of one setting differ by.
CLOSE: Final = 0.05


def confidence_of(seen: Outlook, metric: str) -> tuple[Confidence, str]:
    """The confidence in the predicted change of ``metric``, with the reason that lowers it most."""
    prediction, error = seen.predicted[metric], seen.error.get(metric, 0.0)
    if seen.midway:
        return "low", "bounds alone: what the run shows does not say where between them the change lies"
    if seen.extrapolated:
        return "low", "extrapolated: steps would carry what this run has not seen"
    if abs(error) > abs(prediction.change):
        return "low", f"the replay of the run as it was is off by {changed(error, 1)}, more than the change"
    if prediction.interval[0] <= 0.0 <= prediction.interval[1]:
        return "low", "the interval holds no change too"
    if seen.bounded:
        return "medium", "what the setting adds to a step or takes from it is known between bounds"
    if abs(error) > CLOSE:
        return "medium", f"the replay of the run as it was is off by {changed(error, 1)}"
    return "high", f"steps like those that were measured, under another rule; the replay is off by {changed(error, 1)}"
