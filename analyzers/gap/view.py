"""The two runs as a cause's text sees them: numbers by name, per step, with the file they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from profiler.analyzers.device import DeviceAccount
from profiler.analyzers.gap.ledger import Context
from profiler.analyzers.gap.load import Load
from profiler.analyzers.gap.measured import Measured
from profiler.analyzers.gap.model import Component, RunModel
from profiler.model.diagnosis import Evidence

Pair = tuple[float | None, float | None]
# What a fit of traced idle time does not resolve, seconds, and how that is told.
_RESOLVED: Final = 1e-6
UNRESOLVED: Final = "under 1 µs"


@dataclass(frozen=True)
class View:
    """Both runs and, where they have steps, their models (None: the run has no steps to compare). ``intervals`` are
    those of the causes' amounts, seconds; ``parts`` are these amounts by cause and part."""

    context: Context
    model_a: RunModel | None
    model_b: RunModel | None
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    parts: Mapping[Component, float] = field(default_factory=dict[Component, float])

    @property
    def leading(self) -> dict[str, str]:
        """The largest part of each cause."""
        return {cause: part for (cause, part), _ in sorted(self.parts.items(), key=lambda item: abs(item[1]))}

    @property
    def a(self) -> Measured:
        """The first run."""
        return self.context.a

    @property
    def b(self) -> Measured:
        """The second run."""
        return self.context.b

    def names(self) -> tuple[str, str]:
        """What the runs are called in a sentence."""
        return self.a.name, self.b.name

    def by_chance(self, cause: str) -> bool:
        """Whether the interval of a cause's amount holds zero."""
        low, high = sorted(self.intervals.get(cause, (1.0, 1.0)))
        return low <= 0.0 <= high

    def counter(self, name: str) -> Pair:
        """A counter's increment over the load."""
        return self.a.counters.get(name), self.b.counters.get(name)

    def gauge(self, name: str) -> Pair:
        """A gauge's mean under load (or maximum, ``name_max``)."""
        return self.a.gauges.get(name), self.b.gauges.get(name)

    def setting(self, name: str) -> Pair:
        """A setting in force."""
        return self.a.settings.get(name), self.b.settings.get(name)

    def per_step(self, cause: str, part: str | None = None) -> Pair:
        """Seconds that a step spends in a component, traced times brought to the unprofiled step (own steps)."""
        return _per_step(self.a, self.model_a, cause, part), _per_step(self.b, self.model_b, cause, part)

    def turned(self, cause: str, amount: float) -> bool:
        """Whether a metric gains, beyond chance, where a step loses time to a cause: longer steps change which requests
        share one, and how long the others wait."""
        one, two = self.per_step(cause)
        return one is not None and two is not None and (two - one) * amount < 0.0 and not self.by_chance(cause)

    def at_equal_steps(self, cause: str) -> Pair:
        """The same at equal steps: each run's fitted times over the steps of both runs, which count alike."""
        a, b = self.a.steps, self.b.steps
        if a is None or b is None:
            return None, None
        loads = a.load, b.load
        found = [[_on_steps(model, load, cause, None) for load in loads] for model in (self.model_a, self.model_b)]
        one, two = (None if None in each else 0.5 * sum(value or 0.0 for value in each) for each in found)
        return one, two

    def traced(self, what: str) -> Pair:
        """Per traced step: ``kernels``, ``replayed`` (share of kernels), ``graph_launches``, ``replayed_steps``."""
        return _traced(self.a.traced, what), _traced(self.b.traced, what)

    def sequences(self) -> Pair:
        """Mean sequences of the steps that decode."""
        return _sequences(self.a), _sequences(self.b)

    def steps_per_token(self) -> Pair:
        """Steps per output token."""
        return _steps(self.a), _steps(self.b)

    def source(self, kind: str) -> str:
        """Where a kind of evidence (trace, fitted, steps, metrics, counters, bench) was read, for both runs."""
        parts = []
        for measured in (self.a, self.b):
            parts.append(_source(measured, kind))
        return parts[0] if parts[0] == parts[1] else f"{parts[0]} | {parts[1]}"


def differences(view: View) -> tuple[str, ...]:
    """What the runs' counters and traces show to differ, whatever the seconds say of it."""
    a, b = view.names()
    lines = []
    operators, ratios, sequences = (
        view.traced("kernels"),
        (view.a.computed_ratio(), view.b.computed_ratio()),
        (view.sequences()),
    )
    if operators[0] and operators[1] and abs(operators[1] / operators[0] - 1) > 0.05:
        lines.append(f"kernels (operators) a traced step: {operators[0]:,.0f} in {a}, {operators[1]:,.0f} in {b}")
    if ratios[0] is not None and ratios[1] is not None and abs(ratios[1] - ratios[0]) > 0.02:
        lines.append(f"prompt tokens computed per token asked for: {ratios[0]:.0%} in {a}, {ratios[1]:.0%} in {b}")
    if sequences[0] and sequences[1] and abs(sequences[1] / sequences[0] - 1) > 0.05:
        lines.append(f"sequences a step with decodes: {sequences[0]:.1f} in {a}, {sequences[1]:.1f} in {b}")
    return tuple(lines)


def waited(name: str, pair: Pair, source: str) -> tuple[Evidence, ...]:
    """Idle time of a step as fitted, seconds; in words where it is less than a fit can tell."""
    told = [value if value is None or value >= _RESOLVED else UNRESOLVED for value in pair]
    return (Evidence(name=name, a=told[0], b=told[1], unit="s", source=source),) if any(told) else ()


def evidence(name: str, pair: Pair, unit: str, source: str) -> tuple[Evidence, ...]:
    """One piece of evidence; nothing where neither run knows it."""
    if pair[0] is None and pair[1] is None:
        return ()
    return (Evidence(name=name, a=pair[0], b=pair[1], unit=unit, source=source),)


def time_text(seconds: float) -> str:
    """A time in the unit that fits it, three digits. Fits of a trace's idle time resolve no less than a microsecond."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(seconds) >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return UNRESOLVED


def both(pair: Pair) -> bool:
    """Whether both runs know the number."""
    return pair[0] is not None and pair[1] is not None


def _per_step(measured: Measured, model: RunModel | None, cause: str, part: str | None) -> float | None:
    return None if measured.steps is None else _on_steps(model, measured.steps.load, cause, part)


def _on_steps(model: RunModel | None, load: Load, cause: str, part: str | None) -> float | None:
    if model is None or not model.device:
        return None
    chosen = [v for (c, p), v in model.components(load).items() if c == cause and part in (None, p)]
    return sum(chosen) * model.own.parallel / max(float(load.weight.sum()), 1e-12)


def _traced(account: DeviceAccount | None, what: str) -> float | None:
    if account is None or account.steps is None:
        return None
    steps = account.steps
    if what == "kernels":
        return float(steps.kernels.mean())
    if what == "replayed":
        return float(steps.replayed.sum() / max(int(steps.kernels.sum()), 1))
    if what == "replayed_steps":
        return float(np.mean(steps.graph_launches > 0))
    return float(steps.graph_launches.mean())


def _sequences(measured: Measured) -> float | None:
    if measured.steps is None:
        return None
    load = measured.steps.load
    decoding = load.decode > 0
    weight = load.weight[decoding]
    return float(weight @ load.decode[decoding] / weight.sum()) if weight.sum() > 0 else None


def _steps(measured: Measured) -> float | None:
    return None if measured.steps is None else float(measured.steps.load.weight.sum()) / max(measured.tokens, 1)


def _source(measured: Measured, kind: str) -> str:
    run = measured.run
    if kind == "trace":
        return measured.traced.trace if measured.traced is not None else "no trace"
    if kind == "fitted":
        # A mean over the load's steps, which are more than those of the trace and were not slowed by a profiler.
        return f"{measured.traced.trace} (fitted to all steps)" if measured.traced is not None else "no trace"
    if kind == "steps":
        return measured.steps.source if measured.steps is not None else "no steps"
    if kind == "metrics":
        if not run.snapshots:
            return "no metrics"
        return f"{run.snapshots[0].path} … {run.snapshots[-1].path}"
    if kind == "counters":
        return run.counters[0].path if run.counters else "no device counters"
    return measured.bench.path
