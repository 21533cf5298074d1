"""speedscope's own format, versions 0.0.1 to 1.x: sampled and evented profiles over shared frames.

Read off the files of speedscope's own importers and of py-spy 0.4. Every profile is a thread (py-spy names it
``Thread 10601 "MainThread"``). Weights in a unit of time become seconds. Times between two events belong to the calls
that are open; a call that is never closed ends with its profile.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from json import JSONDecoder
from typing import Final

from profiler.collectors.bounded_text import whole_text
from profiler.collectors.host.open_calls import OpenCalls, said
from profiler.collectors.host.stack_rows import StackRows, frame_text
from profiler.collectors.json_text import count, mapping, number, parse, string
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.run import Reading
from profiler.model.stacks import Unit

UNITS: Final[Mapping[str, tuple[Unit, float]]] = {
    "seconds": ("seconds", 1.0),
    "milliseconds": ("seconds", 1e-3),
    "microseconds": ("seconds", 1e-6),
    "nanoseconds": ("seconds", 1e-9),
    "bytes": ("bytes", 1.0),
}
_SCHEMA: Final = b"www.speedscope.app/file-format-schema.json"
_DECODER: Final = JSONDecoder()
_PROCESS: Final = re.compile(r'Process (\d{1,12})(?::?"(.*)")? (Thread .*)')


class Speedscope:
    """See ``profiler.model.extension.Format``."""

    name = "speedscope"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By the schema that every file names; by its parts where the schema stands at the end."""
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
            return 0.0
        if _SCHEMA in head:
            return 0.93
        return 0.8 if b'"profiles"' in head and (b'"evented"' in head or b'"sampled"' in head) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One table for each unit; profiles of a file that breaks off are read up to there."""
        text = whole_text(source)
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", source.broken))
        parsed = parse(text)
        record = mapping(parsed)
        if not isinstance(parsed, dict):
            problems.append(
                Problem(source.name, "error", "the JSON breaks off; the whole profiles before it were read")
            )
        profiles = _list(record.get("profiles")) if record else _items(text, "profiles")
        frames = _frames(_list(mapping(record.get("shared")).get("frames")) if record else _items(text, "frames"))
        tables: dict[Unit, StackRows] = {}
        odd: Counter[str] = Counter()
        strange = 0
        for profile in map(mapping, profiles):
            unit, scale = UNITS.get(string(profile.get("unit")) or "", ("units", 1.0))
            tool = "py-spy" if "py-spy" in (string(record.get("exporter")) or "") else "speedscope"
            rows = tables.setdefault(unit, StackRows(source.name, tool, unit))
            kind = profile.get("type")
            if kind == "sampled":
                _sampled(profile, frames, rows, scale, odd)
            elif kind == "evented":
                _evented(profile, frames, rows, scale, odd)
            else:
                strange += 1
        if strange:
            problems.append(Problem(source.name, "warning", "a profile is neither sampled nor evented", count=strange))
        for kind, detail in (
            ("frame", "a stack names a frame that the file does not describe; it is called by its number"),
            ("lengths", "samples and weights differ in number; those without the other were left out"),
            ("event", "an event is malformed and was left out"),
        ):
            if odd[kind]:
                problems.append(Problem(source.name, "warning", detail, count=odd.pop(kind)))
        problems += said(source.name, odd)
        if not any(len(rows) for rows in tables.values()):
            raise BadInput(source.name, "no profile with a sample or call", "Record again with --format speedscope")
        return Reading(stacks=tuple(rows.table() for rows in tables.values() if len(rows)), problems=tuple(problems))


def _sampled(
    profile: Mapping[str, object], frames: Sequence[str], rows: StackRows, scale: float, odd: Counter[str]
) -> None:
    samples, weights = _list(profile.get("samples")), _list(profile.get("weights"))
    odd["lengths"] += abs(len(samples) - len(weights))
    process, thread = _thread(profile)
    for sample, raw in zip(samples, weights, strict=False):
        weight = number(raw)
        if not isinstance(sample, list) or weight is None or not abs(weight) < float("inf"):
            odd["event"] += 1
            continue
        rows.add([_name(index, frames, odd) for index in sample], weight * scale, process, thread)


def _evented(
    profile: Mapping[str, object], frames: Sequence[str], rows: StackRows, scale: float, odd: Counter[str]
) -> None:
    process, thread = _thread(profile)
    calls = OpenCalls(rows, scale, process, thread)
    for event in map(mapping, _list(profile.get("events"))):
        at, index, kind = number(event.get("at")), count(event.get("frame")), event.get("type")
        if at is None or index is None or not abs(at) < float("inf") or kind not in ("O", "C"):
            odd["event"] += 1
        elif kind == "O":
            calls.open(at, index, _name(index, frames, odd))
        else:
            calls.close(at, index)
    end = number(profile.get("endValue"))
    calls.finish(end if end is not None and abs(end) < float("inf") else calls.now)
    odd.update(calls.odd)


def _frames(listed: Sequence[object]) -> list[str]:
    described = [mapping(frame) for frame in listed]
    return [
        frame_text(string(frame.get("name")) or f"frame {at}", string(frame.get("file")), count(frame.get("line")))
        for at, frame in enumerate(described)
    ]


def _name(index: object, frames: Sequence[str], odd: Counter[str]) -> str:
    at = count(index)
    if at is not None and 0 <= at < len(frames):
        return frames[at]
    odd["frame"] += 1
    return f"frame {at}"


def _thread(profile: Mapping[str, object]) -> tuple[str, str]:
    name = string(profile.get("name")) or ""
    match = _PROCESS.fullmatch(name)
    if match is None:
        return "", name
    return f"{match[1]}: {match[2]}" if match[2] else match[1], match[3]


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _items(text: str, key: str) -> list[object]:
    """The whole items of a list in a text that breaks off, behind its key."""
    start = text.find(f'"{key}"')
    at = text.find("[", start) + 1 if start >= 0 else 0
    found: list[object] = []
    try:
        while at > 0:
            while text[at : at + 1] in (" ", "\t", "\r", "\n", ","):
                at += 1
            item, at = _DECODER.raw_decode(text, at)
            found.append(item)
    except (ValueError, RecursionError):
        pass
    return found


FORMAT: Final = Speedscope()
