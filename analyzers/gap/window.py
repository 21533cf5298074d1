"""Which lines of a server's log belong to the measured load: a log outlives a benchmark, and clocks differ.

The tokens decide: the measured load's steps generated a known number of tokens. Where the whole log adds up to it, all
of it is the load; else the stretch that adds up exactly and ends when the client says it ended; else the client's own
time window, marked as approximate. Of engines that served one load side by side the tokens of all logs are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import numpy as np

from profiler.model.requests import BenchResult
from profiler.model.steps import StepTable

# A log line is stamped in whole seconds, the client's end likewise.
CLOCK_SLACK: Final = 3.0
DAY: Final = 86_400.0
TOLERANCE: Final = 0.02


@dataclass(frozen=True)
class Window:
    """The steps of the measured load; ``exact`` where the token counts agree."""

    steps: StepTable
    exact: bool
    how: str


def measured_window(steps: StepTable, bench: BenchResult, every_step: bool) -> Window | None:
    """The stretch of ``steps`` that the benchmark measured, or None where nothing ties the log to it."""
    if not len(steps):
        return None
    whole, ended = _whole(steps, bench, every_step), _clock(bench.ended)
    if whole is not None:
        return whole
    expected = bench.total_output_tokens - bench.completed
    if every_step and expected > 0:
        found = _by_tokens(steps, expected, bench, ended)
        if found is not None:
            return found
    return _timed(steps, bench, ended)


def shared_window(tables: Sequence[StepTable], bench: BenchResult, every_step: bool) -> Window | None:
    """The same of several engines' steps: those of one follow those of the other, so no stretch of them is a load."""
    steps = StepTable.joined([table for table in tables if len(table)] or list(tables))
    if not len(steps):
        return None
    return _whole(steps, bench, every_step) or _timed(steps, bench, _clock(bench.ended))


def _whole(steps: StepTable, bench: BenchResult, every_step: bool) -> Window | None:
    expected = bench.total_output_tokens - bench.completed
    decoded = np.cumsum(np.maximum(steps.decode_tokens, 0))
    prompts = float(np.maximum(steps.prefill_tokens, 0).sum() + np.maximum(steps.cached_tokens, 0).sum())
    if every_step and abs(int(decoded[-1]) - expected) <= TOLERANCE * max(expected, 1):
        return Window(steps, True, "the whole log: its tokens add up to the load's")
    if not every_step and abs(prompts - bench.total_input_tokens) <= TOLERANCE * max(bench.total_input_tokens, 1):
        return Window(steps, True, "the whole log: its prompt tokens add up to the load's")
    return None


def _timed(steps: StepTable, bench: BenchResult, ended: float | None) -> Window | None:
    if ended is None or not np.isfinite(steps.clock).any():
        return None
    since_end = (steps.clock - ended + DAY / 2) % DAY - DAY / 2
    inside = (since_end >= -bench.duration - 1.0) & (since_end <= 1.0)
    if not inside.any():
        return None
    return Window(steps.select(inside), False, "lines within the client's time window, to the second")


def _by_tokens(steps: StepTable, expected: int, bench: BenchResult, ended: float | None) -> Window | None:
    before = np.concatenate([[0], np.cumsum(np.maximum(steps.decode_tokens, 0))])
    # A load starts on an idle engine: the first of the steps that only prefill.
    fresh = (steps.decode_requests == 0) & (steps.prefill_requests > 0)
    starts = np.flatnonzero(fresh & ~np.concatenate([[False], fresh[:-1]]))
    best: tuple[tuple[float, float, float], int, int] | None = None
    for start in starts.tolist():
        end = int(np.searchsorted(before, before[start] + expected))
        if end > len(steps) or before[end] - before[start] != expected:
            continue
        seconds = float(np.nansum(steps.seconds[start:end]))
        if seconds > 1.02 * bench.duration:
            continue
        late = 0.0
        if ended is not None and np.isfinite(steps.clock[end - 1]):
            late = abs((steps.clock[end - 1] - ended + DAY / 2) % DAY - DAY / 2)
            if late > CLOCK_SLACK:
                continue
        # Only preemption computes more prompt tokens than were asked for; another load's are likelier.
        prompts = float(np.maximum(steps.prefill_tokens[start:end], 0).sum())
        rank = (late, max(prompts - bench.total_input_tokens, 0.0), bench.duration - seconds)
        if best is None or rank < best[0]:
            best = (rank, start, end)
    if best is None:
        return None
    return Window(steps.select(slice(best[1], best[2])), True, "the stretch whose tokens add up to the load's")


def _clock(ended: str | None) -> float | None:
    if ended is None:
        return None
    try:
        return datetime.strptime(ended, "%Y%m%d-%H%M%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
