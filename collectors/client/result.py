"""The file of one load: JSON lines, written while it runs, so that what was measured outlives whatever happens.

First the head, then records of the warm-up, the zero of the load's clock, records of the load, and an end. A file
without an end was cut off.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from profiler.collectors.client.job import Done, Ns, Record
from profiler.collectors.client.plan import Point

SCHEMA: Final = "profiler.load/1"
TOOL: Final = "profiler bench"

Stopped = Literal["interrupted", "server lost", "warm-up failed", "client failed"]


class LoadHead(msgspec.Struct, frozen=True, tag="load"):
    """What was sent, where and how. ``plan`` is the plan's SHA-256; ``index`` counts the points of a sweep; ``extra``
    holds the fields that were added to every body, without their secrets."""

    schema: str
    version: str
    url: str
    model: str | None
    engine: str | None
    endpoint: str
    plan: str
    source: str
    seed: int
    prompts: str
    index: int
    point: Point
    requests: int
    processes: int
    ignore_eos: bool
    timeout: float
    extra: dict[str, object] = {}


class Zero(msgspec.Struct, frozen=True, tag="zero"):
    """The load's zero in ns since the epoch; ``ended`` of the end is on the same clock."""

    epoch: Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class LoadEnd(msgspec.Struct, frozen=True, tag="end"):
    """How it ended. ``stopped`` is None where the plan was carried out; ``unsent`` requests were left, by plan or by
    force. ``clock`` is by how much the wall clock ran ahead of the monotonic one during the load, ns."""

    stopped: Stopped | None
    unsent: int
    ended: Annotated[int, msgspec.Meta(ge=0, le=2**62)]
    clock: Ns
    senders: tuple[Done, ...]


Line = LoadHead | Zero | Record | LoadEnd
