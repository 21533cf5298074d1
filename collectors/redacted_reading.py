"""The last look before a reading is kept or shown: every text in it once more without secrets, whoever wrote it.

Readers redact what they know to be settings, commands and labels. A key can stand anywhere else too: in the name of a
range that a program marked, in a model's path, in a field that a tool added last week. Paths of the run's own files
stay as they are, because they are where the user finds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from profiler.collectors.redaction import redact, redact_text
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.requests import BenchResult
from profiler.model.run import Reading
from profiler.model.stacks import StackTable
from profiler.model.steps import EngineLog
from profiler.model.trace import Trace


def redacted(reading: Reading) -> Reading:
    """The same reading with every text redacted; names of facts, settings and metadata decide about their values."""
    return replace(
        reading,
        traces=tuple(_trace(trace) for trace in reading.traces),
        benches=tuple(_bench(bench) for bench in reading.benches),
        snapshots=tuple(replace(s, settings=_texts(s.settings)) for s in reading.snapshots),
        logs=tuple(_log(log) for log in reading.logs),
        stacks=tuple(_stacks(table) for table in reading.stacks),
        totals=tuple(replace(table, names=_each(table.names)) for table in reading.totals),
        facts=_facts(reading.facts),
        problems=tuple(_problem(problem) for problem in reading.problems),
    )


def _each(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(redact_text(text) for text in texts)


def _texts(pairs: Mapping[str, str]) -> dict[str, str]:
    return {redact_text(key): str(redact(value, key)) for key, value in pairs.items()}


def _optional(text: str | None) -> str | None:
    return None if text is None else redact_text(text)


def _facts(facts: Mapping[str, Fact[object]]) -> dict[str, Fact[object]]:
    return {
        key: replace(fact, value=redact(fact.value, key), source=redact_text(fact.source))
        for key, fact in facts.items()
    }


def _trace(trace: Trace) -> Trace:
    return replace(
        trace,
        names=_each(trace.names),
        processes=_each(trace.processes),
        threads=_each(trace.threads),
        devices=tuple(replace(device, name=_optional(device.name)) for device in trace.devices),
        metadata=_texts(trace.metadata),
    )


def _bench(bench: BenchResult) -> BenchResult:
    return replace(
        bench,
        tool=redact_text(bench.tool),
        model=_optional(bench.model),
        ended=_optional(bench.ended),
        client_protocol=_optional(bench.client_protocol),
        summary={redact_text(key): value for key, value in bench.summary.items()},
        metadata=_texts(bench.metadata),
    )


def _log(log: EngineLog) -> EngineLog:
    return replace(
        log, settings=_facts(log.settings), events={redact_text(key): count for key, count in log.events.items()}
    )


def _stacks(table: StackTable) -> StackTable:
    return replace(
        table,
        tool=redact_text(table.tool),
        frames=_each(table.frames),
        processes=_each(table.processes),
        threads=_each(table.threads),
    )


def _problem(problem: Problem) -> Problem:
    return replace(problem, detail=redact_text(problem.detail), place=_optional(problem.place))
