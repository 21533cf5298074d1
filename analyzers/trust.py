"""Whether a trace holds what it claims to hold, before anything is claimed from it.

Profilers drop events without saying so: kernels at the start of a session, kernels inside replayed HIP graphs,
launches from before the window. Each check says how much is missing; a trace that fails one that concerns kernels is
not used to split a step's time. What the rest of the run says of a trace is in ``corroboration.py``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from profiler.analyzers.trace_steps import SLACK_NS, is_graph_launch, launched, spans_of
from profiler.model.requests import Ints
from profiler.model.trace import NO_ID, EventTable, Kind, Trace

_KERNEL_LAUNCH: Final = re.compile(r"(?:LaunchKernel|LaunchCooperativeKernel|GraphLaunch|ModuleLaunch)")
# Above this share of missing kernels a sum of kernel times is no longer the device's work.
MOST_MISSING: Final = 0.02
# A replay with fewer kernels than this share of its siblings lost some.
FULL_REPLAY: Final = 0.98
_SMALL_GRAPH: Final = 20
KERNEL_TIME: Final = "kernel time"
# So many launches in a row without a kernel, before any has one, are no accident of the first buffer.
_LEADING: Final = 3
# Siblings of siblings: how often replays pass on which graph they belong to.
_ROUNDS: Final = 20


@dataclass(frozen=True)
class TrustCheck:
    """``passed`` None: the trace can't say. ``concerns`` is what can't be claimed where it failed."""

    name: str
    passed: bool | None
    detail: str
    concerns: str


def checks_of(trace: Trace) -> tuple[TrustCheck, ...]:
    """Every check of one trace; none where it has no device events."""
    device, calls = _device_and_calls(trace)
    if not len(device):
        return ()
    return (*_of_kernel_time(trace, device, calls), _kernels(device, calls), _start(trace, device, calls))


def lost_kernels(trace: Trace) -> tuple[TrustCheck, ...]:
    """The failed checks that concern kernel time: with one of them, kernel times can't be claimed from the trace."""
    device, calls = _device_and_calls(trace)
    if not len(device):
        return ()
    return tuple(check for check in _of_kernel_time(trace, device, calls) if check.passed is False)


def _device_and_calls(trace: Trace) -> tuple[EventTable, EventTable]:
    calls = trace.events.of(Kind.LAUNCH)
    return trace.events.of(Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET), calls.select(calls.correlation != NO_ID)


def _of_kernel_time(trace: Trace, device: EventTable, calls: EventTable) -> tuple[TrustCheck, ...]:
    checks = (_launches(trace, device, calls), _replays(trace, device, calls), _overruns(trace, device))
    return tuple(check for check in checks if check is not None)


def _settled_launches(trace: Trace, device: EventTable, calls: EventTable) -> EventTable:
    """Calls that start a kernel, in order, without those at the end whose kernels may run after the recording."""
    launching = np.array([bool(_KERNEL_LAUNCH.search(name)) for name in trace.names], bool)
    launches = calls.select(launching[calls.name] & (calls.end < int(device.end.max()))) if len(calls) else calls
    return launches.select(np.argsort(launches.start, kind="stable"))


def _launches(trace: Trace, device: EventTable, calls: EventTable) -> TrustCheck:
    settled = _settled_launches(trace, device, calls)
    name = "launches have their kernels"
    if not len(settled):
        return TrustCheck(name, None, "no launch call is in the trace", KERNEL_TIME)
    missing = ~np.isin(settled.correlation, device.correlation)
    text = f"{int(missing.sum()):,} of {len(settled):,} launches have no kernel"
    if missing.any() and int(np.flatnonzero(missing).max()) < 2 * int(missing.sum()):
        text += ", nearly all at the start of the recording"
    return TrustCheck(name, float(missing.mean()) <= MOST_MISSING, text, KERNEL_TIME)


def _kernels(device: EventTable, calls: EventTable) -> TrustCheck:
    kernels = device.correlation[device.kind == Kind.KERNEL]
    name, concerns = "kernels have their launches", "why the device waited"
    if not len(calls) or not len(kernels):
        return TrustCheck(name, None, "no launch call is in the trace", concerns)
    orphans = ~np.isin(kernels, calls.correlation)
    text = f"{int(orphans.sum()):,} of {len(kernels):,} kernels have no launch call in the trace"
    return TrustCheck(name, float(orphans.mean()) <= MOST_MISSING, text, concerns)


def _start(trace: Trace, device: EventTable, calls: EventTable) -> TrustCheck:
    """Device tracing is switched on after host tracing, or its first buffers are lost: the first steps look idle."""
    name, concerns = "the recording has its first kernels", "time of the first steps"
    settled = _settled_launches(trace, device, calls)
    if not len(settled):
        return TrustCheck(name, None, "no launch call is in the trace", concerns)
    found = np.isin(settled.correlation, device.correlation)
    leading = int(np.argmax(found)) if found.any() else len(found)
    text = f"{leading:,} launches before the first kernel have none"
    spans = spans_of(trace)
    if len(spans) and not spans.on_device and leading:
        owner = spans.owner(settled.start)
        worked = np.unique(launched(trace, device, spans).step)
        begun = np.unique(owner[owner >= 0])
        empty = int(np.searchsorted(begun, worked[worked >= 0][0])) if (worked >= 0).any() else len(begun)
        text += f"; {empty:,} of {len(spans):,} steps begin before it and have no device work"
    return TrustCheck(name, leading < _LEADING, text, concerns)


def _overruns(trace: Trace, device: EventTable) -> TrustCheck | None:
    """ROCm can write durations that run over the stream's next kernel, which had to wait for it.

    Only AMD's kernels are judged: on newer NVIDIA devices a kernel may start before the one before it ends.
    """
    amd = any(d.vendor == "amd" for d in trace.devices) or any(name.startswith("hip") for name in trace.names)
    kernels = device.of(Kind.KERNEL)
    if not amd or not len(kernels):
        return None
    kernels = kernels.select(np.lexsort((kernels.end, kernels.start, kernels.stream, kernels.device)))
    same = (kernels.stream[1:] == kernels.stream[:-1]) & (kernels.device[1:] == kernels.device[:-1])
    over = np.where(same, kernels.end[:-1] - kernels.start[1:], 0)
    over = np.minimum(over[over > SLACK_NS], kernels.duration[:-1][over > SLACK_NS])
    total = int(kernels.duration.sum())
    text = (
        f"{len(over):,} of {len(kernels):,} kernels run over the next one of their stream, by {over.sum() / 1e6:,.3f} "
        f"of {total / 1e6:,.3f} ms"
    )
    lost = int(over.sum()) > MOST_MISSING * total
    return TrustCheck("kernels of a stream follow each other", not lost, text, KERNEL_TIME)


def _replays(trace: Trace, device: EventTable, calls: EventTable) -> TrustCheck:
    name = "graph replays are complete"
    replays = calls.select(is_graph_launch(trace, calls))
    replayed = (device.kind == Kind.KERNEL) & np.isin(device.correlation, replays.correlation)
    named = replayed & (device.graph_node > 0)
    if named.any():
        return _replayed_nodes(device.correlation[named], device.graph_node[named], name)
    _, sizes = np.unique(device.correlation[replayed], return_counts=True)
    sizes = sizes[sizes >= _SMALL_GRAPH]
    if len(sizes) < 2:
        return TrustCheck(
            name, None, f"{len(sizes)} replays of {_SMALL_GRAPH} kernels or more: nothing to compare", KERNEL_TIME
        )
    values, often = np.unique(sizes, return_counts=True)
    usual = int(values[np.argmax(often)])
    # Graphs of other sizes recur with their own count; a count that occurs once and is a little short is a loss.
    short = (sizes < FULL_REPLAY * usual) & (sizes > 0.5 * usual)
    rare = np.isin(sizes, values[often == 1])
    lost = int((short & rare).sum())
    text = f"{lost} of {len(sizes)} replays have fewer kernels than the usual {usual:,}"
    return TrustCheck(name, lost <= MOST_MISSING * len(sizes), text, KERNEL_TIME)


def _replayed_nodes(correlation: Ints, graph_node: Ints, name: str) -> TrustCheck:
    """Where kernels name their node of the graph, a replay lacks the nodes that its siblings show.

    Replays are siblings where they share nodes: ids are the instantiated graph's own. Nodes that no replay shows stay
    unseen, as the trace does not say how many kernels were captured.
    """
    ids, replay = np.unique(correlation, return_inverse=True)
    nodes, node = np.unique(graph_node, return_inverse=True)
    # Sorted, as they nearly are: hashing a million of them takes many times longer.
    pairs = np.sort(replay.astype(np.int64) * len(nodes) + node, kind="stable")
    pairs = pairs[np.diff(pairs, prepend=-1) > 0]
    replay, node = pairs // len(nodes), pairs % len(nodes)
    # The smallest node of a replay names its graph, unless that node itself was lost: then a sibling of it tells.
    graph = np.arange(len(nodes))
    for _ in range(_ROUNDS):
        lowest = np.full(len(ids), len(nodes))
        np.minimum.at(lowest, replay, graph[node])
        joined = graph.copy()
        np.minimum.at(joined, node, lowest[replay])
        if np.array_equal(joined, graph):
            break
        graph = joined
    of_replay = np.full(len(ids), len(nodes))
    np.minimum.at(of_replay, replay, graph[node])
    whole = np.bincount(graph, minlength=len(nodes))[of_replay]
    held = np.bincount(replay, minlength=len(ids))
    siblings = np.bincount(of_replay, minlength=len(nodes))[of_replay]
    compared = siblings > 1
    if not compared.any():
        return TrustCheck(name, None, f"none of {len(ids)} replays recurs: nothing to compare", KERNEL_TIME)
    missing, expected = int((whole - held)[compared].sum()), int(whole[compared].sum())
    short = int((held < whole)[compared].sum())
    text = (
        f"{short} of {int(compared.sum())} replays lack nodes that other replays of their graph show: "
        f"{missing:,} of {expected:,} kernels"
    )
    return TrustCheck(name, missing <= MOST_MISSING * expected, text, KERNEL_TIME)
