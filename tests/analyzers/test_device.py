"""What a device did, on every real trace: to the nanosecond, against a union by sort and merge."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from profiler.analyzers.device import accounts_of
from profiler.analyzers.device_view import CPU
from profiler.analyzers.trace_steps import is_graph_launch, launched, spans_of
from profiler.model.trace import DEVICE_KINDS, EventTable, Kind, Trace
from tests.strategies import (
    GEMM,
    KINETO,
    STEP,
    Built,
    document,
    each_trace,
    event_texts,
    read_bytes,
    reading_of,
    small_trace,
)


def union(spans: list[tuple[int, int]]) -> int:
    """Nanoseconds that at least one interval covers."""
    total, until = 0, -(2**62)
    for start, end in sorted(spans):
        total += max(end - max(start, until), 0)
        until = max(until, end)
    return total


def spans(events: EventTable) -> list[tuple[int, int]]:
    return list(zip(events.start.tolist(), events.end.tolist(), strict=True))


def kineto(name: str) -> Trace:
    path = KINETO / f"{name}.pt.trace.json.gz"
    if not path.is_file():
        pytest.skip("the corpus of real files is not on this machine")
    return reading_of(path).traces[0]


@pytest.mark.parametrize("path", each_trace())
def test_buckets_add_up_to_the_window_to_the_nanosecond(path: Path) -> None:
    trace = reading_of(path).traces[0]
    for account in accounts_of(trace):
        assert sum(account.busy.values()) == account.busy_ns
        assert sum(account.busy.values()) + sum(account.idle.values()) == account.window_ns
        assert all(ns >= 0 for ns in (*account.busy.values(), *account.idle.values()))
        assert sum(t.seconds for t in account.totals) * 1e9 <= account.busy_ns + 1
        assert account.calls.keys() >= account.busy.keys()
        assert not account.roles or sum(account.role_calls.values()) == sum(account.calls.values())
        counted = {total.name: total.calls for total in account.totals}
        if account.device == CPU:
            assert sum(account.calls.values()) <= account.kernels
            names = Counter(trace.names[i] for i in trace.events.of(Kind.OPERATOR).name.tolist())
            assert all(calls <= names[name] for name, calls in counted.items())
        else:
            assert sum(account.calls.values()) >= account.kernels >= max(counted.values(), default=0)


@pytest.mark.parametrize("path", each_trace())
def test_busy_time_is_the_union_of_what_ran(path: Path) -> None:
    trace = reading_of(path).traces[0]
    work = trace.events.of(*DEVICE_KINDS)
    accounts = {a.device: a for a in accounts_of(trace)}
    if not len(work):
        threads = spans_of(trace).thread
        operators = trace.events.of(Kind.OPERATOR)
        if threads is not None:
            operators = operators.select(np.isin(operators.thread, threads))
        assert set(accounts) == ({CPU} if len(operators) else set())
        if len(operators):
            assert accounts[CPU].busy_ns == union(spans(operators))
        return
    devices = np.unique(work.device).tolist()
    assert set(accounts) == {f"gpu {d}" for d in devices}
    for device in devices:
        mine = work.select(work.device == device)
        account = accounts[f"gpu {device}"]
        kernels = mine.of(Kind.KERNEL)
        assert account.busy_ns == union(spans(mine))
        assert account.window_ns == int(mine.end.max() - mine.start.min())
        assert account.kernels == len(kernels) and account.kernel_ns == int(kernels.duration.sum())


@pytest.mark.parametrize("path", each_trace())
def test_steps_hold_no_more_than_the_device_did(path: Path) -> None:
    for account in accounts_of(reading_of(path).traces[0]):
        if account.steps is None:
            continue
        steps = account.steps
        assert float(steps.seconds.sum()) * 1e9 <= account.window_ns + 1
        for category, seconds in steps.busy.items():
            assert float(seconds.sum()) * 1e9 <= account.busy[category] + 2
        assert (steps.replayed <= steps.kernels).all() and (steps.graph_launches <= steps.replayed).all()


@pytest.mark.parametrize(
    ("name", "launches", "replayed", "kernels"),
    [("vllm-decode-fullgraph-mi300x", 1, 421, 425), ("vllm-mixed-piecewise-mi300x", 25, 361, 413)],
)
def test_kernels_of_a_replayed_graph_belong_to_its_launch(
    name: str, launches: int, replayed: int, kernels: int
) -> None:
    trace = kineto(name)
    table = trace.events.of(Kind.KERNEL)
    links = launched(trace, table, spans_of(trace))
    graph = is_graph_launch(trace, links.calls)
    assert (int(graph.sum()), int(graph[links.call].sum()), len(table)) == (launches, replayed, kernels)
    (account,) = accounts_of(trace)
    assert account.steps is not None
    assert int(account.steps.replayed.sum()) == replayed and int(account.steps.graph_launches.sum()) == launches


def test_overlapping_kernels_of_a_blackwell_are_not_counted_twice() -> None:
    (account,) = accounts_of(kineto("sglang-decode-qwen3-30b-a3b-b300"))
    assert round(account.busy_ns / 1e6, 3) == 5.385 and round(account.kernel_ns / 1e6, 3) == 6.290


def test_kernels_that_start_before_their_launch_are_joined_all_the_same() -> None:
    trace = kineto("kernels-before-launch-gtx1650")
    links = launched(trace, trace.events.of(Kind.KERNEL), spans_of(trace))
    assert float(np.mean(links.call >= 0)) > 0.9


def test_a_small_trace_by_hand(tmp_path: Path) -> None:
    events = small_trace(steps=3, layers=2)
    (account,) = accounts_of(read_bytes(document(event_texts(events)), tmp_path).traces[0])
    kernels = [e for e in events if e.cat == "kernel"]
    work = [e for e in events if e.on_device]
    assert account.kernels == len(kernels) == 18
    assert account.kernel_ns == sum(e.duration for e in kernels)
    assert account.busy_ns == sum(e.duration for e in work)
    assert account.busy["memcpy"] == sum(e.duration for e in work if e.cat == "gpu_memcpy")
    assert set(account.busy) == {"gemm", "attention", "norm", "memcpy"}
    assert account.unclassified_share == 0 and account.launches_known == 1
    assert account.steps is not None and len(account.steps.first) == 3
    assert not account.steps.spans.inferred and account.steps.kernels.tolist() == [6, 6, 6]
    assert account.name == "NVIDIA H100 80GB HBM3"


def test_a_call_that_began_before_the_gap_between_two_steps_gets_the_gap_and_no_more(tmp_path: Path) -> None:
    def step(correlation: int, call: int, kernel: int) -> list[Built]:
        args = {"device": 0, "stream": 7, "correlation": correlation}
        return [
            Built("user_annotation", STEP, call - 500, 10_000),
            Built("cuda_runtime", "cudaLaunchKernel", call, 6_000, args={"correlation": correlation}),
            Built("kernel", GEMM, kernel, 9_000, 0, 7, args),
        ]

    # The second call begins 1,000 ns before the first kernel ends and takes effect 5,100 ns into the gap.
    events = [*step(1, 10_000, 16_100), *step(2, 24_100, 30_200)]
    (account,) = accounts_of(read_bytes(document(event_texts(events)), tmp_path).traces[0])
    assert account.window_ns - account.busy_ns == 5_100
    assert account.idle == {"between steps: launch": 5_100}
    assert account.steps is not None
    assert float(account.steps.seconds.sum()) * 1e9 == pytest.approx(account.window_ns)
