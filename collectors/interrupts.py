"""Ctrl-C and termination while a recording runs: noted, and acted on where it waits.

Nothing is raised from a signal handler: an exception between two statements could leave the engine's profiler running.
Every wait asks ``seen`` ten times a second, and every request is bounded in time.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any, Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """A context in which signals are noted; ``seen`` says whether one came. In a main thread only."""

    def __init__(self) -> None:
        self.seen = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.seen = True
