"""What ``nsys stats`` prints: tables of single events against the database they came from, summaries as totals."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from profiler import open_run
from profiler.analyzers.device import accounts_of
from profiler.analyzers.inspection import inspect
from profiler.analyzers.trace_steps import launched, spans_of
from profiler.collectors.engines import ENGINES
from profiler.collectors.nsys.sqlite import FORMAT as SQLITE
from profiler.collectors.nsys.stats import FORMAT as STATS
from profiler.errors import BadInput
from profiler.model.run import Reading
from profiler.model.totals import CallTotals
from profiler.model.trace import Kind, Trace
from profiler.store.source import FileSource

Read = Callable[[Path], tuple[str, Reading]]
GPU_COLUMNS = ("Start (ns)", "Duration (ns)", "CorrId", "Device", "Ctx", "Strm", "Name")


def rows_of(totals: CallTotals) -> list[tuple[str, int, int, int, int]]:
    columns = (totals.calls, totals.total, totals.shortest, totals.longest)
    return list(zip(totals.names, *(column.tolist() for column in columns), strict=True))


def kernels_of(*traces: Trace) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for trace in traces:
        rows = trace.events.of(Kind.KERNEL)
        columns = (rows.start, rows.duration, rows.device, rows.stream)
        names = [trace.names[index] for index in rows.name.tolist()]
        found.update(zip(names, *(column.tolist() for column in columns), strict=True))
    return found


def test_the_tables_of_one_report_are_one_trace(samples: Path, read: Read) -> None:
    folder = samples / "nsys_stats/joined"
    name, reading = read(folder / "r_cuda_gpu_trace.csv")
    assert name == "nsys_stats" and not reading.problems
    (trace,) = reading.traces
    kernels = trace.events.of(Kind.KERNEL)
    assert kernels.duration.tolist() == [3000, 1000]
    links = launched(trace, kernels, spans_of(trace))
    assert [trace.names[links.calls.name[i]] for i in links.call] == ["cudaLaunchKernel"] * 2
    assert links.step.tolist() == [0, 0]
    assert [label.decode_requests for label in trace.labels.values()] == [3]
    (account,) = accounts_of(trace)
    assert account.busy == {"gemm": 3000, "attention": 1000, "memcpy": 500, "memset": 100}
    assert trace.events.of(Kind.MEMCPY).size.tolist() == [1_500_000]
    assert [(d.index, d.name) for d in trace.devices] == [(0, "NVIDIA H100 80GB HBM3")]
    assert reading.facts["hardware.gpu"].value == "NVIDIA H100 80GB HBM3"
    run = open_run(folder)
    assert len(run.traces) == 1 and sum("read together" in problem.detail for problem in run.problems) == 2


def test_reports_printed_one_after_the_other_become_a_table_of_totals_each(samples: Path, read: Read) -> None:
    name, reading = read(samples / "nsys_stats/several.csv")
    kernels, calls, copies, ranges = reading.totals
    assert name == "nsys_stats" and not reading.traces
    assert [(t.what, t.tool) for t in reading.totals] == [
        ("kernels", "nsys stats cuda_gpu_kern_sum"), ("calls", "nsys stats cuda_api_sum"),
        ("copies", "nsys stats cuda_gpu_mem_time_sum"), ("ranges", "nsys stats nvtx_sum"),
    ]  # fmt: skip
    gemm = ("void gemm<float, (int)4>(T1 *, int)", 2, 3000, 1250, 1750)
    assert rows_of(kernels) == [gemm, ("flash_fwd_kernel", 1, 1000, 1000, 1000)]
    assert rows_of(calls) == [("cudaLaunchKernel", 3, 12500, 3000, 5500)]
    assert rows_of(copies) == [("[CUDA memcpy Device-to-Host]", 1, 500, 500, 500)]
    assert [row[:3] for row in rows_of(ranges)] == [("forward", 2, 6000), ("schedule", 1, 4000)]
    assert ["no times of calls" in p.detail for p in reading.problems] == [True]  # the table of sizes
    assert rows_of(read(samples / "nsys_stats/kernels.json")[1].totals[0]) == rows_of(kernels)
    assert rows_of(read(samples / "nsys_stats/older.csv")[1].totals[0]) == [gemm]


def test_drawn_tables_are_read_like_the_written_ones(samples: Path, read: Read) -> None:
    """What `nsys profile --stats=true` prints behind the program's own lines: grouped digits, names cut at 100 signs."""
    name, reading = read(samples / "nsys_stats/drawn.txt")
    calls, kernels = reading.totals
    assert name == "nsys_stats" and not reading.traces
    assert [(t.what, t.tool) for t in reading.totals] == [
        ("calls", "nsys stats cuda_api_sum"), ("kernels", "nsys stats cuda_gpu_kern_sum"),
    ]  # fmt: skip
    assert rows_of(calls) == [("cudaLaunchKernel", 1003, 1_012_500, 900, 5500)]
    gemm, cut = rows_of(kernels)
    assert gemm == ("void gemm<float, (int)4>(T1 *, int)", 1000, 3_000_000, 2750, 3250)
    assert cut[0].endswith("std::arr…") and cut[1:] == (3, 1_000_000, 250_000, 400_000)
    assert [(p.severity, p.count) for p in reading.problems if "cut off" in p.detail] == [("info", 2)]
    assert not [p for p in reading.problems if p.severity != "info"]


def test_a_line_that_does_not_fit_its_drawn_table_is_counted(samples: Path, tmp_path: Path) -> None:
    text = (samples / "nsys_stats/drawn_2020.txt").read_text().replace("12500           3", "12500 and more 3")
    path = tmp_path / "drawn.txt"
    path.write_text(text)
    reading = STATS.read(FileSource(path), ENGINES)
    assert [len(table.names) for table in reading.totals] == [0, 1, 1]
    assert [(p.severity, p.count) for p in reading.problems if "other columns" in p.detail] == [("warning", 1)]


def test_drawn_tables_of_2020_have_their_unit_in_the_title(samples: Path, read: Read) -> None:
    name, reading = read(samples / "nsys_stats/drawn_2020.txt")
    calls, kernels, copies = reading.totals
    assert name == "nsys_stats" and [t.what for t in reading.totals] == ["calls", "kernels", "copies"]
    assert rows_of(calls) == [("cudaLaunchKernel", 3, 12500, 3000, 5500)]
    assert rows_of(kernels) == [("void gemm<float, (int)4>(T1 *, int)", 2, 3000, 1250, 1750)]
    assert rows_of(copies) == [("[CUDA memcpy DtoH]", 1, 500, 500, 500)]
    assert not reading.problems


def test_ranges_are_read_with_the_time_of_their_work_on_the_gpu(samples: Path, read: Read) -> None:
    name, reading = read(samples / "nsys_stats/projected.csv")
    (ranges,) = reading.totals
    assert name == "nsys_stats" and (ranges.what, ranges.tool) == ("ranges", "nsys stats nvtx_gpu_proj_sum")
    assert rows_of(ranges) == [("forward", 3, 9000, 2000, 4000), ("sample", 3, 1000, 300, 367)]


def test_two_lists_of_one_output_are_two_reports(samples: Path, tmp_path: Path) -> None:
    """The totals of calls and of the operating system have the same headings, and are no one table."""
    one = (samples / "nsys_stats/kernels.json").read_text()
    path = tmp_path / "r.json"
    path.write_text(f"Processing [r.sqlite] with [x/a.py]...\n{one}\nProcessing [r.sqlite] with [x/b.py]...\n{one}")
    reading = STATS.read(FileSource(path), ENGINES)
    assert [table.total.tolist() for table in reading.totals] == [[3000, 1000], [3000, 1000]]


def test_totals_are_shown_and_no_time_of_the_calls_is_made_up(samples: Path) -> None:
    document = inspect(open_run(samples / "nsys_stats/several.csv"))
    kernels = document.totals[0]
    assert (kernels.names, kernels.calls, kernels.seconds) == (2, 3, 4e-6)
    assert kernels.categories == {"gemm": 3e-6, "attention": 1e-6} and kernels.unclassified_share == 0.0
    assert document.totals[1].categories == {} and document.totals[1].unclassified_share is None
    assert not document.devices and not document.step_sources and document.files[0].read


def test_what_breaks_off_or_can_not_be_true_is_left_out_and_counted(samples: Path, read: Read) -> None:
    _, reading = read(samples / "nsys_stats/truncated.csv")
    assert [name for name, *_ in kernels_of(*reading.traces)] == ["ampere_fp16_s1688gemm_fp16_128x128"]
    assert [(p.severity, p.count) for p in reading.problems] == [("warning", 1)]
    name, reading = read(samples / "nsys_stats/truncated.json")
    assert name == "nsys_stats" and len(reading.totals[0]) == 1 and reading.problems[0].count == 1
    _, reading = read(samples / "nsys_stats/malformed.csv")
    (trace,) = reading.traces
    assert kernels_of(trace) == {("gemm", 100, 50, 0, 7): 1, ("<script>alert(1)</script>", 400, 10, -1, -1): 1}
    assert {p.count for p in reading.problems} == {1, 3}
    with pytest.raises(BadInput, match="no table of nsys stats"):
        STATS.read(FileSource(samples / "speedscope" / next(iter((samples / "speedscope").iterdir())).name), ENGINES)


def test_launches_of_several_processes_are_not_tied_to_kernels(samples: Path, tmp_path: Path) -> None:
    for path in (samples / "nsys_stats/joined").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with (tmp_path / "r_cuda_api_trace.csv").open("a") as calls:
        calls.write("1100,500,cudaLaunchKernel,0,5,78,80,20,python3\n")
    reading = STATS.read(FileSource(tmp_path / "r_cuda_gpu_trace.csv"), ENGINES)
    assert any("several processes" in problem.detail for problem in reading.problems)
    assert set(reading.traces[0].events.correlation.tolist()) == {-1}


@pytest.mark.parametrize("form", ["csv", "json"])
def test_every_kernel_of_a_real_capture_is_the_one_in_its_database(corpus: Path, tmp_path: Path, form: str) -> None:
    """The rows of ``cuda_gpu_trace`` as its report queries them, from a real capture's database."""
    database = corpus / "nsys/nsys-ai/h100_2gpu_1s.sqlite"
    query = (
        "SELECT k.start, k.\"end\" - k.start, k.correlationId, 'NVIDIA H100 (' || k.deviceId || ')', k.contextId, "
        "k.streamId, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName"
    )
    with closing(sqlite3.connect(f"file:{database}?immutable=1", uri=True)) as connection:
        rows = connection.execute(query).fetchall()
    path = tmp_path / f"r_cuda_gpu_trace.{form}"
    if form == "csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([GPU_COLUMNS, *rows])
    else:
        path.write_text(json.dumps([dict(zip(GPU_COLUMNS, row, strict=True)) for row in rows]))
    (trace,) = STATS.read(FileSource(path), ENGINES).traces
    assert len(rows) == 3442
    assert kernels_of(trace) == kernels_of(*SQLITE.read(FileSource(database), ENGINES).traces)
