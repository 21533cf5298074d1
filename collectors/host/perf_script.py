"""Samples of ``perf script``: a header line, the frames innermost first, a blank line.

The header is ``comm pid[/tid] [cpu] time: [period] event:``. The period of a clock event is nanoseconds; where every
sample has one, weights are seconds, else every sample counts as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from profiler.collectors.bounded_text import whole_text
from profiler.collectors.host.stack_rows import StackRows
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.run import Reading

_HEADER: Final = re.compile(
    r"(\S.{0,60}?)\s+(\d{1,12})(?:/(\d{1,12}))?\s+(?:\[\d{1,6}\]\s+)?\d{1,15}\.\d{1,9}:\s+(?:(\d{1,18})\s+)?([\w:/=,-]+):\s*.*"
)
_SNIFF: Final = re.compile(
    rb"(?m)^\S.{0,60}?\s+\d{1,12}(?:/\d{1,12})?\s+(?:\[\d+\]\s+)?\d+\.\d+:\s+(?:\d+\s+)?[\w:/=,-]+:"
)
_FRAME: Final = re.compile(r"\s+[0-9a-f]{1,16}\s+(.+?)(?: \((.*)\))?\s*")
_OFFSET: Final = re.compile(r"\+0x[0-9a-f]+$")
_CLOCKS: Final = ("cpu-clock", "task-clock")


@dataclass
class _Sample:
    process: str
    thread: str
    period: int | None
    event: str
    frames: list[str] = field(default_factory=list[str])


class PerfScript:
    """See ``profiler.model.extension.Format``."""

    name = "perf_script"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By a header line."""
        return 0.85 if head[:1] not in (b"{", b"[") and _SNIFF.search(head) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One table; lines that are neither header nor frame are counted."""
        text = whole_text(source)
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", f"{source.broken}; later samples are missing"))
        strange: list[int] = []
        found = list(_samples(text, strange))
        if strange:
            detail = "a line is neither a sample's header nor a frame and was left out"
            problems.append(Problem(source.name, "warning", detail, f"line {strange[0]}", len(strange)))
        if not found:
            raise BadInput(source.name, "no sample found", "Save the output of perf script as it is", "line 1")
        timed = all(one.period is not None and one.event.split(":")[0] in _CLOCKS for one in found)
        rows = StackRows(source.name, "perf", "seconds" if timed else "samples")
        for one in found:
            weight = (one.period or 0) / 1e9 if timed else 1.0
            rows.add(one.frames[::-1], weight, one.process, one.thread)
        events = sorted({one.event for one in found})
        if len(events) > 1:
            detail = f"samples of several events ({', '.join(events)[:200]}) are in one table"
            problems.append(Problem(source.name, "warning", detail, count=len(events)))
        return Reading(stacks=(rows.table(),), problems=tuple(problems))


def _samples(text: str, strange: list[int]) -> Iterator[_Sample]:
    now: _Sample | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            if now is not None:
                yield now
            now = None
            continue
        if line[0] in " \t" and now is not None:
            match = _FRAME.fullmatch(line[:4096])
            if match is None:
                strange.append(number)
            else:
                now.frames.append(_frame(match[1], match[2]))
            continue
        header = _HEADER.fullmatch(line.strip()[:1000])
        if header is None:
            strange.append(number)
            continue
        if now is not None:
            yield now
        command, pid, tid = header[1], header[2], header[3]
        # With one number only perf prints the thread's.
        thread = f"{tid or pid}: {command}"
        period = None if header[4] is None else int(header[4])
        now = _Sample(f"{pid}: {command}" if tid else "", thread, period, header[5])
    if now is not None:
        yield now


def _frame(symbol: str, binary: str | None) -> str:
    """The symbol without its offset; of an unknown one the binary it lies in."""
    name = _OFFSET.sub("", symbol)
    return f"{name} ({binary})" if name == "[unknown]" and binary and binary != "[unknown]" else name


FORMAT: Final = PerfScript()
