"""communication: collectives that no compute hides, and waiting for a slower rank."""

from __future__ import annotations

from profiler.analyzers.causes.kind import CauseKind
from profiler.analyzers.gap.view import View, evidence, time_text
from profiler.model.diagnosis import Evidence


def _evidence(view: View) -> tuple[Evidence, ...]:
    return evidence("exposed collectives of a step", view.per_step("communication"), "s", view.source("trace"))


def _summary(view: View, amount: float) -> str:
    exposed = view.per_step("communication")
    if exposed[0] is None or exposed[1] is None:
        return "not known without a trace of both runs"
    a, b = view.names()
    if not exposed[0] and not exposed[1]:
        return "no collective is exposed in either run"
    return (
        f"collectives that no compute hides take {time_text(exposed[0])} of {a}'s step and "
        f"{time_text(exposed[1])} of {b}'s; waiting for a slower rank is part of it"
    )


CAUSE = CauseKind("communication", "Communication", "a trace with steps of both runs", _evidence, _summary)
