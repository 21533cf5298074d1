"""scheduling: the device waits between steps, decodes wait for prefills, or time passes outside the steps."""

from __future__ import annotations

from profiler.analyzers.causes.kind import CauseKind
from profiler.analyzers.gap.ledger import HELD
from profiler.analyzers.gap.view import Pair, View, both, evidence, time_text, waited
from profiler.model.diagnosis import Evidence


def _outside(view: View) -> Pair:
    def share(outside: float, duration: float, timed: bool) -> float | None:
        return outside / duration if timed and duration > 0 else None

    a, b = view.a, view.b
    return (
        share(a.outside, a.duration, a.steps is not None and a.steps.total < a.duration),
        share(b.outside, b.duration, b.steps is not None and b.steps.total < b.duration),
    )


def _evidence(view: View) -> tuple[Evidence, ...]:
    return (
        *waited("device idle between steps, per step", view.per_step("scheduling"), view.source("fitted")),
        *evidence("share of the load outside the timed steps", _outside(view), "fraction", view.source("steps")),
        *evidence("scheduler seconds outside the executor", view.counter("scheduler_seconds"), "s",
                  view.source("metrics")),
    )  # fmt: skip


def _summary(view: View, amount: float) -> str:
    a, b = view.names()
    waits = view.per_step("scheduling")
    if both(waits) and waits[0] is not None and waits[1] is not None:
        text = f"between steps the device waits {time_text(waits[0])} a step in {a} and {time_text(waits[1])} in {b}"
        held = view.parts.get(("cuda_graph", HELD), 0.0)
        if abs(held) > abs(amount):
            return f"{text}, as launches hold the host: counted as CUDA Graph"
        return f"{text}{_overlap(view)}" if amount else f"{text}; no difference"
    outside = _outside(view)
    if outside[0] is not None and outside[1] is not None:
        return f"{outside[0]:.0%} of {a}'s time and {outside[1]:.0%} of {b}'s lies outside the timed steps"
    if amount and (outside[0] is None) != (outside[1] is None):
        share, timed, other = (outside[1], b, a) if outside[0] is None else (outside[0], a, b)
        return (
            f"{share:.0%} of {timed}'s time lies outside its timed steps; how much of {other}'s does is not known and "
            "counts with its steps"
        )
    return "not known: needs timed steps or a trace of both runs"


def _overlap(view: View) -> str:
    """Which of the runs schedules while the device computes, where only one does."""
    if view.model_a is None or view.model_b is None or view.model_a.overlapped == view.model_b.overlapped:
        return ""
    a, b = view.names()
    beside, in_turns = (a, b) if view.model_a.overlapped else (b, a)
    return f"; {beside} schedules while the device computes, {in_turns} in turns with it"


CAUSE = CauseKind(
    "scheduling",
    "Scheduling",
    "timed steps, or a trace with steps of both runs",
    _evidence,
    _summary,
    ("overlap", "mixed_prefill"),
)
