"""What a document keeps of a run, so that a later run can be compared with it when the run's folder is gone.

Times are seconds, rates per second. Single requests, steps, traces and scrapes are not kept.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class StoredFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact as ``profiler.model.fact`` has it: ``value`` keeps its type, for rules compare values."""

    value: Any
    source: str
    inferred: bool


class StoredLoad(msgspec.Struct, frozen=True, kw_only=True):
    """One benchmark result; repeats of a load are one each. ``path`` is the file in the run.

    ``request_rate`` is None for ``all_at_once``, and where the file does not say. ``metrics`` are those of the result
    document, and ``recomputed`` says that they came from records of single requests and not from the tool's summary.
    """

    path: str
    tool: str
    duration: float
    completed: int
    failed: int
    total_input_tokens: int
    total_output_tokens: int
    request_rate: float | None
    all_at_once: bool
    max_concurrency: int | None
    client_protocol: str | None
    recomputed: bool
    metrics: dict[str, float]
    metadata: dict[str, str] = {}


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """The run by its name. ``device`` None: no file said what it computed on."""

    run: str
    device: Literal["gpu", "cpu"] | None
    facts: dict[str, StoredFact]
    loads: tuple[StoredLoad, ...]
