"""A server's log, line by line: steps, settings in force, events. Lines may be huge and the log larger than memory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Final

import msgspec
import numpy as np

from profiler.collectors.engines import ENGINES
from profiler.model.extension import Engine, LogStep, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.run import Reading
from profiler.model.steps import EngineLog, Readings, StepTable

LONGEST_LINE: Final = 1 << 20
# After so many bytes without the end of a line the file is no log.
ENDLESS_LINE: Final = 256 << 20
SNIFFED_LINES: Final = 400
YEAR: Final = 365 * 86400.0
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass
class _Collected:
    """What one engine's functions found in the log so far."""

    engine: Engine
    matched: int = 0
    rows: list[tuple[float, LogStep]] = field(default_factory=list[tuple[float, LogStep]])
    facts: dict[str, Fact[object]] = field(default_factory=dict[str, Fact[object]])
    events: Counter[str] = field(default_factory=Counter[str])
    readings: dict[str, list[tuple[float, float]]] = field(default_factory=dict[str, list[tuple[float, float]]])
    clock: float = float("nan")
    years: float = 0.0

    def line(self, text: str, number: int, path: str) -> bool:
        """Take a line; returns whether it is one of a step."""
        engine = self.engine
        stamp = engine.log_clock(text)
        if stamp is not None:
            # A stamp without a year falls back to nearly zero on New Year's night.
            if self.clock - (stamp + self.years) > 0.9 * YEAR:
                self.years += YEAR
            self.clock = stamp + self.years
        stated = {} if engine.log_readings is None else engine.log_readings(text)
        for concept, reading in stated.items():
            self.readings.setdefault(concept, []).append((self.clock, reading))
        step = engine.log_step(text)
        if step is not None:
            self.matched += 1
            if step.previous_device_seconds is not None and self.rows:
                clock, before = self.rows[-1]
                self.rows[-1] = clock, msgspec.structs.replace(before, device_seconds=step.previous_device_seconds)
            self.rows.append((self.clock, step))
            return True
        facts = engine.log_facts(text)
        for key, value in facts.items():
            self.facts[key] = Fact(value, f"{path}: line {number}", inferred=False)
        event = engine.log_event(text)
        if event is not None:
            self.events[event] += 1
        # An error line alone could be anyone's: it is counted and proves nothing.
        if facts or stated or event not in (None, "error"):
            self.matched += 1
        return False


class ServerLog:
    """A server's log of any known engine; see ``profiler.model.extension.Format``."""

    name = "server_log"
    version = 3

    def sniff(self, head: bytes, name: str) -> float:
        """Sure where a line is one that an engine writes, unsure where only the time stamps look like one's."""
        if b"\0" in head[:4096] or head[:1] == b"{":
            return 0.0
        stamped = unstamped = 0
        for text in head[:65536].decode("utf-8", "replace").splitlines()[:SNIFFED_LINES]:
            line = _COLOUR.sub("", text[:4096])
            for engine in ENGINES:
                if engine.log_clock(line) is None:
                    unstamped += engine.log_step(line) is not None
                    continue
                stamped += 1
                if engine.log_step(line) or engine.log_facts(line) or engine.log_event(line) not in (None, "error"):
                    return 0.92
        # Logs of 2024 have the time of day or nothing before their lines; one alone may be quoted in a text.
        if unstamped >= 2:
            return 0.5
        lowered = name.lower()
        return 0.4 if stamped >= 3 else 0.3 if stamped and lowered.endswith((".log", ".log.gz")) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """Steps, settings and events of the engine that most lines belong to."""
        collected = [_Collected(engine) for engine in engines]
        # The engine of the last step comes first: most lines are its, and a step of one engine is none of another.
        order = list(collected)
        long_lines = number = 0
        with source.open() as stream:
            for number, raw, whole in _lines(stream):
                long_lines += not whole
                text = _COLOUR.sub("", raw) if "\x1b" in raw else raw
                # A progress bar ends in a carriage return and the next message follows on the same line.
                for part in text.split("\r") if "\r" in text else (text,):
                    if part:
                        for one in order:
                            if one.line(part, number, source.name):
                                order.remove(one)
                                order.insert(0, one)
                                break
            endless = bool(stream.read(1))
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", f"{source.broken}; later lines are missing"))
        if endless:
            detail = f"a line does not end within {ENDLESS_LINE >> 20} MiB; it and what follows were left out"
            problems.append(Problem(source.name, "error", detail, f"line {number:,}"))
        if long_lines:
            detail = f"a line is longer than {LONGEST_LINE} bytes; only its beginning was read"
            problems.append(Problem(source.name, "warning", detail, count=long_lines))
        found = max(collected, key=lambda one: one.matched, default=None)
        if found is None or not found.matched:
            detail = "a log, but none of its lines is one that a known engine writes; it was not read"
            return Reading(problems=(*problems, Problem(source.name, "info", detail)))
        others = [one.engine.title for one in collected if one is not found and one.matched > 0.1 * found.matched]
        if others:
            detail = f"the log also holds lines of {', '.join(others)}; only those of {found.engine.title} were read"
            problems.append(Problem(source.name, "warning", detail))
        facts: dict[str, Fact[object]] = {
            "engine.name": Fact(found.engine.name, f"{source.name}: form of the lines", inferred=False)
        }
        settings = {
            key.removeprefix("setting."): fact for key, fact in found.facts.items() if key.startswith("setting.")
        }
        log = EngineLog(
            path=source.name,
            engine=found.engine.name,
            steps=step_table(found.rows),
            every_step=_every_step(found, settings),
            settings=settings,
            events=dict(found.events),
            readings={concept: Readings(*np.array(rows).T) for concept, rows in found.readings.items()},
        )
        return Reading(logs=(log,), facts=facts | found.facts, problems=tuple(problems))


def _every_step(found: _Collected, settings: dict[str, Fact[object]]) -> bool:
    """Whether the log prints a line for every step: always, or because the sampling interval is set to one."""
    interval = settings.get("step_log_interval")
    every = found.engine.every_step_logged or (interval is not None and interval.value == 1)
    return bool(found.rows) and every


def step_table(rows: Sequence[tuple[float, LogStep]]) -> StepTable:
    """The steps with the clock that each was printed at."""

    def whole(value: int | None) -> int:
        return -1 if value is None else value

    def real(value: float | None) -> float:
        return float("nan") if value is None else value

    steps = [step for _, step in rows]
    labels = [step.label for step in steps]
    return StepTable.build(
        len(rows),
        clock=[clock for clock, _ in rows],
        seconds=[real(step.seconds) for step in steps],
        prefill_requests=[whole(label.prefill_requests) for label in labels],
        prefill_tokens=[whole(label.prefill_tokens) for label in labels],
        cached_tokens=[whole(step.cached_tokens) for step in steps],
        decode_requests=[whole(label.decode_requests) for label in labels],
        decode_tokens=[whole(label.decode_tokens) for label in labels],
        waiting=[whole(step.waiting) for step in steps],
        beside=[whole(step.beside) for step in steps],
        kv_usage=[real(step.kv_usage) for step in steps],
        graph=[-1 if step.graph is None else int(step.graph) for step in steps],
        device_seconds=[real(step.device_seconds) for step in steps],
    )


def _lines(stream: BinaryIO) -> Iterator[tuple[int, str, bool]]:
    """(number from 1, text without its end, whether it is whole) of every line, the rest of a huge one thrown away;
    where one does not end it is the last."""
    number = 0
    while raw := stream.readline(LONGEST_LINE):
        number += 1
        whole = True
        tail = raw
        length = len(raw)
        while not tail.endswith(b"\n") and len(tail) == LONGEST_LINE and length < ENDLESS_LINE:
            tail = stream.readline(LONGEST_LINE)
            length += len(tail)
            whole = whole and not tail
        yield number, raw.rstrip(b"\r\n").decode("utf-8", "replace"), whole
        if length >= ENDLESS_LINE:
            return


FORMAT: Final = ServerLog()
