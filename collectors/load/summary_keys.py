"""A benchmark tool's own summary by our metric names: seconds and per second instead of milliseconds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from profiler.collectors.json_text import number
from profiler.collectors.redaction import redact

_LATENCY: Final = re.compile(r"(mean|median|std|min|max|p\d{1,2}(?:\.\d+)?)_(ttft|tpot|itl|e2el|e2e_latency|e2e)_ms")
_NAMES: Final = {"e2el": "e2e", "e2e_latency": "e2e"}
RATES: Final = {
    "request_throughput": "request_throughput",
    "output_throughput": "output_throughput",
    "input_throughput": "input_throughput",
    "total_token_throughput": "total_token_throughput",
    "total_throughput": "total_token_throughput",
    "request_goodput": "request_goodput",
    "request_goodput:": "request_goodput",  # the colon stands in files of 0.6 to 0.8
}


def summary(record: Mapping[str, object]) -> dict[str, float]:
    """``mean_ttft_ms`` of 210.0 becomes ``mean_ttft`` of 0.21; rates keep their name. Infinite values are left out."""
    found: dict[str, float] = {}
    for key, raw in record.items():
        value = number(raw)
        if value is None or not math.isfinite(value):
            continue
        latency = _LATENCY.fullmatch(key)
        if latency is not None:
            found[f"{latency[1]}_{_NAMES.get(latency[2], latency[2])}"] = value / 1e3
        elif key in RATES:
            found[RATES[key]] = value
    return found


def metadata(record: Mapping[str, object], known: frozenset[str]) -> dict[str, str]:
    """Everything else that a file states in single values, as text and without secrets."""
    found: dict[str, str] = {}
    for key, value in record.items():
        plain = isinstance(value, str | int | float | bool) and value != ""
        if plain and key not in known and key not in RATES and _LATENCY.fullmatch(key) is None:
            found[str(redact(key))] = str(redact(value, key))[:500]
    return found
