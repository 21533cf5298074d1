"""Steps that stand for a run, beside each other: what a report draws as aligned timelines.

Times are seconds from the step's first work on the device, negative before it. Bars that are too short to be seen are
joined, so that a step has a bounded size whatever its trace holds.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Side = Literal["a", "b"]
LaneKind = Literal["host", "launch", "device", "idle"]


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a timeline: bars as columns of one length, in order, none over another.

    ``group`` indexes ``groups`` (a kernel category, a host phase, a call, an idle cause), ``name`` the step's ``names``
    (-1: several short events joined, ``group`` is then that of most of them). ``count`` are the events of a bar and
    ``busy`` the seconds of it that they fill. ``seconds`` and ``events`` are exact, a value a group.
    """

    kind: LaneKind
    title: str
    groups: tuple[str, ...]
    seconds: tuple[float, ...]
    events: tuple[int, ...]
    start: tuple[float, ...]
    length: tuple[float, ...]
    group: tuple[int, ...]
    name: tuple[int, ...]
    count: tuple[int, ...]
    busy: tuple[float, ...]


class TypicalStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of middling length among the ``alike`` steps of a run that carried ``composition``.

    ``step`` is its number in ``trace`` (of ``rank``; None: the trace does not say), ``at`` the seconds from that file's
    first event to the step's first work on ``device``, ``seconds`` the time that the step takes there with the wait
    before it.
    """

    run: Side
    trace: str
    device: str
    step: int
    at: float
    seconds: float
    composition: str
    alike: int
    names: tuple[str, ...]
    lanes: tuple[Lane, ...]
    rank: int | None = None


class StepPair(msgspec.Struct, frozen=True, kw_only=True):
    """A step of each run that is of one kind. ``equal`` is True where both carried the same, False where no common
    composition exists and these are the nearest, None where a trace does not say or a run has no such step: ``absent``
    says why, by side."""

    kind: Literal["decode", "prefill", "step"]
    equal: bool | None
    steps: tuple[TypicalStep, ...]
    absent: dict[str, str] = {}


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """Where a cause is to be seen: the longest event of ``bucket`` (a kernel category or an idle cause) in the step of
    one run in ``pair`` (an index into the document's timelines). ``offset`` is on that step's own time, ``at`` seconds
    from the first event of ``trace``."""

    cause: str
    run: Side
    pair: int
    bucket: str
    name: str
    offset: float
    seconds: float
    trace: str
    at: float
