"""Per-request arrays of a benchmark file as a ``RequestTable``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from profiler.collectors.json_text import column, number
from profiler.collectors.load.answer_texts import outputs_of
from profiler.model.problem import Problem
from profiler.model.requests import Floats, Ints, RequestTable


def request_table(record: Mapping[str, object], path: str, place: str) -> tuple[RequestTable | None, list[Problem]]:
    """The table of ``ttfts``, ``itls``, ``input_lens``, ``output_lens``, ``errors``, ``start_times``, ``latencies``
    (seconds, tokens), or None where the file has no such arrays. ``latencies``, ``start_times``, ``queue_times`` (from
    due to sent) and ``generated_texts`` are optional.

    A request failed where it has an error text or no output; its TTFT and end-to-end time are not a number.
    """
    raw = record.get("ttfts")
    if not isinstance(raw, list) or not raw:
        return None, []
    n = len(raw)
    lengths = {
        key: len(value)
        for key in ("ttfts", "itls", "input_lens", "output_lens", "errors", "latencies")
        if isinstance(value := record.get(key), list)
    }
    problems: list[Problem] = []
    if any(lengths.get(key, n) != n for key in ("itls", "input_lens", "output_lens")):
        seen = ", ".join(f"{key} {size}" for key, size in lengths.items())
        detail = f"the per-request arrays differ in length ({seen}); they were left out, only the summary was read"
        return None, [Problem(path, "error", detail, place)]
    outputs = column(record.get("output_lens"), n)
    if outputs is None:
        detail = "ttfts without output_lens: which token counts belong to a request is unknown, so they were left out"
        return None, [Problem(path, "warning", detail, place)]
    ttft = column(raw, n)
    assert ttft is not None
    gaps, offset = _gaps(record.get("itls"), n)
    errors = record.get("errors")
    failed = np.zeros(n, np.bool_)
    if isinstance(errors, list) and len(errors) == n:
        failed = np.array([bool(error) for error in errors], np.bool_)
    ok = ~failed & (np.nan_to_num(outputs) > 0) & np.isfinite(ttft)
    e2e = column(record.get("latencies"), n)
    if e2e is None:
        sums = np.add.reduceat(np.append(gaps, 0.0), offset[:-1]) if n else np.zeros(0)
        e2e = ttft + np.where(np.diff(offset) > 0, sums, 0.0)
        if "itls" not in lengths:
            e2e = np.full(n, np.nan)
    start = column(record.get("start_times"), n)
    queued = record.get("queue_times")
    table = RequestTable(
        start=np.full(n, np.nan) if start is None else start,
        ttft=np.where(ok, ttft, np.nan),
        e2e=np.where(ok, e2e, np.nan),
        input_tokens=_whole(record.get("input_lens"), n),
        output_tokens=_whole(record.get("output_lens"), n),
        ok=ok,
        itl=gaps,
        itl_offset=offset,
        late=column(queued, n) if isinstance(queued, list) and len(queued) == n else None,
        outputs=outputs_of(record.get("generated_texts"), n),
    )
    return table, problems


def _gaps(itls: object, n: int) -> tuple[Floats, Ints]:
    """The gaps of all requests, flat, and where each request's begin."""
    quick = _plain_gaps(itls)
    if quick is not None:
        return quick
    flat: list[float] = []
    ends = np.zeros(n + 1, np.int64)
    if isinstance(itls, Sequence) and not isinstance(itls, str):
        for row, own in enumerate(itls):
            if isinstance(own, list):
                flat.extend(gap for gap in map(number, own) if gap is not None)
            ends[row + 1] = len(flat)
    return np.array(flat, np.float64), ends


def _plain_gaps(itls: object) -> tuple[Floats, Ints] | None:
    """The same where every value is a plain number, as in nearly all files; None where each has to be looked at."""
    if not isinstance(itls, list) or set(map(type, itls)) != {list}:
        return None
    if not set(map(type, chain.from_iterable(itls))) <= {float}:
        return None
    ends = np.concatenate([[0], np.cumsum([len(own) for own in itls])])
    flat = np.fromiter(chain.from_iterable(itls), np.float64, int(ends[-1]))
    return None if np.isnan(flat).any() else (flat, ends)


def _whole(values: object, n: int) -> Ints:
    found = column(values, n)
    if found is None:
        return np.full(n, -1, np.int64)
    bounded = np.where(np.isfinite(found) & (np.abs(found) < 2**62), found, -1)
    return bounded.astype(np.int64)
