"""The time stamps that servers print at the start of a log line."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Final

_EPOCH: Final = date(1970, 1, 1).toordinal()


def stamp(fields: Iterable[int | str], fraction: str | None = None) -> float | None:
    """(year, month, day, hour, minute, second) as seconds since the epoch, local time read as UTC; None for no date.

    ``fraction`` is the digits after the point. A day too many for its month counts on into the next: a damaged
    line must not end the reading of a log.
    """
    year, month, day, hour, minute, second = map(int, fields)
    if not (1970 <= year <= 2200 and 1 <= month <= 12 and 1 <= day <= 31):
        return None
    days = date(year, month, 1).toordinal() - _EPOCH + day - 1
    whole = ((days * 24 + hour) * 60 + minute) * 60 + second
    return whole + float(f"0.{fraction or 0}")
