"""Folders of Parquet tables that are damaged, or call texts what are none: one line, and everything else is read."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profiler.collectors.nsys.parquet import FORMAT
from profiler.collectors.nsys.parquet_bytes import column_bytes
from profiler.errors import BadInput
from profiler.model.run import Reading
from profiler.store.source import FileSource

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three kernels of one process, their launches, and their names."""
    tables: dict[str, dict[str, list[object]]] = {
        KERNELS: {
            "start": [1000, 3000, 5000], "end": [2000, 4000, 6000], "deviceId": [0] * 3, "streamId": [7] * 3,
            "correlationId": [1, 2, 3], "globalPid": [4242 << 24] * 3, "demangledName": [1, 2, 1],
        },
        "CUPTI_ACTIVITY_KIND_RUNTIME": {
            "start": [900, 2900, 4900], "end": [950, 2950, 4950], "globalTid": [4242 << 24] * 3,
            "correlationId": [1, 2, 3], "nameId": [3] * 3,
        },
        "StringIds": {"id": [1, 2, 3], "value": ["gemm_kernel", "softmax_\N{LATIN SMALL LETTER E WITH ACUTE}", "cudaLaunchKernel"]},
        "ThreadNames": {"globalTid": [4242 << 24], "nameId": [1]},
    }  # fmt: skip
    for name, columns in tables.items():
        pl.DataFrame(columns).write_parquet(tmp_path / f"{name}.parquet", compression="uncompressed", statistics=False)
    return tmp_path


def read(folder: Path) -> Reading:
    return FORMAT.read(FileSource(folder / f"{KERNELS}.parquet"), ())


def names_of(reading: Reading) -> list[str]:
    (trace,) = reading.traces
    return [trace.names[i] for i in trace.events.name[:3].tolist()]


def test_a_name_that_is_no_utf8_is_replaced_and_the_rest_is_read(folder: Path) -> None:
    table = folder / "StringIds.parquet"
    table.write_bytes(table.read_bytes().replace("\N{LATIN SMALL LETTER E WITH ACUTE}".encode(), b"\xe9z"))
    reading = read(folder)
    assert names_of(reading) == ["gemm_kernel", "softmax_\N{REPLACEMENT CHARACTER}z", "gemm_kernel"]
    (problem,) = reading.problems
    assert (problem.severity, problem.place, problem.count) == ("info", "StringIds.value", 1)


@pytest.mark.parametrize("table", ["CUPTI_ACTIVITY_KIND_RUNTIME", "ThreadNames"])
@pytest.mark.parametrize("left", [0, 4, 40, -9], ids=["empty", "magic alone", "cut", "without its end"])
def test_a_damaged_table_is_left_out_and_the_others_are_read(folder: Path, table: str, left: int) -> None:
    path = folder / f"{table}.parquet"
    path.write_bytes(path.read_bytes()[:left])
    reading = read(folder)
    assert names_of(reading)[0] == "gemm_kernel"
    assert len(reading.traces[0].events) == (6 if table == "ThreadNames" else 3)
    (problem,) = reading.problems
    assert (problem.severity, problem.place) == ("error", table)
    assert "\n" not in problem.detail


def test_the_table_that_stands_for_the_export_has_to_be_whole(folder: Path) -> None:
    path = folder / f"{KERNELS}.parquet"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(BadInput, match="a table of the export is damaged"):
        read(folder)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_footer_is_refused_or_leads_to_bytes(data: st.DataObject, folder: Path) -> None:
    good = (folder / "StringIds.parquet").read_bytes()
    body = bytearray(good)
    for _ in range(data.draw(st.integers(1, 6))):
        body[-data.draw(st.integers(1, 400))] = data.draw(st.sampled_from([0, 0x0C, 0x1C, 0x7F, 0x80, 0xF9, 0xFF]))
    path = folder / "damaged.parquet"
    path.write_bytes(body)
    with suppress(ValueError, OSError, pl.exceptions.PolarsError):
        assert column_bytes(path, "value").dtype == pl.Binary
