"""Metrics written as ``{"unit": "ms", "avg": …, "p99": …}`` or as a distribution: converted to seconds by our names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from profiler.collectors.json_text import mapping, number, string

SCALES: Final = {
    "s": 1.0,
    "sec": 1.0,
    "seconds": 1.0,
    "ms": 1e3,
    "milliseconds": 1e3,
    "us": 1e6,
    "µs": 1e6,
    "microseconds": 1e6,
    "ns": 1e9,
    "nanoseconds": 1e9,
}
STATISTICS: Final = {
    "avg": "mean",
    "mean": "mean",
    "average": "mean",
    "median": "median",
    "p50": "median",
    "std": "std",
    "stddev": "std",
    "std_dev": "std",
    "min": "min",
    "minimum": "min",
    "max": "max",
    "maximum": "max",
    "p001": "p0.1",
    "p999": "p99.9",
}
_PERCENTILE: Final = re.compile(r"(?:p|quantiles_p)(\d{1,2})(?:[.p](\d{1,3}))?")


def statistic(key: str) -> str | None:
    """``avg`` is mean, ``p50`` median, ``p99`` p99, ``p99p9`` p99.9; None for what is no statistic."""
    if key in STATISTICS:
        return STATISTICS[key]
    match = _PERCENTILE.fullmatch(key)
    if match is None:
        return None
    rank = int(match[1])
    if rank == 50 and match[2] is None:
        return "median"
    return f"p{rank}" if match[2] is None else f"p{rank}.{match[2]}"


def per_unit(unit: object) -> float | None:
    """How many of the unit make a second (``ms/token`` counts like ``ms``), or None where it is no time."""
    text = string(unit)
    return None if text is None else SCALES.get(text.split("/")[0].strip().lower())


def distribution(values: Mapping[str, object], name: str, per_second: float) -> dict[str, float]:
    """``mean_<name>``, ``p99_<name>`` … in seconds; a name with a dot stands before: ``<name>.mean``."""
    found: dict[str, float] = {}
    for key, raw in values.items():
        kind, value = statistic(key), number(raw)
        if kind is not None and value is not None and abs(value) != float("inf"):
            found[f"{name}.{kind}" if "." in name else f"{kind}_{name}"] = value / per_second
    return found


def timed(record: Mapping[str, object], names: Mapping[str, str]) -> dict[str, float]:
    """Every metric of ``names`` that has a unit of time, its statistics in seconds."""
    found: dict[str, float] = {}
    for key, name in names.items():
        values = mapping(record.get(key))
        scale = per_unit(values.get("unit", values.get("units")))
        if scale is not None:
            found |= distribution(values, name, scale)
    return found


def average(record: Mapping[str, object], key: str) -> float | None:
    """The ``avg`` of a metric, which for a total is the total itself."""
    values = mapping(record.get(key))
    return number(values.get("avg", values.get("mean")))
