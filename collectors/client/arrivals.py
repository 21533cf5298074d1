"""When requests are due: an open loop decides that before the load starts, whatever the server does.

Gaps are kept as drawn: the achieved rate of a plan differs from the asked one by chance, and is stated.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random
from typing import Final, Literal

Arrival = Literal["poisson", "constant", "gamma", "recorded"]
ARRIVALS: Final[tuple[Arrival, ...]] = ("poisson", "constant", "gamma", "recorded")
SECOND: Final = 1_000_000_000


def due_times(arrival: Arrival, rate: float, burstiness: float, random: Random) -> Iterator[int]:
    """Endless due times in ns, the first at 0, at ``rate`` requests/s on average.

    Gaps of ``gamma`` have the shape ``burstiness``: 1 is a Poisson process, smaller is burstier.
    """
    yield 0
    at = 0.0
    for number in itertools.count(1):
        if arrival == "constant":
            at = number / rate
        elif arrival == "gamma":
            at += random.gammavariate(burstiness, 1.0 / (rate * burstiness))
        else:
            at += random.expovariate(rate)
        yield round(at * SECOND)
