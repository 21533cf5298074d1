"""hardware: clocks, power or thermal limits, another device."""

from __future__ import annotations

import numpy as np

from profiler.analyzers.causes.kind import CauseKind
from profiler.analyzers.gap.measured import engines_of
from profiler.analyzers.gap.view import View, evidence
from profiler.model.counters import GpuCounters
from profiler.model.diagnosis import Evidence
from profiler.model.requests import Floats
from profiler.model.run import Run


def median_clock(run: Run) -> float | None:
    """Median SM clock in Hz of the samples under load; None without samples."""
    clocks = [_under_load(c, c.sm_clock) for c in run.counters]
    values = np.concatenate(clocks) if clocks else np.zeros(0)
    return float(np.median(values)) if len(values) else None


def throttled_share(run: Run) -> float | None:
    """Share of the samples under load in which any clock-event reason was active."""
    states = [_under_load(c, c.throttled) for c in run.counters]
    values = np.concatenate(states) if states else np.zeros(0)
    return float(np.mean(values)) if len(values) else None


def _under_load(counters: GpuCounters, column: Floats) -> Floats:
    busy = np.nan_to_num(counters.utilisation, nan=1.0) > 0
    values: Floats = column[busy & np.isfinite(column)]
    return values


def _evidence(view: View) -> tuple[Evidence, ...]:
    source = view.source("counters")
    a, b = view.a.run, view.b.run
    engines = engines_of(a), engines_of(b)
    return (
        *(evidence("engines side by side", engines, "count", "run.json") if engines[0] != engines[1] else ()),
        *evidence("SM clock under load, median", (median_clock(a), median_clock(b)), "Hz", source),
        *evidence("samples with a clock-event reason", (throttled_share(a), throttled_share(b)), "fraction", source),
    )


def _summary(view: View, amount: float) -> str:
    engines = engines_of(view.a.run), engines_of(view.b.run)
    if engines[0] != engines[1]:
        return f"the load was served by {engines[0]} and by {engines[1]} engines side by side"
    clocks = median_clock(view.a.run), median_clock(view.b.run)
    gpus = view.a.run.fact("hardware.gpu"), view.b.run.fact("hardware.gpu")
    if gpus[0] and gpus[1] and gpus[0] != gpus[1]:
        return f"the devices differ ({gpus[0]} and {gpus[1]}); their effect is contained in kernel"
    if clocks[0] is None or clocks[1] is None:
        return "not known: needs clock samples (nvidia-smi, DCGM) of both runs"
    text = f"SM clock {clocks[0] / 1e6:.0f} MHz and {clocks[1] / 1e6:.0f} MHz under load"
    return f"{text}: what the lower clock alone can account for" if amount else f"{text}: no difference"


CAUSE = CauseKind("hardware", "Hardware", "device counters of both runs", _evidence, _summary)
