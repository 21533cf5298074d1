"""Runs over their loads, beside each other: at equal load, at equal interactivity, and who leads where."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Final

import numpy as np
from msgspec.structs import replace

from profiler.analyzers.gap import spread
from profiler.analyzers.gap.measured import device_kind
from profiler.analyzers.identity import engine_of
from profiler.analyzers.load_curve import TARGETS, Point, devices_of, points_of, reached
from profiler.analyzers.run_summary import problems_of
from profiler.model.goodput import SCHEMA, Axis, FrontPoint, Goodput, Range, RunCurve, Standing
from profiler.model.run import Run

USER: Final[Axis] = "tokens/s of one user"
STEPS: Final = 200
_ASKED: Final = (
    "A load at a rate is named by the rate asked for; requests/s are of the whole run, up to its last answer"
)
_COMPARABLE: Final = "Whether these runs may be compared at all: profiler check, two at a time"
Curve = Sequence[tuple[float, float, Point]]


def curves(runs: Sequence[Run], slo: Mapping[str, float]) -> Goodput:
    """The document over the runs; ``slo`` in seconds by ttft, tpot, e2e, empty for none."""
    devices = [devices_of(run) for run in runs]
    whole = all(devices)
    points = [points_of(run, slo, count if whole else None) for run, count in zip(runs, devices, strict=True)]
    names = [run.name for run in runs]
    kinds = [device_kind(run) for run in runs]
    loads = _equal_load(points, names, kinds, slo)
    fronts = [_front(one) for one in points]
    users, spans = _equal_interactivity(fronts, names, kinds)
    unit = "tokens/s per device" if whole else "tokens/s"
    return Goodput(
        schema=SCHEMA,
        slo=dict(slo),
        headline=_headline(loads, spans, names),
        throughput_unit=unit,
        runs=tuple(
            RunCurve(
                name=run.name,
                path=run.path,
                engine=engine_of(run),
                devices=count,
                points=tuple(p.shown for p in one),
                reached=tuple(reached(one, target) for target in TARGETS) if slo else (),
            )
            for run, count, one in zip(runs, devices, points, strict=True)
        ),
        equal_load=loads,
        equal_interactivity=users,
        ranges=(*_ranges(loads), *spans),
        front=_pareto(points, names),
        notes=_notes(points, names, slo, whole),
        problems=tuple(problem for run in runs for problem in problems_of(run)),
    )


def several_loads(runs: Sequence[Run], slo: Mapping[str, float]) -> Goodput | None:
    """The same for a diagnosis, which says by itself what is wrong with the files and whether they compare: None where
    no run was measured at more than one load."""
    document = curves(runs, slo)
    loads = [{(p.axis, p.load) for p in run.points if p.load is not None} for run in document.runs]
    if max(map(len, loads), default=0) < 2:
        return None
    return replace(document, problems=(), notes=tuple(note for note in document.notes if note != _COMPARABLE))


def _equal_load(
    points: Sequence[Sequence[Point]], names: Sequence[str], kinds: Sequence[str | None], slo: Mapping[str, float]
) -> tuple[Standing, ...]:
    """Every load that two runs or more were measured at; the last point of a run where it has several of one load."""
    placed = [{p.place: p for p in one if p.place is not None} for one in points]
    found = []
    for axis, load in sorted({place for one in placed for place in one if place is not None}):
        here = [one.get((axis, load)) for one in placed]
        if sum(p is not None for p in here) < 2:
            continue
        rated = bool(slo) and all(p.shown.goodput is not None for p in here if p is not None)
        values = [None if p is None else p.shown.goodput if rated else p.shown.per_device for p in here]
        leader, noise = _leader(values, here, kinds, rated)
        if not rated and all(p.kept_up for p in here if p is not None):
            leader = None  # arrivals set the throughput of them all
        found.append(
            Standing(
                axis=axis,
                at=load,
                metric="goodput" if rated else "output throughput",
                unit="requests/s" if rated else "tokens/s",
                values=tuple(values),
                leader=None if leader is None else names[leader],
                noise=noise,
            )
        )
    return tuple(found)


def _leader(
    values: Sequence[float | None],
    points: Sequence[Point | None],
    kinds: Sequence[str | None],
    rated: bool,
    beside: Callable[[int, float], float] = lambda run, deviation: 0.0,
) -> tuple[int | None, float]:
    """(the run that leads, None where the next is within the noise; the noise): how far starts differ, with an SLO what
    resampling the requests leaves open, and what ``beside`` says of a run for that spread of one start."""
    known = sorted((i for i, value in enumerate(values) if value is not None), key=lambda i: -(values[i] or 0.0))
    first, second = known[0], known[1]
    one, two = points[first], points[second]
    assert one is not None and two is not None
    between = spread.between(one.rates, two.rates, kinds[first], kinds[second]).deviation
    a, b = values[first] or 0.0, values[second] or 0.0
    parts = [between * 0.5 * (a + b)]
    if rated:
        for value, point in ((a, one), (b, two)):
            interval = point.shown.goodput_interval
            parts.append(0.0 if interval is None else max(value - interval[0], interval[1] - value) / spread.NORMAL_95)
    parts += [beside(run, between / 2**0.5) for run in (first, second)]
    noise = spread.NORMAL_95 * float(np.sqrt(np.square(parts).sum()))
    return (first if a - b > noise else None), noise


def _beats(one: tuple[float, float], two: tuple[float, float]) -> bool:
    """Whether a point is at least as good in both, and better in one."""
    return one[0] >= two[0] and one[1] >= two[1] and one != two


def _front(points: Sequence[Point]) -> Curve:
    """(interactivity, throughput, point) of the points that none of the same run beats in both, by interactivity."""
    every = [(p.shown.interactivity, p.shown.per_device, p) for p in points if p.shown.interactivity]
    kept = [(x, y, p) for x, y, p in every if x and not any(_beats((u, v), (x, y)) for u, v, _ in every if u)]
    return sorted(kept, key=lambda one: one[:2])


def _equal_interactivity(
    fronts: Sequence[Curve], names: Sequence[str], kinds: Sequence[str | None]
) -> tuple[tuple[Standing, ...], tuple[Range, ...]]:
    """Throughput at equal tokens/s of one user, between measured points on a line, where two curves reach."""
    lines = [front if len({x for x, _, _ in front}) > 1 else [] for front in fronts]
    ends = sorted(x for line in lines for x in ({line[0][0], line[-1][0]} if line else ()))
    if len(ends) < 4:
        return (), ()

    def standing(at: float) -> Standing | None:
        values, nearest = [], []
        for line in lines:
            inside = bool(line) and line[0][0] <= at <= line[-1][0]
            xs, ys = [x for x, _, _ in line], [y for _, y, _ in line]
            values.append(float(np.interp(at, xs, ys)) if inside else None)
            nearest.append(min(line, key=lambda one: abs(one[0] - at))[2] if inside else None)
        if sum(value is not None for value in values) < 2:
            return None

        def tilt(run: int, deviation: float) -> float:
            # A start that is faster by that much moves its whole curve along the axis too.
            xs, ys = [x for x, _, _ in lines[run]], [y for _, y, _ in lines[run]]
            ends = np.interp([at * (1 - deviation), at * (1 + deviation)], xs, ys)
            return float(abs(ends[1] - ends[0])) / 2

        leader, noise = _leader(values, nearest, kinds, False, tilt)
        return Standing(
            axis=USER,
            at=at,
            metric="output throughput",
            unit="tokens/s",
            values=tuple(values),
            leader=None if leader is None else names[leader],
            noise=noise,
        )

    grid = [found for at in np.linspace(ends[0], ends[-1], STEPS) if (found := standing(float(at))) is not None]
    measured = sorted({x for line in lines for x, _, _ in line})
    return tuple(s for x in measured if (s := standing(x)) is not None), _ranges(grid)


def _ranges(standings: Sequence[Standing]) -> tuple[Range, ...]:
    """Neighbours on one axis with one leader, joined."""
    found = []
    for (axis, leader), group in groupby(standings, key=lambda s: (s.axis, s.leader)):
        every = list(group)
        found.append(Range(axis=axis, low=every[0].at, high=every[-1].at, leader=leader))
    return tuple(found)


def _pareto(points: Sequence[Sequence[Point]], names: Sequence[str]) -> tuple[FrontPoint, ...]:
    every = [(x, y, name, p) for name, one in zip(names, points, strict=True) for x, y, p in _front(one)]
    kept = [one for one in every if not any(_beats((x, y), one[:2]) for x, y, _, _ in every)]
    return tuple(
        FrontPoint(run=name, label=p.shown.label, interactivity=x, per_device=y)
        for x, y, name, p in sorted(kept, key=lambda one: one[:2])
    )


def _headline(loads: Sequence[Standing], users: Sequence[Range], names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{names[0]}, load by load."
    found = []
    for where, spans in (("at equal load", _ranges(loads)), (f"at equal {USER}", users)):
        leaders = list(dict.fromkeys(span.leader for span in spans if span.leader is not None))
        if not spans:
            continue
        if not leaders:
            found.append(f"no difference is shown {where}")
        elif len(leaders) > 1:
            said = [f"{s.leader} leads {_span(s)}" for s in spans if s.leader is not None]
            found.append(f"the curves cross {where}: {', '.join(said)}")
        elif any(span.leader is None for span in spans):
            found.append(f"{leaders[0]} leads {where}, but not everywhere")
        elif len(spans) == 1 and spans[0].low == spans[0].high:
            found.append(f"{leaders[0]} leads {where}, at the only one that was measured")
        else:
            found.append(f"{leaders[0]} leads {where}, everywhere that was measured")
    if not found:
        return f"{' and '.join(names)} were not measured at an equal load, nor over a common range of {USER}."
    led = {span.leader for span in (*_ranges(loads), *users)} - {None}
    text = "; ".join(found) + "."
    return f"No single winner: {text}" if len(led) > 1 else text[0].upper() + text[1:] if text[0] == "n" else text


def _span(span: Range) -> str:
    return f"at {span.low:.4g}" if span.low == span.high else f"from {span.low:.4g} to {span.high:.4g}"


def _notes(
    points: Sequence[Sequence[Point]], names: Sequence[str], slo: Mapping[str, float], whole: bool
) -> tuple[str, ...]:
    lines = []
    if not slo:
        lines.append("No SLO was given, so goodput is not computed: give one, such as --slo ttft=500ms,tpot=50ms")
    for name, one in zip(names, points, strict=True):
        if not one:
            lines.append(f"{name} holds no benchmark result")
        bare = [p.shown.label for p in one if slo and p.shown.attainment is None]
        if bare:
            lines.append(f"{name}: no per-request records at {', '.join(bare)}, so goodput there is not known")
        kinds = {p.shown.axis for p in one if p.shown.axis is not None}
        if len(kinds) > 1:
            lines.append(f"{name} holds open and closed loops: they are two curves")
        lines += [f"{name}: {note}" for note in dict.fromkeys(p.shown.note for p in one if p.shown.note)]
    if any(p.shown.axis == "requests/s" for one in points for p in one):
        lines.append(_ASKED)
    if len(names) > 1:
        lines.append(_COMPARABLE)
    if not slo and any(p.kept_up for one in points for p in one):
        lines.append(
            "Where a run completed requests as fast as they were sent, arrivals set its throughput: "
            "among such runs no load has a leader"
        )
    if not whole:
        lines.append("Throughput is that of the whole run: how many devices each took is not stated by all")
    return tuple(lines)
