"""Rows of a tool's summary -> ``CallTotals``: equal names (of several ranks or grids) become one row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from profiler.model.totals import CallTotals, What

MOST_NS = 2**62


@dataclass(frozen=True, slots=True)
class TotalRow:
    """One row; times in ns, None where the table does not say."""

    name: str
    calls: int | None
    total: int
    shortest: int | None = None
    longest: int | None = None


def totals_of(path: str, tool: str, what: What, rows: Iterable[TotalRow]) -> CallTotals:
    """The table, largest total first; rows whose numbers can't be true must have been left out."""
    merged: dict[str, TotalRow] = {}
    for row in rows:
        known = merged.get(row.name)
        merged[row.name] = row if known is None else _together(known, row)
    kept = sorted(merged.values(), key=lambda row: -row.total)

    def column(values: Iterable[int | None]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array([-1 if value is None else value for value in values], np.int64)

    return CallTotals(
        path=path,
        tool=tool,
        what=what,
        names=tuple(row.name for row in kept),
        calls=column(row.calls for row in kept),
        total=column(row.total for row in kept),
        shortest=column(row.shortest for row in kept),
        longest=column(row.longest for row in kept),
    )


def nanoseconds(text: str, unit: int = 1) -> int | None:
    """A duration or time stamp that is written in units of ``unit`` ns; None where it is no number that can be true."""
    try:
        found = int(text) * unit
    except ValueError:
        try:
            found = round(float(text) * unit)
        except (ValueError, OverflowError):
            return None
    return found if 0 <= found < MOST_NS else None


def _together(one: TotalRow, other: TotalRow) -> TotalRow:
    calls = None if one.calls is None or other.calls is None else one.calls + other.calls
    shortest = None if one.shortest is None or other.shortest is None else min(one.shortest, other.shortest)
    longest = None if one.longest is None or other.longest is None else max(one.longest, other.longest)
    return TotalRow(one.name, calls, min(one.total + other.total, MOST_NS), shortest, longest)
