"""A run: the evidence of one engine under one load, whatever files it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from profiler.model.counters import GpuCounters
from profiler.model.fact import Fact
from profiler.model.metrics import ComponentSnapshot, MetricsSnapshot
from profiler.model.problem import Problem
from profiler.model.requests import BenchResult
from profiler.model.stacks import StackTable
from profiler.model.steps import EngineLog
from profiler.model.totals import CallTotals
from profiler.model.trace import Trace


@dataclass(frozen=True)
class Reading:
    """What one file gave. A reader fills what it found and says the rest as problems.

    ``facts`` are keyed by dotted names: ``engine.name``, ``engine.version``, ``engine.command`` (redacted list),
    ``model.name``, ``hardware.gpu``, ``hardware.count``, ``workload.seed``, ``setting.<knob>`` …
    """

    traces: tuple[Trace, ...] = ()
    benches: tuple[BenchResult, ...] = ()
    snapshots: tuple[MetricsSnapshot, ...] = ()
    logs: tuple[EngineLog, ...] = ()
    counters: tuple[GpuCounters, ...] = ()
    stacks: tuple[StackTable, ...] = ()
    totals: tuple[CallTotals, ...] = ()
    components: tuple[ComponentSnapshot, ...] = ()
    facts: Mapping[str, Fact[object]] = field(default_factory=dict[str, Fact[object]])
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class FileRecord:
    """A file of the run: its path relative to the run, what it is, its size, and what is wrong with it."""

    path: str
    format: str
    bytes: int
    read: bool
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class Run:
    """Everything known of one run. ``facts`` are merged from all files; a stated fact wins over an inferred one.

    Of several workers, ``snapshots`` hold each one's gauges and all workers' counters added up, and ``workers`` each
    one's own scrapes by its folder; it is empty for a single engine. ``state`` tells these very files from any others;
    None where nothing large is among them, or where the next change of one might leave it as it is.
    """

    name: str
    path: str
    files: tuple[FileRecord, ...]
    facts: Mapping[str, Fact[object]]
    traces: tuple[Trace, ...] = ()
    benches: tuple[BenchResult, ...] = ()
    snapshots: tuple[MetricsSnapshot, ...] = ()
    logs: tuple[EngineLog, ...] = ()
    counters: tuple[GpuCounters, ...] = ()
    stacks: tuple[StackTable, ...] = ()
    totals: tuple[CallTotals, ...] = ()
    components: tuple[ComponentSnapshot, ...] = ()
    workers: Mapping[str, tuple[MetricsSnapshot, ...]] = field(default_factory=dict[str, tuple[MetricsSnapshot, ...]])
    problems: tuple[Problem, ...] = ()
    state: str | None = field(default=None, compare=False)

    def fact(self, key: str) -> object | None:
        """The value of a fact, or None where nothing in the run says."""
        found = self.facts.get(key)
        return None if found is None else found.value
