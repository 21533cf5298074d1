"""The path through several traces: it adds up to the window, goes to the rank that came last, and to the process whose
message ended a wait; real ranks first, then ranks and processes written by hand."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.analyzers.communication_figures import aligned
from profiler.analyzers.device import accounts_of
from profiler.analyzers.joined_path import BEFORE, HANDOVER, TRANSFER, JoinedPath, joined
from profiler.model.run import Run
from profiler.model.trace import Trace
from tests.analyzers.test_critical_path import call, kernel
from tests.strategies import KINETO, Built, document, event_texts, read_bytes, reading_of

BASE = 1_796_014_000_000_000_000
REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def path_of(*traces: Trace) -> JoinedPath | None:
    run = Run("run", "run", (), {}, traces=traces)
    return joined(run, aligned(run, [account for trace in traces for account in accounts_of(trace)]))


def window(*traces: Trace) -> float:
    """From the first device event to the last, seconds on the first trace's clock."""
    devices = [(t.events.select(t.events.device >= 0), t.base - traces[0].base) for t in traces]
    devices = [(e.of(0, 1, 2), shift) for e, shift in devices if len(e)]  # type: ignore[arg-type]
    return (max(int(e.end.max()) + s for e, s in devices) - min(int(e.start.min()) + s for e, s in devices)) / 1e9


def parts(path: JoinedPath) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for (lane, part), seconds in path.seconds.items():
        found[lane.split(".")[0]][part] = round(seconds * 1e9)
    return dict(found)


def test_two_real_ranks() -> None:
    files = [KINETO / f"lightllm-ep8-decode-h200-rank{rank}.pt.trace.json.gz" for rank in (0, 1)]
    if not all(file.is_file() for file in files):
        pytest.skip("the corpus of real files is not on this machine")
    traces = [reading_of(file).traces[0] for file in files]
    path = path_of(*traces)
    assert path is not None
    assert sum(path.seconds.values()) == pytest.approx(path.total, rel=1e-9)
    assert path.total == pytest.approx(window(*traces), abs=1e-4)  # the clocks differ by less
    # Both come last about as often, so the path changes between them, and waits less than either rank does alone.
    assert path.ranks > 10
    on_path = sum(s for (_, part), s in path.seconds.items() if part == TRANSFER)
    alone = [float((a.collectives.end - a.collectives.start).sum()) / 1e9 for t in traces for a in accounts_of(t)]
    assert 0 < on_path < min(alone)
    assert min(sum(s for (lane, _), s in path.seconds.items() if lane.startswith(t.path)) for t in traces) > 0
    assert path_of(traces[0]) is None


def ranks(compute: list[tuple[int, int]], transfer: int, folder: Path, shift: int = 0) -> list[Trace]:
    """Two ranks that compute and then meet; the second's clock is ``shift`` ns ahead. Launches are long made."""
    traces, ready = [], [1_000_000, 1_000_000]
    rows: list[list[Built]] = [[], []]
    for i, pair in enumerate(compute):
        arrival = [at + spent + 1_000 for at, spent in zip(ready, pair, strict=True)]
        end = max(arrival) + transfer
        for rank in (0, 1):
            rows[rank] += [
                call("cudaLaunchKernel", 1_000 * i + 100, 50, 2 * i), kernel(ready[rank], pair[rank], 2 * i),
                call("cudaLaunchKernel", 1_000 * i + 200, 50, 2 * i + 1),
                kernel(arrival[rank], end - arrival[rank], 2 * i + 1, REDUCE),
            ]  # fmt: skip
        ready = [end + 1_000] * 2
    for rank in (0, 1):
        data = document(event_texts(rows[rank]), BASE + rank * shift)
        trace = read_bytes(data, folder, f"rank{rank}.pt.trace.json").traces[0]
        traces.append(replace(trace, rank=rank, world_size=2))
    return traces


def test_the_path_is_that_of_the_rank_that_came_last(tmp_path: Path) -> None:
    path = path_of(*ranks([(10_000, 90_000), (80_000, 20_000), (30_000, 30_000)], 5_000, tmp_path))
    assert path is not None
    # The last round, in which both took equally long, is walked where the path began.
    assert parts(path) == {
        "rank0": {"device: gemm": 110_000, "device: between kernels": 4_000, TRANSFER: 15_000},
        "rank1": {"device: gemm": 90_000, "device: between kernels": 1_000},
    }
    assert sum(path.seconds.values()) == pytest.approx(path.total)


# Kernels that last longer than the next launch takes: of shorter ones it is the launch that the device waits for.
@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(5_000, 90_000), st.integers(5_000, 90_000)), min_size=1, max_size=6),
    st.integers(1_000, 50_000),
    st.integers(0, 400_000),
)
def test_the_parts_add_up_and_compute_is_the_slowest_ranks(
    compute: list[tuple[int, int]], transfer: int, shift: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = path_of(*ranks(compute, transfer, Path(folder), shift))
    apart = any(one != two for one, two in compute)
    assert (path is not None) == apart
    if path is None:
        return
    rounds = len(compute)
    assert sum(path.seconds.values()) == pytest.approx(path.total, rel=1e-9)
    assert path.total == pytest.approx((sum(map(max, compute)) + rounds * (transfer + 2_000) - 1_000) / 1e9)
    spent = [s for (_, part), s in path.seconds.items() if part == "device: gemm"]
    assert sum(spent) == pytest.approx(sum(map(max, compute)) / 1e9)
    assert sum(s for (_, part), s in path.seconds.items() if part == TRANSFER) == pytest.approx(rounds * transfer / 1e9)


CORE, FRONT = "vllm/v1/engine/core.py(1573): _process_input_queue", "vllm/v1/engine/core_client.py(1238): _send_input"
TURNS = 4


def processes(folder: Path, shift: int = 0) -> list[Trace]:
    """A core that runs a front end's requests one by one: 200 us each, 80 of tokenising and 50 of device time."""
    core: list[Built] = []
    front: list[Built] = []
    for i in range(TURNS):
        at = 200_000 * i
        core += [
            Built("python_function", CORE, at + 10_000, 100_000), call("cudaLaunchKernel", at + 120_000, 1_000, i),
            kernel(at + 123_000, 50_000, i), call("cudaStreamSynchronize", at + 121_500, 52_000, 100 + i),
        ]  # fmt: skip
        front += [
            Built("cpu_op", "aten::tokenize", at + 12_000, 80_000), Built("python_function", FRONT, at + 92_000, 10_000)
        ]  # fmt: skip
    data = document(event_texts(core), BASE), document(event_texts(front), BASE + shift)
    one = read_bytes(data[0], folder, "core.pt.trace.json").traces[0]
    two = read_bytes(data[1], folder, "front.pt.trace.json").traces[0]
    return [one, replace(two, rank=None, world_size=None)]


def test_the_front_end_is_on_the_path_while_the_core_waits_for_it(tmp_path: Path) -> None:
    path = path_of(*processes(tmp_path))
    assert path is not None
    assert (path.total, path.processes, path.ranks) == (650_000 / 1e9, 1, 0)
    # The front end waits for nothing that its trace names, so the path stays there once it came there: from 702 us,
    # the end of the last sending, back to the first device event at 123.
    assert parts(path) == {
        # The wait ends at 710 us, the launch is at 720.
        "core": {"device: gemm": 50_000, "host: not marked": 10_000, HANDOVER: 8_000, "host: launch": 3_000},
        "front": {"host: operators": 3 * 80_000, "host: not marked": 579_000 - 3 * 80_000},
    }


def test_clocks_that_do_not_agree_are_not_joined(tmp_path: Path) -> None:
    assert path_of(*processes(tmp_path, 75_000)) is None


def test_what_no_trace_shows_is_said(tmp_path: Path) -> None:
    one, two = processes(tmp_path)
    path = path_of(one, replace(two, events=two.events.select(two.events.start >= 200_000)))
    assert path is not None
    # The front end's trace begins at 212 us.
    assert parts(path)[""] == {BEFORE: 89_000}
    assert sum(path.seconds.values()) == pytest.approx(path.total)


def test_the_core_waits_for_its_worker_and_the_worker_for_its_device(tmp_path: Path) -> None:
    """Both directions: the worker waits for a call, the core for the answer; the path returns to the device."""
    wait, answer = (
        "vllm/distributed/device_communicators/shm_broadcast.py(961): dequeue",
        "multiproc_executor.py(991): enqueue_output",
    )
    response, send = "multiproc_executor.py(433): get_response", "multiproc_executor.py(382): collective_rpc"
    worker: list[Built] = []
    core: list[Built] = []
    for i in range(TURNS):
        at = 200_000 * i
        worker += [
            Built("python_function", wait, at + 2_000, 40_000), call("cudaLaunchKernel", at + 50_000, 1_000, i),
            kernel(at + 53_000, 50_000, i), call("cudaStreamSynchronize", at + 52_000, 53_000, 100 + i),
            Built("python_function", answer, at + 110_000, 10_000),
        ]  # fmt: skip
        core += [
            Built("python_function", send, at + 30_000, 8_000), Built("python_function", response, at + 60_000, 70_000)
        ]  # fmt: skip
    one = read_bytes(document(event_texts(worker), BASE), tmp_path, "worker.pt.trace.json").traces[0]
    two = read_bytes(document(event_texts(core), BASE), tmp_path, "core.pt.trace.json").traces[0]
    path = path_of(one, replace(two, rank=None, world_size=None))
    assert path is not None
    assert path.processes == 2 * (TURNS - 1)
    found = parts(path)
    # A turn: the core sends at 38 us, the worker has it at 42, launches at 50, runs from 53 to 103, answers at 120.
    assert found["worker"]["device: gemm"] == TURNS * 50_000
    # The core has the answer at 130 and sends the next call 108 us later.
    assert found["core"] == {HANDOVER: 3 * 10_000, "host: not marked": 3 * 108_000}
    assert found["worker"][HANDOVER] == 3 * 4_000
    assert sum(path.seconds.values()) == pytest.approx(path.total)
