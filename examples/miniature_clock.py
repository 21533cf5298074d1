"""Clocks for an engine: wall time, and the time of its own threads."""

from __future__ import annotations

import time


class Clock:
    """Wall time, in seconds."""

    def now(self) -> float:
        """Seconds since some moment."""
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def waited(self, until: float) -> None:
        """Something beside took until a moment and was waited for."""


class OwnClock(Clock):
    """The thread's processor time and its sleeps: it stands still while other programs have the processor."""

    def __init__(self) -> None:
        self.slept = 0.0

    def now(self) -> float:
        """Seconds since some moment."""
        return time.thread_time() + self.slept

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
        self.slept += seconds

    def waited(self, until: float) -> None:
        """Something beside took until a moment and was waited for: its thread's or process' time counts from then."""
        self.slept += max(until - self.now(), 0.0)
