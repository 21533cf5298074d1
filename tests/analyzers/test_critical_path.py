"""The critical path: as long as the window on every real trace, and on orders built by hand where it must lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler.analyzers.device import accounts_of
from tests.strategies import GEMM, Built, document, each_trace, event_texts, read_bytes, reading_of


@pytest.mark.parametrize("path", each_trace())
def test_the_path_is_as_long_as_the_window(path: Path) -> None:
    for account in accounts_of(reading_of(path).traces[0]):
        if account.path is not None:
            assert account.path.total == pytest.approx(account.window_ns / 1e9, rel=1e-9, abs=1e-9)
            assert all(seconds > 0 for seconds in account.path.seconds.values())


def call(name: str, start: int, duration: int, correlation: int) -> Built:
    return Built("cuda_runtime", name, start, duration, args={"correlation": correlation})


def kernel(start: int, duration: int, correlation: int, name: str = GEMM) -> Built:
    args: dict[str, object] = {"device": 0, "stream": 7, "correlation": correlation}
    return Built("kernel", name, start, duration, 0, 7, args)


def seconds(events: list[Built], folder: Path) -> dict[str, float]:
    trace = read_bytes(document(event_texts(events)), folder).traces[0]
    (account,) = accounts_of(trace)
    assert account.path is not None
    return {name: round(value * 1e9) for name, value in account.path.seconds.items()}


def test_work_launched_ahead_is_the_device_s(tmp_path: Path) -> None:
    events = [call("cudaLaunchKernel", 10_000 * i, 1_000, i) for i in range(1, 4)]
    events += [kernel(50_000 * i, 49_000, i) for i in range(1, 4)]
    assert seconds(events, tmp_path) == {"device: gemm": 147_000, "device: between kernels": 2_000}


def test_a_thread_that_waited_for_the_device_is_on_the_path_until_its_next_launch(tmp_path: Path) -> None:
    events = [
        call("cudaLaunchKernel", 10_000, 1_000, 1), kernel(12_000, 30_000, 1),
        call("cudaStreamSynchronize", 11_500, 31_500, 9), Built("cpu_op", "aten::work", 50_000, 20_000),
        call("cudaLaunchKernel", 80_000, 1_000, 2), kernel(82_000, 40_000, 2),
    ]  # fmt: skip
    assert seconds(events, tmp_path) == {
        "device: gemm": 70_000,
        "host: operators": 20_000,
        "host: not marked": 17_000,
        "host: launch": 2_000,
        "device: between kernels": 1_000,
    }


def test_the_kernels_of_a_replay_wait_for_no_launch_of_their_own(tmp_path: Path) -> None:
    events = [call("cudaGraphLaunch", 10_000, 5_000, 1), *(kernel(20_000 * i, 15_000, 1) for i in range(1, 5))]
    assert seconds(events, tmp_path) == {"device: gemm": 60_000, "device: between kernels": 15_000}
