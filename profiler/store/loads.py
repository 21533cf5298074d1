"""One result a load: what a tool wrote of one load in several files becomes one result.

Readers mark what belongs together in ``BenchResult.metadata``: the same ``load`` (or the same ``part`` and ``stage``)
is one load, told once as a summary and once as per-request records; a ``whole`` sums up the parts of the same name.
The records win, because everything is computed anew from them; they keep the tool's own summary beside them. Records
of fewer requests than the summary counts are a part of the load only: there the summary's counts stay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from profiler.model.problem import Problem
from profiler.model.requests import BenchResult


def one_a_load(benches: Sequence[BenchResult]) -> tuple[tuple[BenchResult, ...], tuple[Problem, ...]]:
    """The results with those of one load merged, in the order of the first of each, and what was decided."""
    groups: dict[object, list[BenchResult]] = {}
    for at, bench in enumerate(benches):
        marks = bench.metadata
        key: object = (marks.get("load"), marks.get("part"), marks.get("stage"))
        groups.setdefault(key if "load" in marks or "part" in marks else at, []).append(bench)
    kept: list[BenchResult] = []
    problems: list[Problem] = []
    for group in groups.values():
        merged, found = _merged(group)
        kept += merged
        problems += found
    return _without_wholes(kept, problems)


def _merged(group: Sequence[BenchResult]) -> tuple[Sequence[BenchResult], Sequence[Problem]]:
    tables = [bench for bench in group if bench.requests is not None]
    summaries = [bench for bench in group if bench.requests is None]
    if len(tables) > 1 or not summaries:
        return group, ()  # several records are several loads, whatever the folder's name
    told = max(summaries, key=lambda bench: (bench.completed > 0, len(bench.summary)))
    for other in summaries:
        told = replace(told, summary={**other.summary, **told.summary})
    if not tables:
        return (told,), ()
    (table,) = tables
    ran, counted = table.completed + table.failed, told.completed + told.failed
    if ran < counted:
        detail = (
            f"the records hold {ran} requests of the {counted} that {told.path} counts; the summary is used, "
            "the records are left out: put the whole file there"
        )
        return (told,), (Problem(table.path, "warning", detail),)
    known = math.isfinite(table.duration) and table.duration > 0
    one = replace(
        table,
        duration=table.duration if known else told.duration,
        total_input_tokens=table.total_input_tokens or told.total_input_tokens,
        total_output_tokens=table.total_output_tokens or told.total_output_tokens,
        request_rate=told.request_rate if table.request_rate is None else table.request_rate,
        max_concurrency=told.max_concurrency if table.max_concurrency is None else table.max_concurrency,
        model=table.model or told.model,
        ended=table.ended or told.ended,
        client_protocol=table.client_protocol or told.client_protocol,
        summary={**told.summary, **table.summary},
        metadata={**told.metadata, **table.metadata},
    )
    return (one,), (Problem(table.path, "info", f"describes the same load as {told.path}; the two are one result"),)


def _without_wholes(
    benches: Sequence[BenchResult], problems: Sequence[Problem]
) -> tuple[tuple[BenchResult, ...], tuple[Problem, ...]]:
    parts = [bench.metadata["part"] for bench in benches if "part" in bench.metadata]
    kept: list[BenchResult] = []
    found = list(problems)
    for bench in benches:
        staged = parts.count(bench.metadata.get("whole", ""))
        if not staged:
            kept.append(bench)
            continue
        detail = f"sums up {staged} stages whose own files are there; those are used, this one is not"
        found.append(Problem(bench.path, "info", detail))
    return tuple(kept), tuple(found)
