"""rocprof and rocprofv2 (real console output, samples of our own in the documented columns), and summaries."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from profiler import open_run
from profiler.analyzers.device import accounts_of
from profiler.analyzers.inspection import inspect
from profiler.collectors.engines import ENGINES
from profiler.collectors.rocprof.older import V1, V2
from profiler.collectors.rocprof.stats import FORMAT as STATS
from profiler.errors import BadInput
from profiler.model.run import Reading
from profiler.model.trace import Kind
from profiler.store.source import FileSource

Read = Callable[[Path], tuple[str, Reading]]


@pytest.mark.parametrize(
    ("path", "name", "device"), [("rocprof/results.csv", "rocprof", 1), ("rocprofv2/dispatches.csv", "rocprofv2", 4)]
)
def test_kernels_with_their_times(samples: Path, read: Read, path: str, name: str, device: int) -> None:
    found, reading = read(samples / path)
    trace = reading.traces[0]
    assert found == name
    assert [trace.names[i] for i in trace.events.name] == [
        "Cijk_Ailk_Bljk_HHS_BH",
        "void vllm::paged_attention_v1_kernel<int, 8>(int*, float)",
    ]
    assert trace.events.start.tolist() == [2000, 6000] and trace.processes == ("77",)
    (account,) = accounts_of(trace)
    assert account.busy == {"gemm": 3000, "attention": 1000} and account.window_ns == 5000
    assert set(trace.events.device.tolist()) == {device}


def test_a_kernel_that_ends_before_it_starts_is_left_out(samples: Path, read: Read) -> None:
    _, reading = read(samples / "rocprofv2/dispatches.csv")
    assert [(p.severity, p.count) for p in reading.problems] == [("warning", 1)]
    assert [len(trace.events) for trace in reading.traces] == [2, 0]


def test_a_pass_of_counters_has_no_times(samples: Path, read: Read) -> None:
    name, reading = read(samples / "rocprof/counters.csv")
    assert name == "rocprof" and not reading.traces
    assert "no time stamps" in reading.problems[0].detail
    _, reading = read(samples / "rocprof/truncated.csv")
    assert len(reading.traces[0].events) == 1 and reading.problems[0].count == 1


def test_calls_and_operations(samples: Path, read: Read) -> None:
    _, reading = read(samples / "rocprofv2/calls.csv")
    calls = reading.traces[0].events
    assert set(calls.kind.tolist()) == {Kind.LAUNCH} and calls.correlation.tolist() == [1, 2]
    name, reading = read(samples / "rocprofv2/malformed.csv")
    (trace,) = reading.traces
    assert name == "rocprofv2"
    assert [(trace.names[n], s, d) for n, s, d in zip(trace.events.name, trace.events.start, trace.events.duration, strict=True)] == [
        ("gemm", 900, 1000), ("Memcpy Unknown", 2000, 100)]  # fmt: skip
    assert [p.count for p in reading.problems] == [2]


def test_every_timed_line_of_the_real_console_output(corpus: Path, read: Read) -> None:
    lines = 0
    for path in sorted((corpus / "rocprof/rocprofv2-golden").glob("apps_*trace*.txt")):
        text = path.read_text()
        name, reading = read(path)
        assert name == "rocprofv2" and not any(p.severity == "error" for p in reading.problems), path
        times = re.findall(r"^D.*(?:Start|Begin)_Timestamp\((\d+)\), End_Timestamp\((\d+)\)", text, re.M)
        ours = sorted((s, s + d) for t in reading.traces for s, d in zip(t.events.start.tolist(), t.events.duration.tolist(), strict=True))  # fmt: skip
        assert ours == sorted((int(start), int(end)) for start, end in times), path
        lines += len(times)
    assert lines > 70


@pytest.mark.parametrize(
    ("path", "what", "first"),
    [
        ("results.stats.csv", "kernels", ("bodyForce(Body*, float, int)", 10, 261124944, -1)),
        ("copies.csv", "copies", ("Memcpy HtoD", 4, 4000, 900)),
        ("results.copy_stats.csv", "copies", ("Memcpy DtoH", 1, 6000, -1)),
        ("malformed.csv", "kernels", ("gemm", -1, 100, -1)),
    ],
)
def test_summaries(samples: Path, read: Read, path: str, what: str, first: tuple[object, ...]) -> None:
    name, reading = read(samples / "rocprof_stats" / path)
    (table,) = reading.totals
    assert name == "rocprof_stats" and table.what == what
    assert (table.names[0], table.calls[0], table.total[0], table.shortest[0]) == first
    assert [p.count for p in reading.problems] == ([3] if path == "malformed.csv" else [])


def test_real_summaries(corpus: Path, read: Read) -> None:
    _, reading = read(corpus / "rocprof/intellikit/rocprofv3_kernel_stats.csv")
    assert reading.totals[0].total.tolist() == [580000000, 320000000, 180000000, 150000000, 140000000]
    assert set(inspect(open_run(corpus / "rocprof/intellikit")).totals[0].categories) >= {"gemm"}
    _, reading = read(corpus / "rocprof/rocprofv3-docs/hip_api_stats.csv")
    assert reading.totals[0].what == "calls" and reading.totals[0].names[0] == "hipStreamCreateWithFlags"
    _, reading = read(corpus / "rocprof/rocprofv3-docs/hip_domain_stats.csv")
    assert not reading.totals and "whole domains" in reading.problems[0].detail


@pytest.mark.parametrize("one", [V1, V2, STATS])
def test_another_file_is_refused_in_one_line(samples: Path, one: object) -> None:
    with pytest.raises(BadInput):
        one.read(FileSource(samples / "nvidia_smi/two.csv"), ENGINES)  # type: ignore[attr-defined]
