"""rocprofv3 CSV and JSON, rocpd: real documentation samples, and small ones of our own for what these lack."""

from __future__ import annotations

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from profiler import registry
from profiler.analyzers.device import accounts_of
from profiler.analyzers.trace_steps import launched, spans_of
from profiler.collectors.rocprof.csv_trace import FORMAT as CSV
from profiler.collectors.rocprof.json_trace import FORMAT as JSON
from profiler.collectors.rocprof.rocpd import FORMAT as ROCPD
from profiler.errors import BadInput
from profiler.model.trace import Kind, Trace
from profiler.store.source import FileSource

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus" / "rocprof"
KERNEL_TRACES = sorted(CORPUS.glob("*/kernel_trace*.csv"))


@pytest.mark.skipif(not KERNEL_TRACES, reason="the corpus is not beside the checkout")
@pytest.mark.parametrize("path", KERNEL_TRACES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_every_kernel_of_a_real_file_is_read_with_both_generations_of_columns(path: Path) -> None:
    (trace,) = CSV.read(FileSource(path), registry.engines()).traces
    kernels = trace.events.of(Kind.KERNEL)
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["End_Timestamp"] or "").isdigit()]
    ours = list(zip((trace.names[i] for i in kernels.name), kernels.start.tolist(), kernels.end.tolist(), strict=True))
    assert ours == [(r["Kernel_Name"], int(r["Start_Timestamp"]), int(r["End_Timestamp"])) for r in rows]
    assert set(kernels.device.tolist()) == {int(r["Agent_Id"].removeprefix("Agent ")) for r in rows}


@pytest.mark.skipif(not KERNEL_TRACES, reason="the corpus is not beside the checkout")
def test_files_of_other_captures_beside_a_trace_are_not_joined_to_it() -> None:
    reading = CSV.read(FileSource(CORPUS / "rocprofv3-docs" / "kernel_trace.csv"), ())
    assert accounts_of(reading.traces[0])[0].window_ns < 10_000_000_000
    assert any("another time" in problem.detail for problem in reading.problems)


HEADER = "Kind,Agent_Id,Queue_Id,Stream_Id,Thread_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp\n"


def one_process(folder: Path) -> Path:
    kernel = folder / "77_kernel_trace.csv"
    kernel.write_text(
        HEADER
        + 'KERNEL_DISPATCH,"Agent 4",1,1,9,"Cijk_Ailk_Bljk_HHS_BH",5,2000,5000\n'
        + 'KERNEL_DISPATCH,"Agent 4",1,1,9,"void vllm::paged_attention_v1_kernel<int, 8>(int*, float)",6,6000,7000\n'
        + 'KERNEL_DISPATCH,"Agent 4",1,1,9,"cut off'
    )
    (folder / "77_hip_api_trace.csv").write_text(
        "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp\n"
        "HIP_RUNTIME_API,hipLaunchKernel,77,9,5,1000,1500\nHIP_RUNTIME_API,hipLaunchKernel,77,9,6,5500,5600\n"
    )
    (folder / "77_marker_api_trace.csv").write_text(
        "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp\n"
        "MARKER_CORE_RANGE_API,execute_context_0(0)_generation_3(3),77,9,1,900,5900\n"
    )
    (folder / "77_memory_copy_trace.csv").write_text(
        "Kind,Direction,Source_Agent_Id,Destination_Agent_Id,Correlation_Id,Start_Timestamp,End_Timestamp\n"
        'MEMORY_COPY,MEMORY_COPY_DEVICE_TO_HOST,"Agent 4","Agent 0",8,7000,7500\n'
    )
    return kernel


def assert_is_the_process(trace: Trace) -> None:
    kernels = trace.events.of(Kind.KERNEL)
    assert kernels.duration.tolist() == [3000, 1000]
    links = launched(trace, kernels, spans_of(trace))
    assert [trace.names[links.calls.name[i]] for i in links.call] == ["hipLaunchKernel"] * 2
    assert links.step.tolist() == [0, 0]
    (account,) = accounts_of(trace)
    assert account.busy == {"gemm": 3000, "attention": 1000, "memcpy": 500}
    assert account.idle == {"in step: launch": 1000}


def test_the_files_of_one_process_are_one_trace_and_a_broken_line_is_counted(tmp_path: Path) -> None:
    reading = CSV.read(FileSource(one_process(tmp_path)), registry.engines())
    assert_is_the_process(reading.traces[0])
    assert [p.count for p in reading.problems if "break off" in p.detail] == [1]
    alone = CSV.read(FileSource(tmp_path / "77_hip_api_trace.csv"), ())
    assert not alone.traces
    assert "read together with" in alone.problems[0].detail


def test_json_output_is_the_same_process(tmp_path: Path) -> None:
    def record(start: int, end: int, correlation: int, **more: object) -> dict[str, object]:
        return {"start_timestamp": start, "end_timestamp": end, "thread_id": 9,
                "correlation_id": {"internal": correlation, "external": 0}, "size": 80, **more}  # fmt: skip

    def dispatch(kernel: int) -> dict[str, object]:
        return {"agent_id": {"handle": 40}, "queue_id": {"handle": 1}, "kernel_id": kernel, "grid_size": {"x": 1}}

    strings = {"buffer_records": [{"kind": "HIP", "operations": ["none", "hipLaunchKernel"]},
                                  {"kind": "COPY", "operations": ["none", "MEMORY_COPY_DEVICE_TO_HOST"]},
                                  {"kind": "MARKER", "operations": ["execute_context_0(0)_generation_3(3)"]}]}  # fmt: skip
    process = {
        "metadata": {"pid": 77, "command": ["python", "--api-key", "planted-secret"]},
        "agents": [{"id": {"handle": 40}, "logical_node_id": 4, "type": 2, "product_name": "AMD Instinct MI300X"}],
        "strings": strings,
        "kernel_symbols": [{"kernel_id": 1, "formatted_kernel_name": "Cijk_Ailk_Bljk_HHS_BH"},
                           {"kernel_id": 2, "kernel_name": "void vllm::paged_attention_v1_kernel<int, 8>(int*, float).kd"}],
        "buffer_records": {
            "kernel_dispatch": [record(2000, 5000, 5, dispatch_info=dispatch(1), stream_id={"handle": 1}),
                                record(6000, 7000, 6, dispatch_info=dispatch(2), stream_id={"handle": 1})],
            "hip_api": [record(1000, 1500, 5, kind=0, operation=1), record(5500, 5600, 6, kind=0, operation=1)],
            "memory_copy": [record(7000, 7500, 8, kind=1, operation=1, src_agent_id={"handle": 40})],
            "marker_api": [record(900, 5900, 1, kind=2, operation=0)],
        },
    }  # fmt: skip
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [process]}))
    assert JSON.sniff(path.read_bytes(), path.name) > 0.9
    reading = JSON.read(FileSource(path), registry.engines())
    assert_is_the_process(reading.traces[0])
    assert reading.traces[0].devices[0].name == "AMD Instinct MI300X"
    assert "planted-secret" not in repr(reading)
    path.write_text(path.read_text()[:-40])
    with pytest.raises(BadInput, match="does not decode"):
        JSON.read(FileSource(path), ())


def test_a_rocpd_database_gives_a_trace_for_each_process(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    with closing(sqlite3.connect(path)) as c, c:
        c.execute("CREATE TABLE rocpd_info_process_u (id INTEGER, environment TEXT)")
        c.execute("INSERT INTO rocpd_info_process_u VALUES (1, 'HF_TOKEN=hf_planted')")
        c.execute("CREATE TABLE k (name TEXT, pid INTEGER, agent_abs_index INTEGER, stream_id INTEGER, start INTEGER, "
                  '"end" INTEGER, corr_id INTEGER)')  # fmt: skip
        c.executemany("INSERT INTO k VALUES (?, ?, 4, 1, ?, ?, ?)", [
            ("Cijk_Ailk_Bljk_HHS_BH", 77, 2000, 5000, 5), ("void vllm::paged_attention_v1_kernel<int, 8>(int*, float)", 77, 6000, 7000, 6),
            ("Cijk_Ailk_Bljk_HHS_BH", 78, 2100, 5200, 5)])  # fmt: skip
        c.execute("CREATE VIEW kernels AS SELECT * FROM k")
        c.execute('CREATE TABLE m (name TEXT, pid INTEGER, start INTEGER, "end" INTEGER, corr_id INTEGER)')
        c.execute("INSERT INTO m VALUES ('MEMORY_COPY_DEVICE_TO_HOST', 77, 7000, 7500, 8)")
        c.execute("CREATE VIEW memory_copies AS SELECT *, 4 AS agent_abs_index FROM m")
        c.execute("CREATE TABLE r (category TEXT, name TEXT, pid INTEGER, tid INTEGER, start INTEGER, \"end\" INTEGER, "
                  "corr_id INTEGER)")  # fmt: skip
        c.executemany("INSERT INTO r VALUES (?, ?, 77, 9, ?, ?, ?)", [
            ("HIP_RUNTIME_API", "hipLaunchKernel", 1000, 1500, 5), ("HIP_RUNTIME_API", "hipLaunchKernel", 5500, 5600, 6),
            ("MARKER_CORE_RANGE_API", "execute_context_0(0)_generation_3(3)", 900, 5900, 1)])  # fmt: skip
        c.execute("CREATE VIEW regions AS SELECT * FROM r")
    assert ROCPD.sniff(path.read_bytes(), path.name) > 0.9
    reading = ROCPD.read(FileSource(path), registry.engines())
    first, second = reading.traces
    assert_is_the_process(first)
    assert np.array_equal(second.events.of(Kind.KERNEL).duration, [3100])
    assert "hf_planted" not in repr(reading)
