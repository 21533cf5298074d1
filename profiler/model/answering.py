"""Who answers at an address, told by what a process keeps from its start to its end.

A restart replaces one process by another for good. Where a constant comes back to a value that it had before another
one, two processes are alive, and a load balancer sends each scrape to whichever it likes: what a counter grew between
two scrapes is then no growth of anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

# Seconds since the epoch, as every Prometheus client spells it.
STARTED: Final = "process_start_time_seconds"
OWN_ADDRESS: Final = (
    "Record each server at its own address with --url (a pod by kubectl port-forward), or give --url of a router that "
    "names its workers"
)
# Of a clock that is set while a process runs: Go and Rust add the machine's boot time, in whole seconds, anew.
_SET_SECONDS: Final = 2.0
_TICK: Final = 0.005


class Answering:
    """The answers of one address, one after the other; ``returned`` is the first constant that shows them to be of
    several processes, None while nothing does."""

    def __init__(self) -> None:
        self.returned: str | None = None
        self._now: dict[str, str] = {}
        self._gone: dict[str, list[str]] = {}

    def take(self, constants: Mapping[str, str]) -> bool:
        """One answer's constants by name. True where another process answered than before."""
        changed = False
        for name, value in constants.items():
            last, gone = self._now.get(name, value), self._gone.setdefault(name, [])
            if _same(name, last, value):
                self._now[name] = value
                continue
            changed = True
            if self.returned is None and (_earlier(name, value, last) or any(_same(name, one, value) for one in gone)):
                self.returned = name
            gone.append(last)
            self._now[name] = value
        return changed


def returned(answers: Iterable[Mapping[str, str]]) -> str | None:
    """The constant that shows these answers to be of several processes at once, None where nothing does."""
    answering = Answering()
    for constants in answers:
        answering.take(constants)
    return answering.returned


def another(first: Mapping[str, str], last: Mapping[str, str]) -> bool:
    """Whether the process of the last answer is not that of the first."""
    answering = Answering()
    answering.take(first)
    return answering.take(last)


def told(name: str) -> str:
    """What was seen; ``name`` is the constant that gave it away."""
    return (
        f"several processes answer in turns ({_bare(name)} goes back to an earlier value, as no restart does). A load "
        "balancer stands before them, so no difference of these counters is known and the metrics are not used"
    )


def _same(name: str, one: str, other: str) -> bool:
    if one == other:
        return True
    a, b = _seconds(name, one), _seconds(name, other)
    return a is not None and b is not None and abs(a - b) <= _SET_SECONDS and abs(a - b - round(a - b)) < _TICK


def _earlier(name: str, one: str, other: str) -> bool:
    """Whether a process began before the one that it would have replaced."""
    a, b = _seconds(name, one), _seconds(name, other)
    return a is not None and b is not None and a < b


def _seconds(name: str, value: str) -> float | None:
    return float(value) if _bare(name) == STARTED else None


def _bare(name: str) -> str:
    """The metric's name without its labels."""
    return name.partition("{")[0]
