"""A run as the documents name it: its engine, its metrics, what is known of it, and the problems of its files."""

from __future__ import annotations

from collections.abc import Mapping

from profiler.analyzers.identity import engine_of
from profiler.model.diagnosis import RunSummary
from profiler.model.document import DocumentProblem
from profiler.model.problem import Problem
from profiler.model.run import Run


def summary_of(run: Run, values: Mapping[str, float], repeats: int = 1) -> RunSummary:
    """A run as the documents name it, with its metrics and the number of results of their load."""
    facts = {key: str(fact.value) for key, fact in sorted(run.facts.items()) if key != "engine.command"}
    return RunSummary(
        name=run.name,
        path=run.path,
        engine=engine_of(run),
        metrics=dict(values),
        facts=facts,
        simulated=run.fact("simulated") is True,
        repeats=repeats,
    )


def problems_of(run: Run) -> tuple[DocumentProblem, ...]:
    """A run's problems as the document writes them."""
    return tuple(_problem(run.name, problem) for problem in run.problems)


def _problem(run: str, problem: Problem) -> DocumentProblem:
    return DocumentProblem(
        run=run,
        file=problem.file,
        severity=problem.severity,
        detail=problem.detail,
        place=problem.place,
        count=problem.count,
    )
