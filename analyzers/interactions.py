"""Knobs beside the rows of the gap: what turning one is predicted to save, and what its cause costs.

Rows say how the measured difference divides. What one knob saves depends on the causes that stay (slow launches keep a
fuller batch from paying), and its value may go beyond the other run's. Where the two differ, that is said, and whether
the prediction's interval covers it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from profiler.analyzers.causes import CAUSES
from profiler.analyzers.metrics import changed
from profiler.analyzers.verdict import TITLES
from profiler.model.diagnosis import Cause, Gap, Recommendation

# Changes that are so close, or differ by so little of the row, are the same to a reader.
CLOSE: Final = 0.02
NEAR: Final = 0.1


def beside_rows(knobs: Sequence[Recommendation], gap: Gap) -> tuple[Recommendation, ...]:
    """The knobs of the run that loses ``gap``; a prediction says where its cause's row is worth something else."""
    return tuple(_beside(knob, gap) for knob in knobs)


def _beside(knob: Recommendation, gap: Gap) -> Recommendation:
    prediction = knob.predicted.get(gap.metric)
    kind = next((kind for kind in CAUSES if knob.knob in kind.knobs), None)
    row = next((row for row in gap.causes if kind is not None and row.cause == kind.name), None)
    if prediction is None or kind is None or row is None:
        return knob
    worth = worth_of(row, gap)
    if worth is None or abs(worth - prediction.change) <= max(CLOSE, NEAR * abs(worth)):
        return knob
    told = f"{TITLES[kind.name]}'s row of the gap ({changed(worth)})"
    if prediction.interval[0] <= worth <= prediction.interval[1]:
        text = f"{told} lies in it"
    elif worth * prediction.change > 0.0 and abs(worth) > abs(prediction.change):
        text = f"less than {told}: the other causes still hold the run back"
    else:
        text = f"not {told}: rows divide the gap and predict no knob"
    return replace(knob, beside={gap.metric: text})


def worth_of(row: Cause, gap: Gap) -> float | None:
    """The relative change of the losing run's metric if the row alone were 0; None where nothing would be left."""
    loser, sign = (gap.b, 1.0) if gap.winner == "a" else (gap.a, -1.0)
    additive = gap.seconds_per_output_token
    if additive is None or not additive.factor:
        return -sign * row.gap / loser if loser else None
    seconds = additive.b if gap.winner == "a" else additive.a
    left = seconds - sign * row.gap / additive.factor
    return seconds / left - 1.0 if left > 0.0 else None
