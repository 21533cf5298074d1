"""What one device did in its window: busy time by category, idle time by cause, both also step by step.

An engine that runs on the CPU has no device events: there the device is the worker's compute thread, each instant
belongs to the innermost operator, and the rest of the step is host time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiler.analyzers.captured import seconds_by_range
from profiler.analyzers.communication import Collectives, collectives_of
from profiler.analyzers.critical_path import CriticalPath, critical_path
from profiler.analyzers.device_view import DeviceView, views_of
from profiler.analyzers.graphs import GraphUse, distinct_pairs, graph_use
from profiler.analyzers.idle import annotated_phases
from profiler.analyzers.launching import Launcher, launchers_of
from profiler.analyzers.layers import ROLES, Layers
from profiler.analyzers.micro_batches import MicroBatches, micro_batches_of
from profiler.analyzers.speculation import Speculation, speculation_of
from profiler.analyzers.timeline import Sweep, whole_nanoseconds
from profiler.analyzers.trace_steps import Spans, is_graph_launch
from profiler.model.requests import Floats, Ints
from profiler.model.trace import Kind, Trace


@dataclass(frozen=True)
class StepCosts:
    """Per step of the trace (columns of one length): seconds by busy category, by role in the model and by idle cause,
    kernels launched, of these replayed by a graph, and graph launches. ``launching`` is the host time from a step's
    first launch call to the end of its last (NaN where the trace has no launches), ``phases`` the annotated host
    phases of a step, seconds on average. ``role_calls`` are the calls of each role in all steps together."""

    spans: Spans
    busy: Mapping[str, Floats]
    roles: Mapping[str, Floats]
    role_calls: Mapping[str, int]
    idle: Mapping[str, Floats]
    kernels: Ints
    replayed: Ints
    graph_launches: Ints
    launching: Floats
    phases: float
    first: Ints  # ns, start of the step's first device event

    @property
    def seconds(self) -> Floats:
        """The step's whole device time: everything above, added up."""
        total: Floats = np.sum([*self.busy.values(), *self.idle.values()], axis=0)
        return total


@dataclass(frozen=True)
class KernelTotal:
    """One kernel name in the steps of a device: exclusive seconds (its share of the busy time) and calls. Where the
    trace has no steps, in all of it."""

    name: str
    category: str
    seconds: float
    calls: int


@dataclass(frozen=True)
class DeviceAccount:
    """One device of one trace. ``busy`` (ns by category) adds up to ``busy_ns``; with ``idle`` to ``window_ns``.

    ``roles`` is the busy time once more, by what the kernels do in the model (adds up to ``busy_ns``); empty where no
    attention was recognised, so that the place of the others can't be told. ``layers`` is the count of most steps
    (None: they disagree, or there are none).
    ``calls`` and ``role_calls`` count the device's events by the keys of ``busy`` and ``roles``; of an operator that is
    cut into pieces one. ``captured`` are seconds of replayed work by the ranges that it was captured in, ``launchers``
    the busy time by the operators that launched it.
    """

    trace: str
    device: str
    name: str | None
    kernels: int
    kernel_ns: int
    busy_ns: int
    window_ns: int
    busy: Mapping[str, int]
    calls: Mapping[str, int]
    idle: Mapping[str, int]
    roles: Mapping[str, int]
    role_calls: Mapping[str, int]
    layers: int | None
    unclassified_share: float | None
    steps: StepCosts | None
    graphs: GraphUse | None
    collectives: Collectives
    path: CriticalPath | None
    totals: tuple[KernelTotal, ...]
    speculation: Speculation | None
    micro_batches: MicroBatches | None
    launches_known: float | None
    captured: Mapping[str, float]
    launchers: tuple[Launcher, ...]

    @property
    def source(self) -> str:
        """The trace and its device, as figures name where they come from."""
        return f"{self.trace}, {self.device}"


def accounts_of(trace: Trace, views: Sequence[DeviceView] | None = None) -> tuple[DeviceAccount, ...]:
    """One account a device with work, in the order of the device ids; the CPU where no GPU work was captured. ``views``
    are the trace's, where they were built before."""
    return tuple(_account(view) for view in (views_of(trace) if views is None else views))


def _account(view: DeviceView) -> DeviceAccount:
    trace, events, links, swept, gaps = view.trace, view.events, view.links, view.swept, view.gaps
    classes, layers, called = view.classes, view.layers, view.called
    category_ns = np.bincount(classes.code[events.name], swept.share, minlength=len(classes.categories))
    busy = {name: float(ns) for name, ns in zip(classes.categories, category_ns, strict=True) if ns > 0}
    computing = view.computing
    kernel_time = float(swept.share[computing].sum())
    unknown = float(swept.share[computing & ~classes.known[events.name]].sum())
    idle_total = swept.window - swept.busy
    costs = _step_costs(view)
    return DeviceAccount(
        trace=trace.path,
        device=view.device,
        name=view.name,
        kernels=int(computing.sum()) if view.operators is None else view.operators,
        kernel_ns=int(events.duration[computing].sum()),
        busy_ns=swept.busy,
        window_ns=swept.window,
        busy=whole_nanoseconds(busy, swept.busy),
        calls=_counted(classes.code[events.name[called]], classes.categories),
        idle=whole_nanoseconds(gaps.by_cause(), idle_total) if idle_total else {},
        roles={} if not layers.found else _by_role(layers, swept),
        role_calls={} if not layers.found else _counted(layers.role[called], ROLES),
        layers=layers.usual,
        unclassified_share=unknown / kernel_time if kernel_time else None,
        steps=costs,
        graphs=graph_use(trace, events, links, swept.share, gaps, view.spans, view.attending),
        collectives=collectives_of(trace, events, classes, swept.share, links, view.spans),
        path=critical_path(view),
        totals=_totals(view),
        speculation=None if costs is None else _speculation(view, costs),
        micro_batches=micro_batches_of(trace, events, links, classes),
        launches_known=float(np.mean(links.call >= 0)) if view.operators is None else None,
        captured=seconds_by_range(trace, events, swept.share),
        launchers=launchers_of(view),
    )


def _speculation(view: DeviceView, costs: StepCosts) -> Speculation | None:
    used = np.flatnonzero(np.bincount(view.links.step[view.links.step >= 0]))
    return speculation_of(view.trace, view.links, view.swept.share, costs.spans.labels, used, costs.seconds, costs.idle)


def _by_role(layers: Layers, swept: Sweep) -> dict[str, int]:
    shares = np.bincount(layers.role, swept.share, minlength=len(ROLES))
    parts = {role: float(ns) for role, ns in zip(ROLES, shares, strict=True) if ns > 0}
    return whole_nanoseconds(parts, swept.busy)


def _counted(code: NDArray[Any], names: Sequence[str]) -> dict[str, int]:
    """How often each of ``names`` occurs, of those that do; ``code`` indexes them."""
    return {names[i]: n for i, n in enumerate(np.bincount(code, minlength=len(names)).tolist()) if n}


def _step_costs(view: DeviceView) -> StepCosts | None:
    trace, events, links, swept, gaps = view.trace, view.events, view.links, view.swept, view.gaps
    classes, layers, spans = view.classes, view.layers, view.spans
    owned = links.step >= 0
    if not owned.any():
        return None
    used = np.flatnonzero(np.bincount(links.step[owned]))
    row = np.full(len(spans) + 1, -1, np.int64)
    row[used] = np.arange(len(used))
    step, n = row[links.step], len(used)
    at, share = step[owned], swept.share[owned]
    busy = _by_step(at, share, classes.code[events.name[owned]], classes.categories, n)
    roles = {} if not layers.found else _by_step(at, share, layers.role[owned], ROLES, n)
    idle = {}
    gap_row = row[gaps.step]
    for number, cause in sorted(enumerate(gaps.causes), key=lambda item: item[1]):
        rows = (gaps.code == number) & (gap_row >= 0)
        if rows.any():
            idle[cause] = np.bincount(gap_row[rows], gaps.nanoseconds[rows], minlength=n) / 1e9
    first = np.full(n, np.iinfo(np.int64).max)
    np.minimum.at(first, step[owned], events.start[owned])
    graph = is_graph_launch(trace, links.calls)
    by_graph = (links.call >= 0) & (graph[links.call] if len(graph) else False)
    kernel = owned & view.called & events.are(Kind.KERNEL, Kind.OPERATOR)
    replayed = kernel & by_graph
    replays = distinct_pairs(step[replayed], links.call[replayed])
    launching = np.full(n, np.nan)
    called = owned & (links.call >= 0)
    if called.any():
        begin, end = np.full(n, np.inf), np.full(n, -np.inf)
        np.minimum.at(begin, step[called], links.calls.start[links.call[called]].astype(np.float64))
        np.maximum.at(end, step[called], links.calls.end[links.call[called]].astype(np.float64))
        launching = np.where(np.isfinite(begin), (end - begin) / 1e9, np.nan)
    labels = tuple(spans.labels[i] for i in used.tolist())
    kept = Spans(spans.start[used], spans.end[used], labels, spans.source, spans.inferred, spans.on_device)
    return StepCosts(
        spans=kept,
        busy=busy,
        roles=roles,
        role_calls={} if not layers.found else _counted(layers.role[owned & view.called], ROLES),
        idle=idle,
        kernels=np.bincount(step[kernel], minlength=n),
        replayed=np.bincount(step[replayed], minlength=n),
        graph_launches=np.bincount(replays, minlength=n),
        launching=launching,
        phases=annotated_phases(trace) / n,
        first=first,
    )


def _by_step(step: Ints, share: Floats, code: NDArray[Any], names: Sequence[str], steps: int) -> dict[str, Floats]:
    """Seconds of every step by what its events are: ``code`` indexes ``names``, of which those that occur are given."""
    key = step * len(names) + code
    seconds = np.bincount(key, share, minlength=steps * len(names)).reshape(steps, len(names)) / 1e9
    occurs = np.bincount(code, minlength=len(names)) > 0
    return {name: seconds[:, i].copy() for i, name in enumerate(names) if occurs[i]}


def _totals(view: DeviceView) -> tuple[KernelTotal, ...]:
    events, classes, owned = view.events, view.classes, view.links.step >= 0
    used = owned if owned.any() else np.ones(len(events), bool)
    name = events.name[used]
    calls, seconds = np.bincount(name, view.called[used]), np.bincount(name, view.swept.share[used]) / 1e9
    rows = [
        KernelTotal(view.trace.names[i], classes.categories[classes.code[i]], float(seconds[i]), int(calls[i]))
        for i in np.flatnonzero(np.bincount(name)).tolist()
    ]
    return tuple(sorted(rows, key=lambda r: (-r.seconds, r.name)))
