"""What a recording cost, as its ``run.json`` states it: the lines that say how a run was measured."""

from __future__ import annotations

from typing import Final

from profiler.model.run import Run

COST: Final = "recording.cost."
TOLL: Final = "recording.toll"


def costs_told(run: Run) -> tuple[str, ...]:
    """Each collector with what it used, and what the profiler's session cost; none of a run that was not recorded."""
    used = (f"{name.removeprefix(COST)}: {fact.value}" for name, fact in run.facts.items() if name.startswith(COST))
    toll = run.fact(TOLL)
    lines = [f"{run.name}: cost of the collector {one}." for one in used]
    return (*lines, *([] if toll is None else [f"{run.name}: {toll}."]))
