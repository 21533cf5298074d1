"""Two runs in, the rules of a fair comparison out: what ``profiler check`` prints."""

from __future__ import annotations

from collections.abc import Sequence

from profiler.analyzers.diagnosis import matching
from profiler.analyzers.fairness import rules
from profiler.analyzers.metrics import metrics_of
from profiler.analyzers.repeats import repeats_of, typical
from profiler.analyzers.run_names import told_apart
from profiler.analyzers.run_summary import problems_of, summary_of
from profiler.model.check import SCHEMA, Check
from profiler.model.diagnosis import FairnessRule
from profiler.model.run import Run


def check(run_a: Run, run_b: Run) -> Check:
    """Every rule over the pair of loads that ``diagnose`` would compare; what of a run has no benchmark is unknown."""
    run_a, run_b = told_apart((run_a, run_b))
    pair = matching(run_a.benches, run_b.benches)
    benches = [
        None if bench is None else typical(repeats_of(run.benches, bench), bench)
        for run, bench in zip((run_a, run_b), pair, strict=True)
    ]
    found = rules.check(run_a, run_b, *benches)
    comparable, headline = _outcome(found, run_a.name, run_b.name)
    return Check(
        schema=SCHEMA,
        runs=tuple(
            summary_of(run, {} if bench is None else metrics_of(bench))
            for run, bench in zip((run_a, run_b), benches, strict=True)
        ),
        comparable=comparable,
        headline=headline,
        fairness=found,
        problems=(*problems_of(run_a), *problems_of(run_b)),
    )


def _outcome(found: Sequence[FairnessRule], a: str, b: str) -> tuple[bool | None, str]:
    warnings = sum(rule.severity == "warn" and rule.status == "fail" for rule in found)
    beside = f", {warnings} warning{'s' if warnings != 1 else ''}" if warnings else ""
    blocking = [rule for rule in found if rule.severity == "block"]
    broken = [rule.rule for rule in blocking if rule.status == "fail"]
    if broken:
        return False, f"{a} and {b} are not comparable: {', '.join(broken)} failed{beside}."
    unsure = [rule.rule for rule in blocking if rule.status == "unknown"]
    if unsure:
        return (
            None,
            f"Nothing that was checked forbids comparing {a} and {b}; {len(unsure)} blocking rules could not "
            f"be checked for want of data{beside}.",
        )
    return True, f"{a} and {b} are comparable{beside}."
