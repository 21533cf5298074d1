"""Steps as JSON records: lines that a stat-logger writes, or the list that a server answers with.

Each engine knows its own records (``Engine.step_record``). A server's list holds what happened since it was last read
and is emptied by that: whoever else reads it takes a part of the steps away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from json import JSONDecoder
from typing import Final

import msgspec
import numpy as np

from profiler.collectors.bounded_text import whole_text
from profiler.collectors.engines import ENGINES
from profiler.collectors.json_text import decode, objects, parse
from profiler.collectors.scheduler.server_log import step_table
from profiler.errors import BadInput
from profiler.model.extension import Engine, LogStep, Source, StepRecord
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.run import Reading
from profiler.model.steps import EngineLog


class StepRecords:
    """See ``profiler.model.extension.Format``."""

    name = "step_records"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """Sure where the first record is a step of a known engine."""
        text = decode(head).lstrip(" \t\r\n[")
        if not text.startswith("{"):
            return 0.0
        first = parse(text.split("\n", 1)[0].rstrip(" ,\r"))
        if not isinstance(first, dict):
            first = _first(text)
        return 0.92 if _reader(ENGINES, first) is not None else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One log of all steps; complete unless the records' own count has gaps."""
        text = whole_text(source)
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", source.broken))
        records = list(objects(text))
        engine = next((found for _, one in records if (found := _reader(engines, one or {})) is not None), None)
        if engine is None or engine.step_record is None:
            raise BadInput(source.name, "no record of an engine step found", "Keep the records as they were written")
        kept: list[StepRecord] = []
        strange: list[int] = []
        for line, one in records:
            step = None if one is None else engine.step_record(one)
            if step is None:
                strange.append(line)
            else:
                kept.append(step)
        if strange:
            detail = "a record is no step of rank 0 and was left out"
            problems.append(Problem(source.name, "warning", detail, f"line {strange[0]}", len(strange)))
        missing = _missing(kept)
        if missing:
            detail = "the records' own count has gaps: steps are missing"
            problems.append(Problem(source.name, "warning", detail, count=missing))
        if text.lstrip()[:1] == "[":
            detail = (
                "a list that the server empties whenever it is read: steps that another reader took are not in it, and "
                "the oldest are lost when its buffer is full"
            )
            problems.append(Problem(source.name, "info", detail))
        steps = step_table(_shifted(kept))
        told = bool(np.isfinite(steps.seconds).any() or (steps.decode_requests >= 0).any())
        if not told:
            detail = "the records say neither how long a step took nor what it carried: only queue and cache are read"
            problems.append(Problem(source.name, "warning", detail))
        log = EngineLog(path=source.name, engine=engine.name, steps=steps, every_step=told and not missing)
        facts: dict[str, Fact[object]] = {
            "engine.name": Fact(engine.name, f"{source.name}: form of the records", inferred=False)
        }
        return Reading(logs=(log,), facts=facts, problems=tuple(problems))


def _shifted(kept: Sequence[StepRecord]) -> list[tuple[float, LogStep]]:
    """Device times that a record holds for the step before it go to that step, where none is missing between."""
    rows = [(one.clock, one.step) for one in kept]
    for at in range(1, len(kept)):
        value = kept[at].step.previous_device_seconds
        before, now = kept[at - 1].index, kept[at].index
        follows = before is None or now is None or now == before + 1
        if value is not None and follows:
            rows[at - 1] = rows[at - 1][0], msgspec.structs.replace(rows[at - 1][1], device_seconds=value)
    return rows


def _missing(kept: Sequence[StepRecord]) -> int:
    """Steps that the count passes over; a count that starts again is a restarted engine."""
    indices = [one.index for one in kept if one.index is not None]
    return sum(max(later - earlier - 1, 0) for earlier, later in pairwise(indices))


def _reader(engines: Sequence[Engine], record: Mapping[str, object]) -> Engine | None:
    for engine in engines:
        if record and engine.step_record is not None and engine.step_record(record) is not None:
            return engine
    return None


def _first(text: str) -> Mapping[str, object]:
    """The first object of a text that goes on behind it."""
    try:
        value, _ = JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


FORMAT: Final = StepRecords()
