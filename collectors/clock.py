"""The time stamps that servers print at the start of a log line."""

from __future__ import annotations

import calendar
from collections.abc import Iterable


def stamp(fields: Iterable[int | str], fraction: str | None = None) -> float | None:
    """(year, month, day, hour, minute, second) as seconds since the epoch, local time read as UTC; None for no date.

    ``fraction`` is the digits after the point. A day too many for its month counts on into the next: a damaged
    line must not end the reading of a log.
    """
    year, month, day, hour, minute, second = map(int, fields)
    if not (1970 <= year <= 2200 and 1 <= month <= 12 and 1 <= day <= 31):
        return None
    whole = calendar.timegm((year, month, 1, hour, minute, second)) + (day - 1) * 86400
    return whole + float(f"0.{fraction or 0}")
