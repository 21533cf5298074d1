"""The steps of two runs that a report lays beside each other: equal work where there is any, else the nearest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from profiler.analyzers.device_view import DeviceView, views_of
from profiler.analyzers.gap.model import component_of
from profiler.analyzers.step_lanes import Names, lanes_of
from profiler.analyzers.typical import DeviceSteps, Excerpt, around, middling, steps_of
from profiler.analyzers.waits import waits
from profiler.model.run import Run
from profiler.model.steps import StepLabel
from profiler.model.timeline import Moment, Side, StepPair, TypicalStep

PairKind = Literal["decode", "prefill", "step"]
# What a step carried: sequences that decode, prompts, and tokens of prompts; None: the trace does not say.
Batch = tuple[int, int, int] | None
SIDES: Final[tuple[Side, Side]] = ("a", "b")
_KINDS: Final[tuple[PairKind, ...]] = ("decode", "prefill")
_MOST_BATCHES: Final = 200


@dataclass(frozen=True)
class Traced:
    """The device that stands for a run, its steps, and the rows of ``steps`` by kind and batch."""

    view: DeviceView
    steps: DeviceSteps
    kinds: Mapping[PairKind, Mapping[Batch, Sequence[int]]]

    @property
    def tells(self) -> bool:
        """Whether its steps say what they carried."""
        return bool(self.kinds.keys() & set(_KINDS))


def typical_steps(run_a: Run, run_b: Run) -> tuple[tuple[StepPair, ...], tuple[Moment, ...]]:
    """Pairs of a decode step and of one with a prefill, where the traces tell them apart, and where in them each cause
    is to be seen."""
    return laid_beside((run_a, run_b), (_traced(run_a), _traced(run_b)))


def laid_beside(
    runs: tuple[Run, Run], sides: tuple[Traced | None, Traced | None]
) -> tuple[tuple[StepPair, ...], tuple[Moment, ...]]:
    """The same of devices that were chosen before."""
    kinds = [kind for kind in _KINDS if any(side is not None and kind in side.kinds for side in sides)]
    if not kinds or any(side is not None and not side.tells for side in sides):
        kinds = ["step"]  # a trace without batches has nothing to be told apart by
    pairs: list[StepPair] = []
    moments: list[Moment] = []
    for kind in kinds:
        batches, equal = _batches(*(None if side is None else side.kinds.get(kind, {}) for side in sides))
        parts: list[tuple[Side, Excerpt, int]] = []
        for name, side, batch in zip(SIDES, sides, batches, strict=True):
            if side is not None and batch in side.kinds.get(kind, {}):
                rows = np.array(side.kinds[kind][batch], np.int64)
                chosen = around(side.view, side.steps, middling(side.steps, rows), 1)
                parts.append((name, chosen, len(rows)))
        moments += _moments(len(pairs), parts)
        steps = tuple(_step(*part) for part in parts)
        shown = {step.run for step in steps}
        missing = [(name, run, side) for name, run, side in zip(SIDES, runs, sides, strict=True)
                   if name not in shown]  # fmt: skip
        absent: dict[str, str] = {name: _absent(run, side) for name, run, side in missing}
        pairs.append(StepPair(kind=kind, equal=equal, steps=steps, absent=absent))
    return tuple(pairs), tuple(moments)


def _absent(run: Run, traced: Traced | None) -> str:
    if not run.traces:
        return "no trace recorded"
    return "its trace holds no steps" if traced is None else "its trace holds no such step"


def _traced(run: Run) -> Traced | None:
    found = None
    for trace in run.traces:
        found = standing(found, views_of(trace))
        if found is not None and found.tells:
            return found
    return found


def standing(before: Traced | None, views: Sequence[DeviceView]) -> Traced | None:
    """The first device with steps, by preference one whose steps say what they carried; ``before`` is what stood among
    the devices of earlier traces."""
    for view in views:
        steps = steps_of(view)
        if len(steps):
            traced = Traced(view, steps, _kinds(view, steps))
            if traced.tells:
                return traced
            before = before or traced
    return before


def _kinds(view: DeviceView, steps: DeviceSteps) -> dict[PairKind, dict[Batch, list[int]]]:
    found: dict[PairKind, dict[Batch, list[int]]] = {"step": {None: list(range(len(steps)))}}
    for row, number in enumerate(steps.number.tolist()):
        label = view.spans.labels[number]
        if label.draft or label.phase not in ("decode", "prefill", "mixed"):
            continue
        kind: PairKind = "decode" if label.phase == "decode" else "prefill"
        found.setdefault(kind, {}).setdefault(_batch(label), []).append(row)
    return found


def _batch(label: StepLabel) -> Batch:
    if label.phase == "decode":
        decoding = label.decode_requests if label.decode_requests is not None else label.requests
        return None if decoding is None else (decoding, 0, 0)
    if label.prefill_tokens is None:
        return None
    return label.decode_requests or 0, label.prefill_requests or 0, label.prefill_tokens


def _batches(
    a: Mapping[Batch, Sequence[int]] | None, b: Mapping[Batch, Sequence[int]] | None
) -> tuple[tuple[Batch, Batch], bool | None]:
    """What the steps of both sides carry, and whether that is the same (None: not known, or there is one side)."""
    known = [Counter({batch: len(rows) for batch, rows in (side or {}).items()}) for side in (a, b)]
    stated = [[batch for batch, _ in side.most_common(_MOST_BATCHES) if batch is not None] for side in known]
    common = set(stated[0]) & set(stated[1])
    if common:
        best = max(common, key=lambda batch: (min(known[0][batch], known[1][batch]), batch))
        return (best, best), True
    if stated[0] and stated[1]:
        one, two = min(((x, y) for x in stated[0] for y in stated[1]), key=lambda pair: _distance(*pair))
        return (one, two), False
    usual = [stated[i][0] if stated[i] else None for i in (0, 1)]
    return (usual[0], usual[1]), None


def _distance(one: tuple[int, int, int], two: tuple[int, int, int]) -> float:
    return sum(abs(x - y) / max(x, y, 1) for x, y in zip(one, two, strict=True))


def described(label: StepLabel) -> str:
    """What a step carried, in words."""
    batch = _batch(label) if label.phase in ("decode", "prefill", "mixed") else None
    if batch is None:
        return "batch not stated"
    decoding, prompts, tokens = batch
    parts = [f"{decoding:,} decoding"] if decoding else []
    parts += [f"{prompts or 1:,} prefilling {tokens:,} tokens"] if tokens else []
    return ", ".join(parts)


def _step(side: Side, part: Excerpt, alike: int) -> TypicalStep:
    names = Names({})
    lanes = lanes_of(part, names)
    return TypicalStep(
        run=side,
        trace=part.view.trace.path,
        device=part.view.device,
        step=part.first,
        at=since_first(part, part.origin),
        seconds=(part.end - part.start) / 1e9,
        composition=described(part.label),
        alike=alike,
        names=tuple(names.index),
        lanes=lanes,
        rank=part.view.trace.rank,
    )


def since_first(part: Excerpt, instant: int) -> float:
    """Seconds from the first event of the trace's file."""
    return round((instant - int(part.view.trace.events.start.min())) / 1e9, 9)


def _moments(pair: int, parts: Sequence[tuple[Side, Excerpt, int]]) -> list[Moment]:
    """For each side and cause the longest event of what differs most between the sides."""
    totals = [_seconds(part) for _, part, _ in parts]
    found = []
    for (side, part, _), own, other in zip(parts, totals, totals[::-1], strict=True):
        device = part.view.device
        chosen: dict[str, tuple[float, str]] = {}
        for bucket, ns in own.items():
            cause, _ = component_of(bucket, device)
            weight = abs(ns - other.get(bucket, 0.0)) if len(parts) > 1 else ns
            chosen[cause] = max(chosen.get(cause, (-1.0, "")), (weight, bucket))
        for cause, (_, bucket) in chosen.items():
            name, start, end = _longest(part, bucket)
            found.append(
                Moment(
                    cause=cause,
                    run=side,
                    pair=pair,
                    bucket=bucket,
                    name=name,
                    offset=round((start - part.origin) / 1e9, 9),
                    seconds=round((end - start) / 1e9, 9),
                    trace=part.view.trace.path,
                    at=since_first(part, start),
                )
            )
    return found


def _seconds(part: Excerpt) -> dict[str, float]:
    """Nanoseconds of the excerpt by bucket: the device's categories, and the largest cause of each wait."""
    view = part.view
    codes = view.classes.code[view.events.name[part.rows]]
    totals = np.bincount(codes, view.swept.share[part.rows], minlength=len(view.classes.categories))
    found = {name: float(ns) for name, ns in zip(view.classes.categories, totals, strict=True) if ns > 0}
    for gap in waits(view, part.start, part.end):
        found[gap.largest] = found.get(gap.largest, 0.0) + gap.end - gap.start
    return found


def _longest(part: Excerpt, bucket: str) -> tuple[str, int, int]:
    """(name, start, end) of the longest event of a bucket that the excerpt has."""
    view = part.view
    if bucket in view.classes.categories:
        events = view.events.select(part.rows)
        rows = np.flatnonzero(view.classes.code[events.name] == view.classes.categories.index(bucket))
        if len(rows):
            row = int(rows[np.argmax(events.duration[rows])])
            return view.trace.names[int(events.name[row])], int(events.start[row]), int(events.end[row])
    gap = max((g for g in waits(view, part.start, part.end) if g.largest == bucket), key=lambda g: g.end - g.start)
    return bucket, gap.start, gap.end
