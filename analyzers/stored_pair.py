"""A run against a baseline that a document keeps: metrics and settings, no causes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from profiler.analyzers.baseline import NotStoredError, baseline_of, device_of, facts_of, run_of, without_records
from profiler.analyzers.diagnosis import matching
from profiler.analyzers.fairness.rule import Rule
from profiler.analyzers.fairness.rules import RULES
from profiler.analyzers.fairness.side import Side
from profiler.analyzers.gap import spread
from profiler.analyzers.gap.ledgers import DEFAULT_METRICS
from profiler.analyzers.gap.spread import Spread
from profiler.analyzers.metrics import higher_is_better, metrics_of, unit_of
from profiler.analyzers.repeats import log_values, repeats_of, typical
from profiler.analyzers.run_summary import problems_of, summary_of
from profiler.analyzers.verdict import verdict_of, winner_of
from profiler.model.diagnosis import SCHEMA, Additive, Diagnosis, FairnessRule, Gap, Unexplained
from profiler.model.requests import BenchResult
from profiler.model.run import Run
from profiler.store.documents import StoredBaseline

_ONLY_METRICS: Final = "a stored document holds no steps or traces: causes are not known"
_KEEP: Final = "keep the run's folder for what a document does not hold"


def against(stored: StoredBaseline, run: Run, metrics: Sequence[str] = DEFAULT_METRICS) -> Diagnosis:
    """Compare B, a run, with A, a stored baseline: every gap whole, with the interval of the spread between starts."""
    kept = stored.baseline
    name = kept.run if kept.run != run.name else f"{kept.run} (stored)"
    before = run_of(kept, stored.path, name)
    bench_a, bench_b = matching(before.benches, run.benches)
    assert bench_a is not None  # a baseline without a result is refused on reading
    repeats_a = repeats_of(before.benches, bench_a)
    bench_a = typical(repeats_a, bench_a)
    values_a: dict[str, float] = metrics_of(bench_a)
    values_b: dict[str, float] = {}
    missing = [_told(stored, name)]
    method: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()
    repeats_b: tuple[BenchResult, ...] = ()
    if bench_b is None:
        missing.append(f"{run.name} holds no benchmark result: its throughput and latencies are not known")
    else:
        repeats_b = repeats_of(run.benches, bench_b)
        bench_b = typical(repeats_b, bench_b)
        values_b = metrics_of(bench_b)
        device = device_of(run)
        known = [[metrics_of(bench) for bench in repeats] for repeats in (repeats_a, repeats_b)]

        def noise(metric: str) -> Spread:
            logs = log_values(known[0], metric), log_values(known[1], metric)
            return spread.between(*logs, kept.device, device, metric)

        wanted = [metric for metric in metrics if metric in values_a and metric in values_b]
        gaps = tuple(_gap(metric, values_a[metric], values_b[metric], noise(metric).deviation) for metric in wanted)
        method = (
            "Metrics of a stored document and of a run are compared; an interval is the spread between starts alone.",
            noise("output_throughput").told,
        )
    baseline = baseline_of(run)
    # Facts are compared as documents write them: a tuple is a list there.
    newer = Side(run if baseline is None else replace(run, facts=facts_of(baseline)), bench_b)
    bare = without_records(before)
    olds = Side(before, bench_a), Side(bare, bare.benches[before.benches.index(bench_a)])
    rules = tuple(_judged(rule, *olds, newer) for rule in RULES)
    runs = summary_of(before, values_a, len(repeats_a)), summary_of(run, values_b, max(len(repeats_b), 1))
    return Diagnosis(
        schema=SCHEMA,
        runs=runs,
        verdict=verdict_of(gaps, rules, runs, missing, ()),
        gaps=gaps,
        fairness=rules,
        recommendations=(),
        problems=problems_of(run),
        missing=tuple(missing),
        method=method,
        baseline=baseline,
    )


def _told(stored: StoredBaseline, name: str) -> str:
    place = "the newer run of the stored diagnosis" if stored.diagnosed else "the run of the stored inspection"
    return f"{name} is {place} {stored.path}: it holds no steps or traces, so causes are not known; {_KEEP}"


def _gap(metric: str, a: float, b: float, deviation: float) -> Gap:
    gap = b - a
    half = spread.NORMAL_95 * deviation * 0.5 * (a + b)
    interval = (gap - half, gap + half)
    higher = higher_is_better(metric)
    additive = None
    if metric == "output_throughput" and min(a, b) > 0:
        additive = Additive(a=1 / a, b=1 / b, gap=1 / b - 1 / a, factor=-a * b)
    return Gap(
        metric=metric,
        unit=unit_of(metric),
        higher_is_better=higher,
        a=a,
        b=b,
        gap=gap,
        relative=gap / a if a else None,
        interval=interval,
        winner=winner_of(gap, interval, higher),
        causes=(),
        unexplained=Unexplained(gap=gap, share=1.0 if gap else None, summary=_ONLY_METRICS),
        seconds_per_output_token=additive,
    )


def _judged(rule: Rule, a: Side, bare: Side, b: Side) -> FairnessRule:
    """The rule's answer; where it asks the stored side for what no document keeps, what B alone breaks, else unknown.

    ``bare`` is A once more, which says so of records too: what a rule leaves open for want of them was not kept, and
    need not have been missing.
    """
    try:
        found = rule.over(a, b)
        return rule.over(bare, b) if found.status == "unknown" else found
    except NotStoredError as lacking:
        return _broken_by(rule, b) or FairnessRule(
            rule=rule.name,
            status="unknown",
            severity=rule.severity,
            detail=f"a stored document holds no {lacking}",
            fix=_KEEP,
        )


def _broken_by(rule: Rule, b: Side) -> FairnessRule | None:
    """The rule's answer where a run fails it beside itself: then nothing of the other side can mend it."""
    found = rule.over(b, b)
    if found.status != "fail":
        return None
    clauses = found.detail.split("; ")
    once = [one for i, one in enumerate(clauses) if not any(later.startswith(one) for later in clauses[i + 1 :])]
    shown = tuple(structs.replace(item, a=None) for item in found.evidence)
    return structs.replace(found, detail="; ".join(once), evidence=shown)
