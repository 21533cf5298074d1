"""A trace that lost kernels is caught before anything is claimed from it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from profiler.analyzers.trust import checks_of, lost_kernels
from profiler.model.trace import EventTable, Kind, Trace

REPLAYS, KERNELS = 12, 100


def graph_trace() -> Trace:
    """REPLAYS graph launches of KERNELS kernels each, then one call that starts nothing."""
    calls = np.arange(REPLAYS, dtype=np.int64)
    kernels = np.repeat(calls, KERNELS)
    start = np.concatenate([calls * 10_000, kernels * 10_000 + 1_000 + np.tile(np.arange(KERNELS) * 50, REPLAYS)])
    n = len(start)
    none = np.full(n, -1, np.int64)
    events = EventTable(
        kind=np.r_[np.full(REPLAYS, Kind.LAUNCH), np.full(REPLAYS * KERNELS, Kind.KERNEL)].astype(np.uint8),
        name=np.r_[np.zeros(REPLAYS), np.ones(REPLAYS * KERNELS)].astype(np.int32),
        start=start,
        duration=np.full(n, 40, np.int64),
        process=np.zeros(n, np.int32),
        thread=np.zeros(n, np.int32),
        correlation=np.concatenate([calls, kernels]),
        device=np.zeros(n, np.int32),
        stream=np.full(n, 7, np.int32),
        size=none,
        graph_node=none,
    )
    return Trace("t", events, ("hipGraphLaunch", "gemm"), ("1",), ("1",))


def results(trace: Trace) -> dict[str, bool | None]:
    return {check.name: check.passed for check in checks_of(trace)}


def without(trace: Trace, rows: np.ndarray) -> Trace:
    return replace(trace, events=trace.events.select(np.setdiff1d(np.arange(len(trace.events)), rows)))


def test_a_whole_trace_passes() -> None:
    assert set(results(graph_trace()).values()) == {True}
    assert not lost_kernels(graph_trace())


def test_a_replay_that_dropped_an_eighth_of_its_kernels_is_found() -> None:
    lost = without(graph_trace(), REPLAYS + 3 * KERNELS + np.arange(0, KERNELS, 8))
    assert results(lost)["graph replays are complete"] is False
    assert lost_kernels(lost)


def test_kernels_lost_at_the_start_are_found_and_said_to_lie_there() -> None:
    lost = without(graph_trace(), REPLAYS + np.arange(2 * KERNELS))
    (check,) = [c for c in checks_of(lost) if c.name == "launches have their kernels"]
    assert check.passed is False
    assert "at the start" in check.detail


def test_kernels_without_launches_leave_the_kernel_time_trusted() -> None:
    lost = without(graph_trace(), np.arange(4))
    assert results(lost)["kernels have their launches"] is False
    assert not lost_kernels(lost)


def test_two_captured_sizes_are_no_loss() -> None:
    trace = graph_trace()
    every_other = np.concatenate([REPLAYS + r * KERNELS + np.arange(10) for r in range(0, REPLAYS, 2)])
    assert results(without(trace, every_other))["graph replays are complete"] is True


def test_a_trace_without_device_events_makes_no_claim() -> None:
    trace = graph_trace()
    assert checks_of(replace(trace, events=trace.events.of(Kind.LAUNCH))) == ()
