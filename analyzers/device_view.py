"""One device of a trace with everything that its analyses share: events in order, launches, steps, layers, gaps."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profiler.analyzers.captured import roles_by_range
from profiler.analyzers.idle import Gaps, gaps_on_cpu, gaps_on_device
from profiler.analyzers.kernels import COMMUNICATION, COPIES, Classified, classify
from profiler.analyzers.layers import ROLES, UNKNOWN_ROLE, Layers, layers_of, parts_of
from profiler.analyzers.operators import innermost
from profiler.analyzers.timeline import COMMUNICATION as COMM_TIER
from profiler.analyzers.timeline import COMPUTE, COPY, Sweep, sweep
from profiler.analyzers.trace_steps import Launched, Spans, launched, spans_of
from profiler.model.trace import DEVICE_KINDS, EventTable, Kind, Trace
from profiler.store.growing import let_go

CPU: Final = "cpu"


@dataclass(frozen=True)
class DeviceView:
    """``events`` are sorted by start; ``swept.share`` is each one's exclusive nanoseconds. ``operators`` is the number
    of framework operators where the device is a CPU's compute thread (its events are then the innermost pieces), else
    None. ``called`` are the events that a call begins with: all but later pieces of an operator."""

    trace: Trace
    device: str
    name: str | None
    events: EventTable
    links: Launched
    classes: Classified
    swept: Sweep
    gaps: Gaps
    spans: Spans
    called: NDArray[np.bool_]
    operators: int | None = None

    @property
    def source(self) -> str:
        """The trace and its device, as figures name where they come from."""
        return f"{self.trace.path}, {self.device}"

    @cached_property
    def layers(self) -> Layers:
        """The role and layer of every event."""
        table = "kernel_families" if self.operators is None else "operator_families"
        parts = parts_of(self.trace.names, self.events.names_used(), table)
        found = layers_of(parts[self.events.name], self.links.step)
        if not self.trace.captured:
            return found
        # What the order of the kernels left open; ranges at the capture never speak against it.
        stated = roles_by_range(self.trace, self.events, ROLES)
        role = np.where((found.role == UNKNOWN_ROLE) & (stated >= 0), stated, found.role).astype(np.uint8)
        return replace(found, role=role)

    @property
    def attending(self) -> NDArray[np.bool_]:
        """Which events are attention."""
        attention = np.array([name in ("attention", "linear_attn") for name in self.classes.categories], bool)
        return attention[self.classes.code[self.events.name]]

    @property
    def computing(self) -> NDArray[np.bool_]:
        """Which events are kernels (on a CPU, operators) rather than copies."""
        kind = Kind.KERNEL if self.operators is None else Kind.OPERATOR
        found: NDArray[np.bool_] = self.events.kind == kind
        return found


def views_of(trace: Trace) -> tuple[DeviceView, ...]:
    """One view a device with work, in the order of the device ids; the CPU where no GPU work was captured."""
    spans = spans_of(trace)
    table = trace.events
    on_device = np.flatnonzero(table.are(*DEVICE_KINDS))
    if not len(on_device):
        view = _cpu_view(trace, spans)
        return () if view is None else (view,)
    titles = {device.index: device.name for device in trace.devices}
    views = []
    owner = table.device[on_device]
    for device in np.unique(owner).tolist():
        events = _in_order(table, on_device[owner == device])
        links = launched(trace, events, spans)
        _let_go(table)
        classes = classify(trace.names, events.names_used())
        swept = sweep(events.start, events.end, _tiers(events, classes))
        gaps = gaps_on_device(trace, events, links, swept, spans)
        _let_go(table)
        called = np.ones(len(events), bool)
        name = f"gpu {device}"
        views.append(DeviceView(trace, name, titles.get(device), events, links, classes, swept, gaps, spans, called))
    return tuple(views)


def _in_order(table: EventTable, rows: NDArray[np.int64]) -> EventTable:
    """These events by start, end and stream, copied once: this copy is most of what an analysis holds."""
    start, end = table.start[rows], table.start[rows] + table.duration[rows]
    return table.select(rows[np.lexsort((end, table.stream[rows], start))])


def _let_go(table: EventTable) -> None:
    """Where the trace lies in a file, what was looked at of it need not stay in memory beside the copy."""
    for field in fields(EventTable):
        let_go(getattr(table, field.name))


class Views:
    """The views of traces; where they are held, each trace's are built once."""

    def __init__(self, hold: bool) -> None:
        self._hold = hold
        self._held: dict[str, tuple[DeviceView, ...]] = {}

    def of(self, trace: Trace) -> tuple[DeviceView, ...]:
        """See ``views_of``."""
        found = self._held.get(trace.path)
        if found is None:
            found = views_of(trace)
            if self._hold:
                self._held[trace.path] = found
        return found


def _tiers(events: EventTable, classes: Classified) -> NDArray[np.int8]:
    category = np.array(
        [COMM_TIER if c == COMMUNICATION else COPY if c in COPIES else COMPUTE for c in classes.categories], np.int8
    )
    tier = category[classes.code[events.name]]
    tier[events.are(Kind.MEMCPY, Kind.MEMSET)] = COPY
    return tier


def _cpu_view(trace: Trace, spans: Spans) -> DeviceView | None:
    operators = trace.events.of(Kind.OPERATOR)
    if len(spans) and spans.thread is not None:
        operators = operators.select(np.isin(operators.thread, spans.thread))
    if not len(operators):
        return None
    events, called = innermost(operators)
    classes = classify(trace.names, events.names_used(), "operator_families")
    swept = sweep(events.start, events.end, _tiers(events, classes))
    gaps = gaps_on_cpu(trace, events, swept, spans)
    none = np.full(len(events), -1, np.int64)
    owner = spans.owner(events.start) if len(spans) else none
    links = Launched(trace.events.select(slice(0, 0)), none, owner)
    return DeviceView(trace, CPU, None, events, links, classes, swept, gaps, spans, called, len(operators))
