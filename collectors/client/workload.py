"""From what was asked for to a plan: the points of a sweep, and for each its warm-up and its requests.

Arrivals, lengths and prompts have random streams of their own, so that changing one leaves the others as they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from profiler.collectors.client.arrivals import SECOND, Arrival, due_times
from profiler.collectors.client.datasets import Row, open_rows
from profiler.collectors.client.lengths import Lengths
from profiler.collectors.client.plan import SCHEMA, Form, Head, Phase, Plan, Point, Request
from profiler.errors import UsageError

REQUESTS: Final = 200
# Of a closed loop that has a duration: nobody knows how many fit, and a plan has to have an end.
A_SECOND_AND_PLACE: Final = 4
MOST_GUESSED: Final = 100_000
# An open loop of a given duration has no other bound.
MOST_REQUESTS: Final = 1_000_000
WARMUP_LENGTHS: Final = (128, 32)


@dataclass(frozen=True)
class Workload:
    """What to send. ``rates`` (requests/s) or ``concurrencies`` are the points of a sweep; a rate may be bounded by one
    concurrency. ``requests`` and ``duration`` (seconds) bound each point. ``shared_prefix`` is (groups, tokens): the
    prompts of a group begin with the same tokens, which come on top of ``input``. ``output`` None takes a data set's.
    """

    rates: Sequence[float] = ()
    concurrencies: Sequence[int] = ()
    arrival: Arrival | None = None
    burstiness: float = 1.0
    requests: int | None = None
    duration: float | None = None
    warmup: int = 10
    input: Lengths = field(default=Lengths("uniform", 512, 512))
    output: Lengths | None = None
    shared_prefix: tuple[int, int] | None = None
    dataset: Path | None = None
    seed: int = 0
    form: Form = "ids"
    vocabulary: int = 20_000

    def drawn_output(self) -> Lengths:
        """The output lengths where nothing else says them."""
        return self.output or Lengths("uniform", 128, 128)


def make_plan(work: Workload) -> tuple[Plan, tuple[str, ...]]:
    """The plan, and what has to be said about it. Raises UsageError, and BadInput for a data set that is none."""
    notes: tuple[str, ...] = ()
    if work.dataset is None:
        if work.arrival == "recorded":
            raise UsageError("--arrival recorded needs --dataset with time stamps")
        points = _points(work, recorded=False)
        made = [list(_drawn(work, index, point)) for index, point in enumerate(points)]
        source = "drawn at random"
    else:
        recorded = work.arrival == "recorded" or not (work.arrival or work.rates or work.concurrencies)
        source, rows, notes = _taken(work, recorded)
        points = _points(work, recorded)
        made = _shared_out(work, points, rows)
        points = tuple(_with_rate(point, load) for point, load in zip(points, made, strict=True))
    requests: list[Request] = []
    for index, load in enumerate(made):
        requests += _warmup(work, index)
        requests += load
    head = Head(SCHEMA, work.seed, work.form, work.vocabulary, source, points)
    return Plan(head, tuple(requests)), notes


def _points(work: Workload, recorded: bool) -> tuple[Point, ...]:
    cap = work.concurrencies[0] if len(work.concurrencies) == 1 else None
    if recorded:
        if len(work.rates) > 1 or (work.concurrencies and cap is None):
            raise UsageError("recorded arrivals are one load: name at most one rate and one concurrency")
        rate = work.rates[0] if work.rates else 0.0  # the file's own, known once it is read
        return (Point(rate, cap, "recorded", None, work.duration),)
    if work.rates:
        if len(work.concurrencies) > 1:
            raise UsageError("a sweep goes over rates or over concurrencies: give several values to one of them")
        arrival = work.arrival or "poisson"
        shape = work.burstiness if arrival == "gamma" else None
        return tuple(Point(rate, cap, arrival, shape, work.duration) for rate in work.rates)
    if not work.concurrencies:
        raise UsageError("how much load? Give --rate REQUESTS_PER_SECOND (open loop) or --concurrency N (closed loop)")
    return tuple(Point(None, number, None, None, work.duration) for number in work.concurrencies)


def _with_rate(point: Point, load: Sequence[Request]) -> Point:
    """Recorded arrivals with the rate that they have on average; all at once count as one second."""
    span = (load[-1].due or 0) - (load[0].due or 0)
    if point.arrival != "recorded":
        return point
    return msgspec.structs.replace(point, rate=(len(load) - 1) * SECOND / span if span else float(len(load)))


def _dues(work: Workload, index: int, point: Point) -> Iterator[int | None]:
    """Due times until the duration ends, or endless None in a closed loop; never more than the bound on requests."""
    most = work.requests or (REQUESTS if point.duration is None else MOST_REQUESTS)
    if point.rate is None:
        if work.requests is None and point.duration is not None:
            guess = int((point.concurrency or 1) * point.duration * A_SECOND_AND_PLACE)
            most = min(max(guess, REQUESTS), MOST_GUESSED)
        yield from (None for _ in range(most))
        return
    stream = Random(f"{work.seed}/arrivals/{index}")
    for due in islice(due_times(work.arrival or "poisson", point.rate, work.burstiness, stream), most):
        if point.duration is not None and due >= point.duration * SECOND:
            return
        yield due


def _drawn(work: Workload, index: int, point: Point) -> Iterator[Request]:
    inputs, outputs, groups = (Random(f"{work.seed}/{name}/{index}") for name in ("inputs", "outputs", "groups"))
    answer = work.drawn_output()
    for i, due in enumerate(_dues(work, index, point)):
        parts: tuple[tuple[str, int], ...] = ((f"{index}.{i}", work.input.draw(inputs)),)
        if work.shared_prefix is not None:
            count, tokens = work.shared_prefix
            # Every point has prefixes of its own: a later one must not find an earlier one's in the cache.
            parts = ((f"{index}.group-{int(groups.random() * count)}", tokens), *parts)
        yield Request(index, i, answer.draw(outputs), due, parts=parts)


def _warmup(work: Workload, index: int) -> Iterator[Request]:
    """Requests of lengths like the load's (of a data set's: short ones), with prompts that the load does not hold."""
    lengths = Random(f"{work.seed}/warmup/{index}")
    phase: Phase = "warmup"
    for i in range(work.warmup):
        size, out = WARMUP_LENGTHS
        if work.dataset is None:
            size, out = work.input.draw(lengths), work.drawn_output().draw(lengths)
        yield Request(index, i, out, None, phase, ((f"warmup-{index}.{i}", size),))


def _taken(work: Workload, recorded: bool) -> tuple[str, list[Row], tuple[str, ...]]:
    """As many usable rows as all points together may need."""
    assert work.dataset is not None
    timed = recorded or work.duration is not None
    points = max(len(work.rates), len(work.concurrencies), 1)
    most = (work.requests or (MOST_REQUESTS if timed else REQUESTS)) * points
    found: list[Row] = []
    unusable = 0
    with open_rows(work.dataset) as (kind, rows):
        for row in rows:
            if row is None:
                unusable += 1
            elif len(found) < most:
                found.append(row)
            else:
                break
    if not found:
        raise UsageError(f"{work.dataset}: {kind}, and no row of it can be sent (rows need a prompt and a length)")
    notes = (f"{work.dataset}: {unusable} rows can't be sent and were left out",) if unusable else ()
    return f"{kind} {work.dataset.name}", found, notes


def _shared_out(work: Workload, points: Sequence[Point], rows: Sequence[Row]) -> list[list[Request]]:
    """Every point takes the rows that follow those of the point before: what was sent once may be cached."""
    made: list[list[Request]] = []
    at = 0
    for index, point in enumerate(points):
        dues = _recorded(work, rows) if point.arrival == "recorded" else _dues(work, index, point)
        draws = Random(f"{work.seed}/outputs/{index}")
        requests = [
            _of_row(work, row, index, i, due, draws) for i, (row, due) in enumerate(zip(rows[at:], dues, strict=False))
        ]
        if not requests:
            detail = f"holds {len(rows)} rows, too few for {len(points)} points"
            raise UsageError(f"{work.dataset}: {detail}. Lower --requests, or sweep over fewer points")
        at += len(requests)
        made.append(requests)
    return made


def _of_row(work: Workload, row: Row, index: int, i: int, due: int | None, draws: Random) -> Request:
    out = row.out if work.output is None and row.out is not None else work.drawn_output().draw(draws)
    parts = row.parts if row.fresh is None else ((f"{index}.{i}", row.fresh),)
    return Request(index, i, out, due, parts=parts, text=row.text, ids=row.ids, messages=row.messages)


def _recorded(work: Workload, rows: Sequence[Row]) -> Iterator[int]:
    """The file's time stamps from its first on, in order; with a rate, stretched to that many requests/s on average."""
    stamps = [row.at for row in rows]
    known = [stamp for stamp in stamps if stamp is not None]
    if len(known) < len(stamps):
        raise UsageError(
            f"{work.dataset}: a row has no time stamp. Give --rate or --concurrency for arrivals of our own"
        )
    if any(later < earlier for earlier, later in pairwise(known)):
        raise UsageError(f"{work.dataset}: the time stamps are not in order. Sort the file by them")
    span = known[-1] - known[0]
    factor = (len(known) - 1) / (work.rates[0] * span) if work.rates and span > 0 else 1.0
    for number, stamp in enumerate(known):
        due = round((stamp - known[0]) * factor * SECOND)
        if number >= (work.requests or MOST_REQUESTS) or (work.duration and due >= work.duration * SECOND):
            return
        yield due
