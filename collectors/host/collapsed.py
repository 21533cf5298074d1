"""Collapsed stacks: ``outer;inner COUNT`` a line, as ``py-spy record --format raw`` and stackcollapse scripts write.

The count stands after the last space; frames may hold spaces. Lines that begin with # or // are comments. py-spy puts
``process PID:"command"`` and ``thread (id): name`` in front as frames where it was asked to tell them apart; those
become the row's process and thread. Counts are samples: without the rate they are no time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from profiler.collectors.bounded_text import whole_text
from profiler.collectors.host.stack_rows import StackRows
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.run import Reading

_LINE: Final = re.compile(
    rb"\A(?:\xef\xbb\xbf)?(?:[ \t]*(?:#|//)[^\n]*\n)*"
    rb"(?:process \d+:[^\n;]*|[^\n;{}\[\]]+);[^\n]* \d+(?:\.\d+)?\r?(?:\n|\Z)"
)
_UTF16: Final = re.compile(rb"\A(?:\xff\xfe(?:[^\0]\0){1,400}?;\0|\xfe\xff(?:\0[^\0]){1,400}?\0;)")
_COUNT: Final = re.compile(r"(.*\S)?\s+(\d{1,15}(?:\.\d{1,15})?)\s*")
_PROCESS: Final = re.compile(r'process (\d{1,12}):"(.*?)"(?:;|\Z)')
_THREAD: Final = re.compile(r"thread \(([^()]*)\)(?:: (.*))?")
_PYTHON: Final = re.compile(r" \([^()]*:\d+\)(?:;|\Z)")


class Collapsed:
    """See ``profiler.model.extension.Format``."""

    name = "collapsed_stacks"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By the form of the first line that is no comment."""
        return 0.56 if _UTF16.search(head) else 0.55 if _LINE.search(head) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One table; lines without a count are counted and left out."""
        text = whole_text(source)
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", f"{source.broken}; later stacks are missing"))
        rows = StackRows(source.name, "py-spy" if _PYTHON.search(text[:65536]) else "collapsed stacks", "samples")
        invalid: list[int] = []
        for number, raw in enumerate(text.splitlines(), 1):
            line = raw.strip()
            if not line or line.startswith(("#", "//")):
                continue
            match = _COUNT.fullmatch(line)
            if match is None or match[1] is None:
                invalid.append(number)
                continue
            process, thread, frames = _parts(match[1])
            rows.add(frames, float(match[2]), process, thread)
        if invalid:
            detail = "a line has no count at its end and was left out"
            problems.append(Problem(source.name, "warning", detail, f"line {invalid[0]}", len(invalid)))
        if not len(rows):
            raise BadInput(
                source.name, "no stack with a count found", "Record with py-spy record --format raw", "line 1"
            )
        return Reading(stacks=(rows.table(),), problems=tuple(problems))


def _parts(stack: str) -> tuple[str, str, list[str]]:
    """(process, thread, frames) of the text before the count; of a process and its subprocesses the last counts."""
    process = thread = ""
    while (match := _PROCESS.match(stack)) is not None:
        process = f"{match[1]}: {match[2]}"
        stack = stack[match.end() :]
    frames = [frame.strip() for frame in stack.split(";") if frame.strip()]
    if frames and (match := _THREAD.fullmatch(frames[0])) is not None:
        thread = f"{match[1]}: {match[2]}" if match[2] else match[1]
        frames = frames[1:]
    return process, thread, frames


FORMAT: Final = Collapsed()
