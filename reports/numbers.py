"""How a value is written, decided once: unit, digits, sign, interval, and "not known" for what is missing.

A hyphen is the minus sign, so that a number can be copied into a spreadsheet or a shell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from profiler.analyzers.metrics import MANY, MANY_TIMES, times
from profiler.model.diagnosis import Gap, Recommendation
from profiler.model.document import Interval
from profiler.reports import wording
from profiler.reports.language import said
from profiler.reports.safe_text import plain

_SECONDS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTES: Final = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
# GPU clocks are given in MHz, as vendors' tools do.
_HERTZ: Final = ((1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz"))
# Links and memories are specified in powers of ten.
_RATES: Final = ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s"))
_SECOND_NAMES: Final = frozenset({"s", "second", "seconds"})
_BYTE_NAMES: Final = frozenset({"B", "byte", "bytes"})
_FRACTION_NAMES: Final = frozenset({"fraction", "share"})
# Units that are counted: of one thing there is no plural.
_COUNTED: Final = frozenset({"tokens", "sequences", "requests", "characters", "blocks", "steps"})
_DIGITS: Final = 4
_HUGE, _TINY = 1e15, 1e-9
_MOST_DECIMALS: Final = 6


@dataclass(frozen=True, slots=True)
class Scale:
    """One unit and one number of decimals for a column, so that the figures of the column can be added by eye."""

    divisor: float
    unit: str
    decimals: int

    def plain(self, value: float | None) -> str:
        """The number without its unit."""
        if value is None or not math.isfinite(value):
            return said(wording.NOT_KNOWN)
        return _fixed(value / self.divisor, self.decimals)

    def signed(self, value: float | None) -> str:
        """The number with its sign; zero has none."""
        text = self.plain(value)
        return text if text[0] == "-" or not any(digit in "123456789" for digit in text) else f"+{text}"

    def full(self, value: float | None) -> str:
        """The number with its unit."""
        return _join(self.plain(value), self.unit)

    def interval(self, bounds: Interval | None) -> str:
        """``-2,190 to -2,095``."""
        if bounds is None or not all(map(math.isfinite, bounds)):
            return said(wording.NOT_KNOWN)
        return said("{low} to {high}", low=self.plain(bounds[0]), high=self.plain(bounds[1]))


_PERCENT: Final = Scale(0.01, "%", 1)


def scale_for(unit: str, *values: float | None) -> Scale:
    """The scale at which the largest of ``values`` shows four significant digits."""
    largest = max((abs(value) for value in values if value is not None and math.isfinite(value)), default=0.0)
    if unit in _SECOND_NAMES:
        divisor, name = _fitting(_SECONDS, largest, default=(1.0, "s"))
    elif unit in _BYTE_NAMES:
        divisor, name = _fitting(_BYTES, largest, default=(1.0, "B"))
    elif unit == "bytes/s":
        divisor, name = _fitting(_RATES, largest, default=(1.0, "B/s"))
    elif unit == "Hz":
        divisor, name = _fitting(_HERTZ, largest, default=(1.0, "Hz"))
    elif unit in _FRACTION_NAMES:
        return _PERCENT
    else:
        divisor, name = 1.0, plain(unit)
    shown = largest / divisor
    whole = all(value is None or not math.isfinite(value) or float(value).is_integer() for value in values)
    if largest == 0.0 or (divisor == 1.0 and whole and name != "s"):
        return Scale(1.0, name, 0)
    magnitude = math.floor(math.log10(shown)) if _TINY < shown < math.inf else 0
    return Scale(divisor, name, min(9, max(0, _DIGITS - 1 - magnitude)))


def gap_scale(gap: Gap) -> Scale:
    """The scale of a gap's column: fine enough for its rows and for the gap itself."""
    return scale_for(gap.unit, gap.gap, *(cause.gap for cause in gap.causes), gap.unexplained.gap)


def level_scale(gap: Gap) -> Scale:
    """The scale in which both runs' values of the metric are written: the smaller one keeps three digits."""
    scale = scale_for(gap.unit, gap.a, gap.b)
    least = min((abs(v) / scale.divisor for v in (gap.a, gap.b) if v and math.isfinite(v)), default=0.0)
    if not scale.decimals or least < _TINY:
        return scale
    return replace(scale, decimals=max(scale.decimals, min(2 - math.floor(math.log10(least)), _MOST_DECIMALS)))


def quantity(value: float | str | None, unit: str) -> str:
    """A single value with its unit: ``0.86 ms``, ``94.0%``, ``38 sequences``, or the text itself."""
    if value is None:
        return said(wording.NOT_KNOWN)
    if isinstance(value, str):
        return plain(value)
    # Next to its name a bare number reads as a count.
    if unit == "count":
        number = scale_for("", value).plain(value)
        return number.rstrip("0").removesuffix(".") if "." in number and "e" not in number else number
    return scale_for(unit[:-1] if value == 1 and unit in _COUNTED else unit, value).full(value)


def each(seconds: float | None, calls: float | None) -> str:
    """The time of one of several calls."""
    return quantity(seconds / calls, "s") if seconds is not None and calls else wording.NO_SHARE


def percent(fraction: float | None) -> str:
    """A share: ``70.2%``; of a small gap whose causes cancel each other ``24.2 times``."""
    if fraction is None:
        return wording.NO_SHARE
    return _times(fraction) if MANY_TIMES <= abs(fraction) < _HUGE else _join(_PERCENT.plain(fraction), "%")


def signed_percent(fraction: float | None) -> str:
    """A relative change: ``-36.2%``, ``24.2 times``."""
    if fraction is None:
        return wording.NO_SHARE
    return _times(1.0 + fraction) if MANY <= fraction < _HUGE else _join(_PERCENT.signed(fraction), "%")


def changes(interval: Interval) -> str:
    """An interval of relative changes: ``-12.0% to +8.1%``, ``0.61 to 6.58 times``."""
    low, high = interval
    if MANY <= high < _HUGE:
        return said("{low} to {high} times", low=times(1.0 + low), high=times(1.0 + high))
    return said("{low} to {high}", low=signed_percent(low), high=signed_percent(high))


def _times(factor: float) -> str:
    text = times(abs(factor))
    return said("{count} times", count=f"-{text}" if factor < 0 else text)


def predicted(knob: Recommendation, metric: str) -> str:
    """What stands in brackets behind a prediction: its interval, and why it is not what the knob's cause costs."""
    bounds = level(changes(knob.predicted[metric].interval))
    return "; ".join(text for text in (bounds, knob.beside.get(metric, "")) if text)


def level(interval: str) -> str:
    """An interval with its level in front: ``95%: 35.4 to 37.0``."""
    return interval if interval == said(wording.NOT_KNOWN) else f"95%: {interval}"


def _join(number: str, unit: str) -> str:
    if number == said(wording.NOT_KNOWN) or not unit:
        return number
    return f"{number}{unit}" if unit == "%" else f"{number} {unit}"


def _fitting(units: tuple[tuple[float, str], ...], largest: float, default: tuple[float, str]) -> tuple[float, str]:
    if largest == 0.0:
        return default
    return next((unit for unit in units if largest >= unit[0]), units[-1])


def _fixed(value: float, decimals: int) -> str:
    if abs(value) >= _HUGE:
        return f"{value:.4g}"
    rounded = f"{value:,.{decimals}f}"
    return rounded.removeprefix("-") if not any(digit in "123456789" for digit in rounded) else rounded
