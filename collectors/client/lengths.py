"""How long prompts and answers are: one number, a range, or a distribution, drawn in tokens.

Only ``Random.random`` is used beneath: Python keeps its sequence for a seed, so that a plan drawn again is the same.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from random import Random
from statistics import NormalDist
from typing import Final, Literal

from profiler.errors import UsageError

LONGEST: Final = 1 << 20
_RANGE: Final = re.compile(r"(\d{1,7})-(\d{1,7})")
_SHAPED: Final = re.compile(r"(normal|lognormal):(\d{1,7}(?:\.\d+)?):(\d{1,7}(?:\.\d+)?)")


@dataclass(frozen=True)
class Lengths:
    """``uniform`` from ``first`` to ``second``; ``normal`` with mean and standard deviation; ``lognormal`` with median
    and the standard deviation of the logarithm. Draws below 1 become 1."""

    kind: Literal["uniform", "normal", "lognormal"]
    first: float
    second: float

    def draw(self, random: Random) -> int:
        """One length in tokens."""
        if self.kind == "uniform":
            low, high = int(self.first), int(self.second)
            return low + int(random.random() * (high - low + 1))
        # random() may be 0, where the inverse of the distribution is not defined.
        z = NormalDist().inv_cdf(random.random() * (1 - 2e-12) + 1e-12)
        value = self.first + self.second * z if self.kind == "normal" else self.first * math.exp(self.second * z)
        return min(max(round(value), 1), LONGEST)


def parse_lengths(text: str) -> Lengths:
    """``512``, ``256-1024``, ``normal:512:128`` or ``lognormal:512:0.6``. Raises UsageError."""
    if text.isdecimal() and 1 <= int(text) <= LONGEST:
        return Lengths("uniform", int(text), int(text))
    span, shaped = _RANGE.fullmatch(text), _SHAPED.fullmatch(text)
    if span is not None and 1 <= int(span[1]) <= int(span[2]) <= LONGEST:
        return Lengths("uniform", int(span[1]), int(span[2]))
    if shaped is not None and float(shaped[2]) >= 1 and (shaped[1] == "normal" or float(shaped[3]) <= 5):
        return Lengths("normal" if shaped[1] == "normal" else "lognormal", float(shaped[2]), float(shaped[3]))
    raise UsageError(
        f"{text!r} is no length in tokens: write 512, 256-1024, normal:MEAN:DEVIATION or lognormal:MEDIAN:SIGMA"
    )
