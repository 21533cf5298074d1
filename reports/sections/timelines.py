"""Typical steps of both runs as aligned timelines, each with its numbers as a table and as words."""

from __future__ import annotations

import shlex
from typing import Any, Final

from markupsafe import Markup

from profiler.model.diagnosis import Diagnosis
from profiler.model.timeline import Lane, Moment, StepPair, TypicalStep
from profiler.reports import numbers, wording
from profiler.reports.breakdown import names
from profiler.reports.language import said
from profiler.reports.page import Section, embedded, fragment
from profiler.reports.safe_text import plain

_TITLE: Final = {"decode": "A decode step", "prefill": "A step with a prefill", "step": "A step"}
# What the page's script says of a bar.
_WORDS: Final = {
    "one": "{run}, {row}: {name} ({group}), {length} at {at}",
    "plain": "{run}, {row}: {group}, {length} at {at}",
    "joined": "{run}, {row}: {count} short events, mostly {group}, fill {busy} of {length} at {at}",
}
# What the legend calls the kinds of rows.
_ROWS: Final = {"device": "device", "host": "host", "launch": "launches", "idle": "why the device waited"}
_NEAREST: Final = "No composition occurs in both traces. These are the nearest, and not equal work: {carried}."
_IN_WORDS: Final = 3


def draw(diagnosis: Diagnosis) -> Markup:
    """A drawing a pair of steps; what a run has no trace for is said in its place."""
    if not diagnosis.timelines:
        return Markup("")
    pairs = [_pair(diagnosis, pair, index) for index, pair in enumerate(diagnosis.timelines)]
    return fragment("timelines.html.j2", pairs=pairs)


SECTION: Final = Section("timelines", "Typical steps", draw)


def moments_of(diagnosis: Diagnosis, cause: str) -> list[dict[str, Any]]:
    """Where a cause is to be seen: the link into the drawing, and the file, the time in it and the command."""
    side = names(diagnosis)
    found = []
    for moment in (m for m in diagnosis.moments if m.cause == cause and m.pair < len(diagnosis.timelines)):
        index = "ab".index(moment.run)
        path = diagnosis.runs[index].path
        found.append(
            {
                "target": f"timeline-{moment.pair}",
                "side": _place(diagnosis.timelines[moment.pair], moment),
                "kind": "idle" if moment.name == moment.bucket else "device",
                "at": _ns(moment.offset + moment.seconds / 2),
                "length": _ns(moment.seconds),
                "run": side[index],
                "what": moment.bucket if moment.name == moment.bucket else f"{moment.bucket}: {plain(moment.name, 80)}",
                "took": numbers.quantity(moment.seconds, "s"),
                "step": said(_TITLE[diagnosis.timelines[moment.pair].kind]),
                "trace": moment.trace,
                "stamp": _stamp(moment.at),
                "command": _command(path, moment.at),
            }
        )
    return found


def _place(pair: StepPair, moment: Moment) -> int:
    return [step.run for step in pair.steps].index(moment.run)


def _pair(diagnosis: Diagnosis, pair: StepPair, index: int) -> dict[str, Any]:
    side = names(diagnosis)
    called = [side["ab".index(step.run)] for step in pair.steps]
    shown = list(zip(called, pair.steps, strict=True))
    sides = [_side(name, step) for name, step in shown]
    words = {name: said(text) for name, text in _WORDS.items()}
    several = {one.run for one in diagnosis.shown if one.of > 1}
    legend = {kind: said(text) for kind, text in _ROWS.items()}
    return {
        "id": f"timeline-{index}",
        "title": said(_TITLE[pair.kind]),
        "said": _said(pair, called),
        "absent": [f"{side['ab'.index(run)]}: {reason}{said('.')}" for run, reason in pair.absent.items()],
        "data": embedded({"sides": sides, "words": words, "legend": legend})
        if any(part["lanes"] for part in sides)
        else None,
        "described": " ".join(
            [*(_described(name, step) for name, step in shown), said("The numbers are in the table below.")]
        ),
        "steps": [
            {
                "where": said(
                    "{run}: step {step} of {trace}, {at} after its first event, {standing}. For ui.perfetto.dev:",
                    run=name,
                    step=f"{step.step:,}",
                    trace=plain(wording.in_trace(step.trace, step.rank if step.run in several else None)),
                    at=_stamp(step.at),
                    standing=_standing(step),
                ),
                "command": _command(diagnosis.runs["ab".index(step.run)].path, step.at),
            }
            for name, step in shown
        ],
        "columns": [head for name in called for head in (name, said("{run}, events", run=name))],
        "rows": _rows(pair.steps),
    }


def _standing(step: TypicalStep) -> str:
    if step.alike == 1:
        return said("the only one alike")
    return said("of middling length among {count} alike", count=f"{step.alike:,}")


def _said(pair: StepPair, called: list[str]) -> str:
    """What the steps carried, and whether that is the same."""
    if not pair.steps:
        return said("No step can be shown.")
    texts = [step.composition for step in pair.steps]
    if pair.equal:
        return said("Both carried the same: {batch}.", batch=texts[0])
    carried = "; ".join(f"{name}: {text}" for name, text in zip(called, texts, strict=True))
    if pair.equal is False:
        return said(_NEAREST, carried=carried)
    return said("Whether the work is equal is not known. {carried}.", carried=carried)


def _side(name: str, step: TypicalStep) -> dict[str, Any]:
    return {
        "name": name,
        "title": f"{name}: {step.composition}, {numbers.quantity(step.seconds, 's')}",
        "names": [plain(text) for text in step.names],
        "lanes": [
            {
                "kind": lane.kind, "title": plain(lane.title), "groups": [plain(group) for group in lane.groups],
                "start": [_ns(s) for s in lane.start], "length": [_ns(s) for s in lane.length], "group": lane.group,
                "name": lane.name, "count": lane.count, "busy": [_ns(s) for s in lane.busy],
            }
            for lane in step.lanes
        ],
    }  # fmt: skip


def _totals(lane: Lane) -> dict[str, tuple[float, int]]:
    """(seconds, events) of each group."""
    return dict(zip(lane.groups, zip(lane.seconds, lane.events, strict=True), strict=True))


def _rows(steps: tuple[TypicalStep, ...]) -> list[list[str]]:
    """Row, what, and for each run the time and the number of events."""
    sums = [{(lane.title, group): value for lane in step.lanes for group, value in _totals(lane).items()}
            for step in steps]  # fmt: skip
    order = dict.fromkeys(lane.title for step in steps for lane in step.lanes)
    keys = dict.fromkeys(key for side in sums for key in side)
    rows = []
    for lane in order:
        mine = sorted(
            (key for key in keys if key[0] == lane), key=lambda key: -max(s.get(key, (0.0, 0))[0] for s in sums)
        )
        for key in mine:
            cells = [numbers.quantity(side[key][0], "s") if key in side else wording.NO_SHARE for side in sums]
            events = [f"{side[key][1]:,}" if key in side else wording.NO_SHARE for side in sums]
            rows.append([*key, *(cell for both in zip(cells, events, strict=True) for cell in both)])
    return rows


def _described(name: str, step: TypicalStep) -> str:
    """The step in a sentence, for who can't see it."""
    parts = []
    for lane in step.lanes:
        largest = sorted(_totals(lane).items(), key=lambda item: -item[1][0])[:_IN_WORDS]
        parts.append(f"{lane.title}: " + ", ".join(f"{g} {numbers.quantity(s, 's')}" for g, (s, _) in largest))
    return f"{name}, {step.composition}, {numbers.quantity(step.seconds, 's')}. {'; '.join(parts)}."


def _stamp(seconds: float) -> str:
    return f"{seconds:.6f} s"


def _command(path: str, at: float) -> str:
    return f"profiler timeline {shlex.quote(plain(path))} --at {at:.6f}s"


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
