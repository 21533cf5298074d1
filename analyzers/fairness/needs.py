"""What a rule needs of both runs: the two values, or the answer where a run lacks it."""

from __future__ import annotations

from profiler.analyzers.fairness.rule import Finding, inapplicable, unknown
from profiler.analyzers.fairness.side import Side
from profiler.model.requests import BenchResult, RequestTable


def benches(a: Side, b: Side) -> tuple[BenchResult, BenchResult] | Finding:
    """Both measured loads."""
    if a.bench is not None and b.bench is not None:
        return a.bench, b.bench
    missing = " and ".join(side.run.name for side in (a, b) if side.bench is None)
    return unknown(f"no benchmark result in {missing}", fix="add the load generator's result file")


def tables(a: Side, b: Side) -> tuple[RequestTable, RequestTable] | Finding:
    """Both loads' per-request records."""
    loads = benches(a, b)
    if isinstance(loads, Finding):
        return loads
    if loads[0].requests is not None and loads[1].requests is not None:
        return loads[0].requests, loads[1].requests
    missing = " and ".join(side.run.name for side in (a, b) if side.requests is None)
    return unknown(
        f"no per-request records in {missing}", fix="save detailed results (--save-detailed, --output-details)"
    )


def streams(a: Side, b: Side) -> tuple[RequestTable, RequestTable] | Finding:
    """Both loads' records, with the gaps between streamed chunks."""
    found = tables(a, b)
    if isinstance(found, Finding) or (len(found[0].itl) and len(found[1].itl)):
        return found
    missing = " and ".join(side.run.name for side, table in zip((a, b), found, strict=True) if not len(table.itl))
    return unknown(f"no gaps between chunks in {missing}", fix="save detailed results of a streaming client")


def two_engines(a: Side, b: Side) -> Finding | None:
    """The answer of a rule about two engines' tuning where it is one engine whose settings are compared."""
    one, two = a.fact("engine.name"), b.fact("engine.name")
    if one is None or one != two:
        return None
    return inapplicable("one engine: its settings are what is compared")
