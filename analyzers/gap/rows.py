"""Ledger -> the rows of the document: every cause, its parts, intervals, texts, in the unit of the metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from profiler.analyzers.causes import CAUSES
from profiler.analyzers.gap.ledger import UNEXPLAINED, Ledger
from profiler.analyzers.gap.view import View
from profiler.model.diagnosis import ALWAYS_SHOWN, Cause, Part, Unexplained

# Rows smaller than this part of the larger run's value are rounding, not findings.
NOTHING: Final = 1e-9
# Beside the largest row a smaller one is written as 0: its text claims no difference either.
SHOWN: Final = 5e-5
NOT_BROKEN_DOWN: Final = "this metric is not broken down"
TURNED: Final = "; this metric gains from it all the same, since longer steps change which requests share one"


def causes_of(
    ledger: Ledger | None,
    view: View,
    intervals: Mapping[str, tuple[float, float]],
    factor: float,
    gap: float,
) -> tuple[tuple[Cause, ...], Unexplained]:
    """Rows largest first. ``factor`` turns the ledger's seconds into the metric's unit; ``gap`` is in that unit. A
    metric without a ledger is not broken down.

    What is left to the gap after rounding goes to ``unexplained``, so that the rows add up to it.
    """
    broken_down, ledger = ledger is not None, ledger or Ledger()
    amounts = ledger.by_cause()
    largest = max((abs(amount) for amount in (*amounts.values(), gap / factor if factor else 0.0)), default=0.0)
    view = replace(view, intervals=intervals, parts=ledger.amounts)
    rows = []
    for kind in CAUSES:
        amount = amounts.get(kind.name, 0.0)
        if kind.name not in amounts and kind.name not in ALWAYS_SHOWN:
            continue
        nothing = abs(amount) <= NOTHING * largest
        value = 0.0 if nothing else amount * factor
        # What the runs do not differ in has no interval, whether the metric was accounted for or replayed.
        bounds = None if nothing else intervals.get(kind.name)
        interval = None if bounds is None else _sorted(bounds[0] * factor, bounds[1] * factor)
        told = kind.summary(view, amount if abs(amount) > SHOWN * largest else 0.0) if broken_down else NOT_BROKEN_DOWN
        # A throughput, whose factor is negative, has no queue to gain from.
        told += TURNED if factor > 0.0 and view.turned(kind.name, amount) else ""
        rows.append(
            Cause(
                cause=kind.name,
                gap=value,
                share=value / gap if gap else None,
                interval=interval,
                extrapolated=kind.name in ledger.extrapolated,
                summary=told,
                evidence=kind.evidence(view),
                parts=_parts(ledger, kind.name, factor, gap),
            )
        )
    rows.sort(key=lambda row: -abs(row.gap))
    left = gap - sum(row.gap for row in rows)
    parts = _parts(ledger, UNEXPLAINED, factor, gap)
    summary = "" if not parts else "; ".join(part.name for part in parts)
    return tuple(rows), Unexplained(gap=left, share=left / gap if gap else None, summary=summary, parts=parts)


def _parts(ledger: Ledger, cause: str, factor: float, gap: float) -> tuple[Part, ...]:
    scale = sum(abs(v) for v in ledger.amounts.values()) or 1.0
    found = [
        Part(name=part, gap=amount * factor, share=amount * factor / gap if gap else None)
        for (name, part), amount in ledger.amounts.items()
        if name == cause and abs(amount) > NOTHING * scale
    ]
    return tuple(sorted(found, key=lambda part: -abs(part.gap)))


def _sorted(one: float, two: float) -> tuple[float, float]:
    return (one + 0.0, two + 0.0) if one <= two else (two + 0.0, one + 0.0)
