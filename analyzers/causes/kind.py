"""What a cause is to the diagnosis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from profiler.analyzers.gap.view import View
from profiler.model.diagnosis import CauseName, Evidence


@dataclass(frozen=True)
class CauseKind:
    """``needs`` says in words what shows the cause; ``evidence`` and ``summary`` draw on both runs. ``knobs`` are those
    that act on it, by their shared names.

    ``summary`` gets the row's amount, in seconds (B minus A; 0 where it is written as 0), and must claim no more than
    the evidence carries.
    """

    name: CauseName
    title: str
    needs: str
    evidence: Callable[[View], tuple[Evidence, ...]]
    summary: Callable[[View, float], str]
    knobs: tuple[str, ...] = ()
