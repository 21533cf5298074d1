"""What every collector that samples has in common: its own thread, its own clock, and an account of what it cost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

# A server that has not answered for so long is taken for lost.
LOST_SECONDS: Final = 10.0


class SampleFailed(Exception):
    """One sample could not be taken; the next may."""


@dataclass
class Cost:
    """What a collector used: CPU seconds of this process, or of the tool that it started, requests to the server,
    bytes received from it and bytes written; how many samples it took and missed. ``server_seconds`` are CPU seconds
    that a part of it used in the server's own process, ``toll`` how many times as many output tokens a second were made
    before it as during it; None where not known."""

    collector: str
    cpu_seconds: float = 0.0
    requests: int = 0
    received: int = 0
    written: int = 0
    samples: int = 0
    missed: int = 0
    server_seconds: float | None = None
    toll: float | None = None
    problems: list[str] = field(default_factory=list)


class Collector(Protocol):
    """Something that is sampled. ``take`` gets the seconds since the run began."""

    cost: Cost
    period: float
    vital: bool  # whether the recording is pointless where it fails for long

    def take(self, seconds: float) -> None:
        """Take one sample. Raises SampleFailed, or OSError where it can't go on."""
        ...

    def close(self) -> None:
        """Take what is still to be taken, and let go."""
        ...


class Sampling:
    """Runs collectors, each in a thread, from ``start`` to ``stop``. ``broken`` says why it had to end early."""

    def __init__(self, collectors: tuple[Collector, ...], began: float, ended: Callable[[], None]) -> None:
        self._collectors, self._began, self._ended = collectors, began, ended
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._loop, args=(one,), daemon=True) for one in collectors]
        self.broken: str | None = None

    def start(self) -> None:
        """Take the first sample of each and go on."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End every thread after a last sample, and close every collector."""
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(timeout=30)

    def _loop(self, one: Collector) -> None:
        due = time.monotonic()
        good = due
        cpu = time.thread_time()
        try:
            while True:
                last = self._stop.is_set()
                try:
                    one.take(time.time() - self._began)
                    one.cost.samples += 1
                    good = time.monotonic()
                except SampleFailed as error:
                    one.cost.missed += 1
                    if str(error) not in one.cost.problems and len(one.cost.problems) < 5:
                        one.cost.problems.append(str(error))
                    if one.vital and time.monotonic() - good > LOST_SECONDS:
                        self._break(f"the server was lost: {error}")
                        break
                if last:
                    break
                # A sample that took longer than the period is not made up for.
                due = max(due + one.period, time.monotonic())
                self._stop.wait(due - time.monotonic())
        except OSError as error:
            self._break(f"{one.cost.collector}: {error.strerror or error}")
        finally:
            try:
                one.close()
            except OSError as error:
                self._break(f"{one.cost.collector}: {error.strerror or error}")
            one.cost.cpu_seconds += time.thread_time() - cpu

    def _break(self, why: str) -> None:
        self.broken = self.broken or why
        self._ended()


@contextmanager
def sampled(*collectors: Collector) -> Iterator[None]:
    """Take samples while the block runs."""
    sampling = Sampling(collectors, time.time(), lambda: None)
    sampling.start()
    try:
        yield
    finally:
        sampling.stop()
