"""Stacks collected one by one into a ``StackTable``: frames and stacks are kept once, equal rows are added up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from profiler.collectors.command_text import split
from profiler.collectors.redaction import redact_command, redact_text
from profiler.model.stacks import StackTable, Unit

LONGEST_NAME = 300


@dataclass
class StackRows:
    """The stacks of one file so far."""

    path: str
    tool: str
    unit: Unit
    _frames: dict[str, int] = field(default_factory=dict[str, int])
    _stacks: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])
    _processes: dict[str, int] = field(default_factory=dict[str, int])
    _threads: dict[str, int] = field(default_factory=dict[str, int])
    _rows: dict[tuple[int, int, int], list[float]] = field(default_factory=dict[tuple[int, int, int], list[float]])

    def add(self, frames: Sequence[str], weight: float, process: str = "", thread: str = "") -> None:
        """One stack, outermost frame first."""
        stack = tuple(self._frames.setdefault(frame, len(self._frames)) for frame in frames)
        row = (
            self._stacks.setdefault(stack, len(self._stacks)),
            self._processes.setdefault(process, len(self._processes)) if process else -1,
            self._threads.setdefault(thread, len(self._threads)) if thread else -1,
        )
        self._rows.setdefault(row, []).append(weight)

    def __len__(self) -> int:
        return len(self._rows)

    def table(self) -> StackTable:
        """The table, without secrets in any name."""
        rows = list(self._rows)
        return StackTable(
            path=self.path,
            tool=self.tool,
            unit=self.unit,
            frames=tuple(redact_text(frame) for frame in self._frames),
            stacks=tuple(self._stacks),
            stack=np.array([row[0] for row in rows], np.int64),
            weight=np.array([math.fsum(weights) for weights in self._rows.values()], np.float64),
            process=np.array([row[1] for row in rows], np.int64),
            thread=np.array([row[2] for row in rows], np.int64),
            processes=tuple(_command(process) for process in self._processes),
            threads=tuple(redact_text(thread)[:LONGEST_NAME] for thread in self._threads),
        )


def frame_text(name: str, file: str | None, line: int | None) -> str:
    """A frame as py-spy spells it: ``forward (model.py:12)``."""
    if not file or file == "?":
        return name
    return f"{name} ({file}:{line})" if line else f"{name} ({file})"


def _command(process: str) -> str:
    """``10425: serve …`` with the secrets of the command line replaced."""
    number, colon, command = process.partition(": ")
    if not colon:
        return redact_text(process)[:LONGEST_NAME]
    return f"{number}: {' '.join(redact_command(split(command)))}"[:LONGEST_NAME]
