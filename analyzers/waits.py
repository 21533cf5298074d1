"""Where the device waited, gap by gap, each with all of its causes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from profiler.analyzers.device_view import DeviceView
from profiler.analyzers.idle import BETWEEN_PREFIX, Gaps
from profiler.model.requests import Ints

_UNKNOWN: Final = "not known"
_NOTABLE: Final = 0.1


@dataclass(frozen=True)
class Wait:
    """An idle interval of a device, ns on the trace's clock, with the nanoseconds of each of its causes."""

    start: int
    end: int
    causes: Mapping[str, float]

    @property
    def largest(self) -> str:
        """The cause that filled most of it."""
        return max(self.causes, key=lambda cause: self.causes[cause])

    @property
    def told(self) -> str:
        """Every cause that filled a notable share of it, largest first."""
        whole = sum(self.causes.values())
        order = sorted(self.causes, key=lambda cause: -self.causes[cause])
        shown = [cause for cause in order if self.causes[cause] >= _NOTABLE * whole]
        if len(shown) > 1 and all(cause.startswith(BETWEEN_PREFIX) for cause in shown):
            return BETWEEN_PREFIX + ", ".join(cause.removeprefix(BETWEEN_PREFIX) for cause in shown)
        return ", ".join(shown)


def waits(view: DeviceView, start: int, end: int) -> list[Wait]:
    """The gaps that reach into [start, end), in order and whole."""
    swept = view.swept
    inside = np.flatnonzero((swept.gap_end > start) & (swept.gap_start < end))
    after = np.searchsorted(view.events.start, swept.gap_end[inside])
    causes = _by_event(view.gaps, after)
    return [
        Wait(int(swept.gap_start[gap]), int(swept.gap_end[gap]), causes.get(event, {_UNKNOWN: 0.0}))
        for gap, event in zip(inside.tolist(), after.tolist(), strict=True)
    ]


def _by_event(gaps: Gaps, events: Ints) -> dict[int, dict[str, float]]:
    """The causes of the gaps that ``events`` end."""
    rows = np.flatnonzero(np.isin(gaps.event, events))
    columns = (gaps.event[rows], gaps.code[rows], gaps.nanoseconds[rows])
    found: dict[int, dict[str, float]] = {}
    for event, code, ns in zip(*(column.tolist() for column in columns), strict=True):
        row = found.setdefault(event, {})
        cause = gaps.causes[code]
        row[cause] = row.get(cause, 0.0) + ns
    return found
