"""Requests that a file states one by one, as a ``RequestTable``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from profiler.collectors.json_text import number
from profiler.model.problem import Problem
from profiler.model.requests import BenchResult, RequestTable


@dataclass(frozen=True, slots=True)
class Row:
    """One request in seconds and tokens; None where the file does not say. ``gaps`` are those between chunks."""

    start: float | None
    ttft: float | None
    e2e: float | None
    input_tokens: int | None
    output_tokens: int | None
    ok: bool
    gaps: Sequence[float] = ()


def table_of(rows: Sequence[Row], *, by_start: bool = True) -> RequestTable:
    """The rows in the order they were sent (in the file's order where a start is not known).

    Like everywhere, a failed request keeps its start and tokens and has no times.
    """
    ordered = list(rows)
    if by_start and all(row.start is not None for row in rows):
        ordered.sort(key=lambda row: row.start or 0.0)
    ok = np.array([row.ok for row in ordered], np.bool_)
    kept = [row.gaps if row.ok else () for row in ordered]
    return RequestTable(
        start=np.array([_real(row.start) for row in ordered], np.float64),
        ttft=np.where(ok, np.array([_real(row.ttft) for row in ordered], np.float64), np.nan),
        e2e=np.where(ok, np.array([_real(row.e2e) for row in ordered], np.float64), np.nan),
        input_tokens=np.array([_whole(row.input_tokens) for row in ordered], np.int64),
        output_tokens=np.array([_whole(row.output_tokens) for row in ordered], np.int64),
        ok=ok,
        itl=np.array([gap for gaps in kept for gap in gaps], np.float64),
        itl_offset=np.concatenate([[0], np.cumsum([len(gaps) for gaps in kept])]).astype(np.int64),
    )


def span_of(rows: Sequence[Row]) -> float:
    """Seconds from the first send to the end of the last request that succeeded; NaN where no start is known."""
    ends = [row.start + row.e2e for row in rows if row.ok and row.start is not None and row.e2e is not None]
    starts = [row.start for row in rows if row.start is not None]
    return max(ends) - min(starts) if ends else float("nan")


def totals(rows: Sequence[Row]) -> tuple[int, int]:
    """(input tokens, output tokens) of the requests that succeeded, as far as they are known."""
    served = [row for row in rows if row.ok]
    return sum(max(row.input_tokens or 0, 0) for row in served), sum(max(row.output_tokens or 0, 0) for row in served)


def result_of(tool: str, path: str, rows: Sequence[Row], metadata: Mapping[str, str]) -> BenchResult:
    """The load that these requests are; its sums are over those that succeeded."""
    failed = sum(not row.ok for row in rows)
    sizes = totals(rows)
    return BenchResult(
        path=path,
        tool=tool,
        duration=span_of(rows),
        completed=len(rows) - failed,
        failed=failed,
        total_input_tokens=sizes[0],
        total_output_tokens=sizes[1],
        requests=table_of(rows),
        metadata=metadata,
    )


def failures(path: str, rows: Sequence[Row], place: str | None = None) -> tuple[Problem, ...]:
    """One warning that counts the failed requests; none where all succeeded."""
    failed = sum(not row.ok for row in rows)
    return (Problem(path, "warning", f"{failed} of {len(rows)} requests failed", place),) if failed else ()


def nanoseconds(value: object) -> int | None:
    """A time stamp in whole ns: as a float, one since the epoch would be off by up to 128 ns."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) < 2**63 else None
    found = number(value)
    return None if found is None or not abs(found) < 2**63 else int(found)


def _real(value: float | None) -> float:
    return float("nan") if value is None else value


def _whole(value: int | None) -> int:
    return -1 if value is None else value
