"""Call stacks that a sampling profiler saw, or that a recording of calls adds up to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from profiler.model.requests import Floats, Ints

Unit = Literal["seconds", "samples", "bytes", "units"]


@dataclass(frozen=True)
class StackTable:
    """Stacks with their weights: row i is ``stacks[stack[i]]``, seen in a process and a thread for ``weight[i]``.

    ``frames`` are the distinct frames' texts (``name (file:line)`` where the tool says so); a stack is a tuple of
    indices into them, outermost first, and may be empty. ``process`` and ``thread`` are indices into ``processes``
    and ``threads``, -1 where the tool does not say. Rows of equal stack, process and thread are one row.

    ``unit`` says what weights are: "samples" are counts at a rate that the file does not state and are no time;
    "units" is what a file itself calls no unit.
    """

    path: str
    tool: str
    unit: Unit
    frames: tuple[str, ...]
    stacks: tuple[tuple[int, ...], ...]
    stack: Ints
    weight: Floats
    process: Ints
    thread: Ints
    processes: tuple[str, ...] = ()
    threads: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.stack)

    def texts(self, row: int) -> tuple[str, ...]:
        """The frames of a row, outermost first."""
        return tuple(self.frames[index] for index in self.stacks[self.stack[row]])
