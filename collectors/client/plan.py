"""The plan of a load: every request with its due time and lengths, decided and written before the first is sent.

The file is JSON lines: a head, then one request a line. A drawn prompt is kept as parts, each a name and a length in
tokens; the tokens follow from the name and the plan's seed (``profiler.collectors.client.prompts``), so that a plan is
small and the same bytes make the same requests for every engine. Prompts of a data set are kept as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from profiler.errors import BadInput

SCHEMA: Final = "profiler.plan/1"
LARGEST: Final = 1 << 30

Phase = Literal["warmup", "load"]
Form = Literal["ids", "text"]


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request. ``due`` is ns from the start of its point, None in a closed loop; ``out`` bounds the output.

    The prompt is one of ``parts`` (name and tokens each), ``text``, ``ids`` or ``messages``.
    """

    point: int
    i: int
    out: int
    due: int | None = None
    phase: Phase = "load"
    parts: tuple[tuple[str, int], ...] = ()
    text: str | None = None
    ids: tuple[int, ...] | None = None
    messages: tuple[dict[str, object], ...] | None = None


class Point(msgspec.Struct, frozen=True, omit_defaults=True):
    """One load of a sweep. ``rate`` is requests/s of an open loop, None in a closed one; ``concurrency`` bounds the
    requests in flight, None where nothing does. ``duration`` seconds after the start nothing more is sent."""

    rate: float | None = None
    concurrency: int | None = None
    arrival: str | None = None
    burstiness: float | None = None
    duration: float | None = None

    @property
    def label(self) -> str:
        """``rate-4`` or ``concurrency-8``: a name for files."""
        return f"concurrency-{self.concurrency}" if self.rate is None else f"rate-{self.rate:g}"


class Head(msgspec.Struct, frozen=True):
    """What all requests of a plan share. ``source`` says in words where the requests come from."""

    schema: str
    seed: int
    form: Form
    vocabulary: int
    source: str
    points: tuple[Point, ...]


class Plan(msgspec.Struct, frozen=True):
    """A head and its requests, those of a point in the order in which they are due."""

    head: Head
    requests: tuple[Request, ...]

    def of(self, point: int, phase: Phase) -> tuple[Request, ...]:
        """The requests of one point and phase."""
        return tuple(one for one in self.requests if one.point == point and one.phase == phase)


def encode(plan: Plan) -> bytes:
    """The file's bytes: the same plan gives the same ones."""
    lines: Sequence[msgspec.Struct] = (plan.head, *plan.requests)
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def digest(data: bytes) -> str:
    """What tells whether two loads sent the same requests: SHA-256 of the plan's bytes."""
    return hashlib.sha256(data).hexdigest()


def read_plan(path: Path) -> tuple[Plan, bytes]:
    """A plan and its bytes. Raises BadInput where a line is none, OSError where the file can't be opened."""
    with path.open("rb") as stream:
        data = stream.read(LARGEST)
    lines = data.splitlines()
    requests: list[Request] = []
    number = 1
    try:
        head = msgspec.json.decode(lines[0] if lines else b"", type=Head)
        for line in lines[1:]:
            number += 1
            requests.append(msgspec.json.decode(line, type=Request))
            if not 0 <= requests[-1].point < len(head.points):
                raise msgspec.ValidationError("a point that the head does not name")
    except msgspec.MsgspecError as error:
        advice = "Take load/plan.jsonl of a run that `profiler bench` wrote"
        raise BadInput(str(path), f"no plan of a load ({error})", advice, f"line {number}") from error
    if head.schema != SCHEMA:
        raise BadInput(str(path), f"a plan of schema {head.schema[:40]!r}", f"This version reads {SCHEMA}", "line 1")
    return Plan(head, tuple(requests)), data
