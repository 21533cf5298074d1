"""What is typed: durations (``500ms``), sizes (``4GiB``),
objectives (``ttft=500ms``), gates (``output_throughput < -3%``)."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from profiler.model.diagnosis import Gap

SECONDS: Final = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
_DURATION: Final = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*(us|µs|ms|s|min)\s*$")
SIZES: Final = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SIZE: Final = re.compile(r"^\s*([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*(KiB|MiB|GiB)\s*$")
_GATE: Final = re.compile(r"^\s*([a-z0-9_]+)\s*(<=|>=|<|>)\s*([+-]?[0-9]+(?:\.[0-9]+)?)\s*(%|us|µs|ms|s)?\s*$")
_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
OBJECTIVES: Final = ("ttft", "tpot", "e2e")


def duration(text: str) -> float:
    """Seconds of a duration with its unit. Raises click.BadParameter."""
    match = _DURATION.match(text)
    if match is None:
        raise click.BadParameter(f"{text!r} is no duration: write a number with us, ms, s or min, such as 500ms")
    return float(match[1]) * SECONDS[match[2]]


class Duration(click.ParamType[float]):
    """``500ms`` -> seconds."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse; a duration of nothing is refused."""
        seconds = duration(str(value))
        if seconds <= 0:
            self.fail(f"{value!r}: write a duration above zero, such as 30s", param, ctx)
        return seconds


class Size(click.ParamType[int]):
    """``4GiB`` -> bytes."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse a number with its unit."""
        match = _SIZE.match(str(value))
        if match is None:
            self.fail(f"{value!r} is no size: write a number with KiB, MiB or GiB, such as 500MiB", param, ctx)
        return int(float(match[1]) * SIZES[match[2]])


class Slo(click.ParamType[dict[str, float]]):
    """``ttft=500ms,tpot=50ms`` -> seconds by metric."""

    name = "slo"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, float]:
        """Parse; unknown metrics are refused by name."""
        bounds = {}
        for part in str(value).split(","):
            metric, equals, bound = part.partition("=")
            if not equals or metric.strip() not in OBJECTIVES:
                self.fail(f"{part!r}: write {', '.join(OBJECTIVES)} with a bound, such as ttft=500ms", param, ctx)
            bounds[metric.strip()] = duration(bound)
        return bounds


@dataclass(frozen=True)
class Gate:
    """A condition on one gap; the command fails (exit status 1) where it holds."""

    text: str
    metric: str
    sign: str
    bound: float
    relative: bool

    def fails(self, gap: Gap) -> bool:
        """Whether the condition holds for this gap: B's change against A, relative or in the metric's unit."""
        value = gap.relative if self.relative else gap.gap
        return value is not None and _COMPARE[self.sign](value, self.bound)


class GateType(click.ParamType[Gate]):
    """``output_throughput < -3%`` (relative) or ``mean_ttft > 50ms`` (in the metric's unit)."""

    name = "condition"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Gate:
        """Parse a condition."""
        match = _GATE.match(str(value))
        if match is None:
            self.fail(f"{value!r}: write METRIC < NUMBER%, such as 'output_throughput < -3%'", param, ctx)
        metric, sign, number, unit = match.groups()
        factor = 0.01 if unit == "%" else SECONDS.get(unit or "s", 1.0)
        return Gate(str(value), metric, sign, float(number) * factor, unit == "%")
