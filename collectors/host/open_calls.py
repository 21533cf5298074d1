"""Calls that open and close, added up as stacks: each call's own time goes to the stack it was on top of."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from profiler.collectors.host.stack_rows import StackRows
from profiler.model.problem import Problem

SAID: dict[str, str] = {
    "crossed": "a call ends while calls inside it are open; those stay open until their own end",
    "unopened": "a call ends that never began; left out",
    "backwards": "an event is earlier than the one before it; no time was counted between them",
    "open": "a call never ends; it was ended with the recording",
}


@dataclass
class OpenCalls:
    """The calls of one thread that are open, in the order they were opened."""

    rows: StackRows
    scale: float
    process: str = ""
    thread: str = ""
    now: float | None = None
    calls: list[tuple[object, str]] = field(default_factory=list[tuple[object, str]])
    odd: Counter[str] = field(default_factory=Counter[str])

    def open(self, at: float, key: object, frame: str) -> None:
        """A call begins."""
        self._advance(at)
        self.calls.append((key, frame))

    def close(self, at: float, key: object) -> None:
        """A call ends; where it is not the innermost, those inside it stay open."""
        self._advance(at)
        depth = next((i for i in range(len(self.calls) - 1, -1, -1) if self.calls[i][0] == key), None)
        if depth is None:
            self.odd["unopened"] += 1
            return
        self.odd["crossed"] += depth < len(self.calls) - 1
        del self.calls[depth]

    def finish(self, at: float | None) -> None:
        """The recording ends."""
        self.odd["open"] += len(self.calls)
        if at is not None:
            self._advance(at)
        self.calls.clear()

    def _advance(self, at: float) -> None:
        if self.now is not None and at < self.now:
            self.odd["backwards"] += 1
            return
        if self.calls and self.now is not None and at > self.now:
            frames = [frame for _, frame in self.calls if frame]
            self.rows.add(frames, (at - self.now) * self.scale, self.process, self.thread)
        self.now = at


def said(path: str, odd: Counter[str]) -> list[Problem]:
    """Every oddity with its count."""
    return [Problem(path, "warning", SAID[kind], None, count) for kind, count in sorted(odd.items()) if count]
