"""What lines of a server's log say beside steps: gauges at moments, requests with their tokens and times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from profiler.model.inspection import Figure, Section
from profiler.model.metrics import RUNNING_CHANGE
from profiler.model.steps import EngineLog, Readings

_GAUGES: Final[tuple[tuple[str, Section, str, str], ...]] = (
    ("running_requests", "batching", "requests running, where the log says", "requests"),
    ("waiting_requests", "batching", "requests waiting, where the log says", "requests"),
    ("kv_usage", "memory and cache", "KV cache in use, where the log says", "fraction"),
    ("prompt_store_usage", "memory and cache", "host memory for finished prompts in use", "fraction"),
)


def log_figures(log: EngineLog) -> tuple[Figure, ...]:
    """Figures of a log that has no steps; where it has, those say the same of every moment."""
    if len(log.steps):
        return ()
    rows: list[Figure] = []

    def add(section: Section, name: str, value: float, unit: str, detail: str) -> None:
        rows.append(Figure(section=section, name=name, value=value, unit=unit, detail=detail, source=log.path))

    for concept, section, name, unit in _GAUGES:
        told = log.readings.get(concept)
        if told is not None:
            highest = float(told.value.max())
            text = f"{highest:.1%}" if unit == "fraction" else f"{highest:,.0f}"
            add(section, name, float(told.value.mean()), unit, f"mean of {len(told.value):,} lines; at most {text}")
    busy = _busy(log.readings.get(RUNNING_CHANGE))
    if busy is not None:
        mean, most, seconds = busy
        add("batching", "requests running while any was", mean, "requests",
            f"at most {most:,}; in {seconds:,.3g} s between their first and last line")  # fmt: skip
    asked, cached = _sum(log.readings, "prompt_tokens"), _sum(log.readings, "cached_tokens")
    if asked and cached is not None:
        add(
            "memory and cache",
            "prompt tokens found in the prefix cache",
            cached / asked,
            "fraction",
            f"of {asked:,.0f}",
        )
    for seconds_of, tokens_of, name in (
        ("prefill_seconds", "computed_prompt_tokens", "a request's prompt time, by token"),
        ("decode_seconds", "generation_tokens", "a request's output time, by token"),
    ):
        spent, tokens = _sum(log.readings, seconds_of), _sum(log.readings, tokens_of)
        if spent is not None and tokens:
            requests = len(log.readings[seconds_of].value)
            add("batching", name, spent / tokens, "s",
                f"{tokens:,.0f} tokens of {requests:,} requests; of batches, each counts the whole time")  # fmt: skip
    return tuple(rows)


def _sum(readings: Mapping[str, Readings], concept: str) -> float | None:
    told = readings.get(concept)
    return None if told is None else float(told.value.sum())


def _busy(changes: Readings | None) -> tuple[float, int, float] | None:
    """(mean over the time in which any ran, most, that time in seconds); None without clocks or time."""
    if changes is None or not np.isfinite(changes.clock).all():
        return None
    # A log that begins under load shows ends of requests whose start it lacks.
    running = np.cumsum(changes.value)
    running -= min(float(running.min()), 0.0)
    lasted = np.diff(changes.clock)
    some = (running[:-1] > 0) & (lasted > 0)
    seconds = float(lasted[some].sum())
    if not seconds:
        return None
    return float((running[:-1] * lasted)[some].sum()) / seconds, int(running.max()), seconds
