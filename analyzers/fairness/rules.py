"""The rules of a fair comparison, one table; docs/fairness.md says what each asks, and from which number.

A failed blocking rule withholds the verdict. Where a difference is small against the gap, or one that the diagnosis
accounts for as a cause of it, it is a warning instead. What is not known is never a pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from profiler.analyzers.device import DeviceAccount
from profiler.analyzers.fairness import (
    client,
    conditions,
    measuring,
    model,
    quality,
    releases,
    results,
    streaming,
    tuning,
    work,
)
from profiler.analyzers.fairness.rule import Rule
from profiler.analyzers.fairness.side import Side
from profiler.model.diagnosis import FairnessRule
from profiler.model.requests import BenchResult
from profiler.model.run import Run

RULES: Final[tuple[Rule, ...]] = (
    *model.RULES,
    *work.RULES,
    *conditions.RULES,
    *measuring.RULES,
    *tuning.RULES,
    *releases.RULES,
    *client.RULES,
    *streaming.RULES,
    *results.RULES,
    *quality.RULES,
)


def check(
    run_a: Run,
    run_b: Run,
    bench_a: BenchResult | None,
    bench_b: BenchResult | None,
    *,
    known: Sequence[tuple[DeviceAccount, ...] | None] = (None, None),
) -> tuple[FairnessRule, ...]:
    """Every rule over the two loads that are compared, in the order of the table. ``known``: the accounts of each
    run's traces, where they were made before."""
    a, b = Side(run_a, bench_a, known[0]), Side(run_b, bench_b, known[1])
    return tuple(rule.over(a, b) for rule in RULES)
