"""Whether a trace holds what it claims to hold, before anything is claimed from it.

Profilers drop events without saying so: kernels at the start of a session, kernels inside replayed HIP graphs,
launches from before the window. Each check says how much is missing; a trace that fails one that concerns kernels is
not used to split a step's time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from profiler.analyzers.trace_steps import is_graph_launch
from profiler.model.trace import NO_ID, EventTable, Kind, Trace

_KERNEL_LAUNCH: Final = re.compile(r"(?:LaunchKernel|LaunchCooperativeKernel|GraphLaunch|ModuleLaunch)")
# Above this share of missing kernels a sum of kernel times is no longer the device's work.
MOST_MISSING: Final = 0.02
# A replay with fewer kernels than this share of its siblings lost some.
FULL_REPLAY: Final = 0.98
_SMALL_GRAPH: Final = 20


@dataclass(frozen=True)
class TrustCheck:
    """``passed`` None: the trace can't say. ``concerns`` is what can't be claimed where it failed."""

    name: str
    passed: bool | None
    detail: str
    concerns: str


def checks_of(trace: Trace) -> tuple[TrustCheck, ...]:
    """Every check of one trace; none where it has no device events."""
    device = trace.events.of(Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)
    if not len(device):
        return ()
    calls = trace.events.of(Kind.LAUNCH)
    calls = calls.select(calls.correlation != NO_ID)
    return (_launches(trace, device, calls), _kernels(device, calls), _replays(trace, device, calls))


def lost_kernels(trace: Trace) -> tuple[TrustCheck, ...]:
    """The failed checks that concern kernel time: with one of them, kernel times can't be claimed from the trace."""
    return tuple(check for check in checks_of(trace) if check.passed is False and check.concerns == "kernel time")


def _launches(trace: Trace, device: EventTable, calls: EventTable) -> TrustCheck:
    launching = np.array([bool(_KERNEL_LAUNCH.search(name)) for name in trace.names], bool)
    launches = calls.select(launching[calls.name]) if len(calls) else calls
    name, concerns = "launches have their kernels", "kernel time"
    if not len(launches):
        return TrustCheck(name, None, "no launch call is in the trace", concerns)
    # A launch near the end may run after the recording stopped.
    last = int(device.end.max())
    settled = launches.select(launches.end < last)
    missing = ~np.isin(settled.correlation, device.correlation)
    share = float(missing.mean()) if len(settled) else 0.0
    text = f"{int(missing.sum()):,} of {len(settled):,} launches have no kernel"
    if missing.any() and int(np.flatnonzero(missing).max()) < 2 * int(missing.sum()):
        text += ", nearly all at the start of the recording"
    return TrustCheck(name, share <= MOST_MISSING, text, concerns)


def _kernels(device: EventTable, calls: EventTable) -> TrustCheck:
    kernels = device.of(Kind.KERNEL)
    name, concerns = "kernels have their launches", "why the device waited"
    if not len(calls) or not len(kernels):
        return TrustCheck(name, None, "no launch call is in the trace", concerns)
    orphans = ~np.isin(kernels.correlation, calls.correlation)
    text = f"{int(orphans.sum()):,} of {len(kernels):,} kernels have no launch call in the trace"
    return TrustCheck(name, float(orphans.mean()) <= MOST_MISSING, text, concerns)


def _replays(trace: Trace, device: EventTable, calls: EventTable) -> TrustCheck:
    name, concerns = "graph replays are complete", "kernel time"
    replays = calls.select(is_graph_launch(trace, calls))
    kernels = device.of(Kind.KERNEL)
    ids, counts = np.unique(kernels.correlation, return_counts=True)
    sizes = counts[np.isin(ids, replays.correlation)]
    sizes = sizes[sizes >= _SMALL_GRAPH]
    if len(sizes) < 2:
        return TrustCheck(
            name, None, f"{len(sizes)} replays of {_SMALL_GRAPH} kernels or more: nothing to compare", concerns
        )
    values, often = np.unique(sizes, return_counts=True)
    usual = int(values[np.argmax(often)])
    # Graphs of other sizes recur with their own count; a count that occurs once and is a little short is a loss.
    short = (sizes < FULL_REPLAY * usual) & (sizes > 0.5 * usual)
    rare = np.isin(sizes, values[often == 1])
    lost = int((short & rare).sum())
    text = f"{lost} of {len(sizes)} replays have fewer kernels than the usual {usual:,}"
    return TrustCheck(name, lost <= MOST_MISSING * len(sizes), text, concerns)
