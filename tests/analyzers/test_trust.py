"""A trace that lost kernels is caught before anything is claimed from it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from profiler.analyzers.trust import TrustCheck, checks_of, lost_kernels
from profiler.model.trace import EventTable, Kind, Trace
from tests.strategies import KINETO, reading_of

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


def with_nodes(trace: Trace) -> Trace:
    """The same replays with node ids: two graphs in turns, each with ids of its own."""
    events = trace.events
    node = np.where(
        events.kind == Kind.KERNEL, 1 + np.maximum(np.arange(len(events)) - REPLAYS, 0) % KERNELS, -1
    ) + np.where((events.kind == Kind.KERNEL) & (events.correlation % 2 == 1), 1000, 0)
    return replace(trace, events=replace(events, graph_node=node))


def test_node_ids_tell_which_kernels_a_replay_lacks() -> None:
    trace = with_nodes(graph_trace())
    assert set(results(trace).values()) == {True}
    # Whether the first replay of its graph or a later one, and its lowest node with them.
    for replay in (0, 3):
        lost = without(trace, REPLAYS + replay * KERNELS + np.arange(0, KERNELS, 2))
        (check,) = [c for c in checks_of(lost) if c.name == "graph replays are complete"]
        assert check.passed is False
        assert check.detail.startswith("1 of 12 replays lack nodes") and "50 of 1,200 kernels" in check.detail


def test_a_short_graph_beside_a_long_one_is_no_loss_where_nodes_tell_them_apart() -> None:
    trace = with_nodes(graph_trace())
    short = np.concatenate([REPLAYS + r * KERNELS + np.arange(5) for r in range(0, REPLAYS, 2)])
    assert results(without(trace, short))["graph replays are complete"] is True
    single = trace.events.select(trace.events.correlation < 2)
    assert results(replace(trace, events=single))["graph replays are complete"] is None


def test_a_recording_without_its_first_kernels_is_told_from_one_that_lost_one() -> None:
    lost = without(graph_trace(), REPLAYS + np.arange(3 * KERNELS))
    (check,) = [c for c in checks_of(lost) if c.name == "the recording has its first kernels"]
    assert (
        check.passed is False and check.concerns == "time of the first steps" and check.detail.startswith("3 launches")
    )
    middle = without(graph_trace(), REPLAYS + 5 * KERNELS + np.arange(3 * KERNELS))
    assert results(middle)["the recording has its first kernels"] is True


def rocm_stream(overrun: int) -> Trace:
    """Kernels of one stream, 1 ms each and one after the other; each tenth runs ``overrun`` ns into the next."""
    trace = graph_trace()
    kernels = trace.events.of(Kind.KERNEL)
    kernels = kernels.select(slice(0, 100))
    at = np.arange(100, dtype=np.int64)
    duration = np.where(at % 10 == 0, 1_000_000 + overrun, 1_000_000)
    return replace(trace, events=replace(kernels, start=at * 1_000_000, duration=duration))


def overruns(trace: Trace) -> TrustCheck | None:
    return next((c for c in checks_of(trace) if c.name == "kernels of a stream follow each other"), None)


def test_durations_of_rocm_that_run_over_the_next_kernel_are_no_kernel_time() -> None:
    found = overruns(rocm_stream(30_000_000))
    assert found is not None and found.passed is False and found in lost_kernels(rocm_stream(30_000_000))
    assert found.detail.startswith("10 of 100 kernels run over the next one of their stream, by 300.000 of 400.000 ms")
    for harmless in (0, 500, 100_000):
        assert (check := overruns(rocm_stream(harmless))) is not None and check.passed is True


def test_kernels_that_may_overlap_are_not_judged() -> None:
    trace = rocm_stream(30_000_000)
    assert overruns(replace(trace, names=("cudaGraphLaunch", "gemm"))) is None
    streams = np.arange(100, dtype=np.int32)
    found = overruns(replace(trace, events=replace(trace.events, stream=streams)))
    assert found is not None and found.passed is True, "each runs on a stream of its own"


def test_real_traces_of_rocm_follow_the_order_of_their_streams() -> None:
    paths = [p for p in sorted(KINETO.glob("*.gz")) if "mi300x" in p.name or "mi210" in p.name]
    if not paths:
        pytest.skip("the corpus of real files is not on this machine")
    for path in paths:
        found = overruns(reading_of(path).traces[0])
        assert found is not None and found.passed is True, (path, found)
