"""Folders of Parquet tables that are damaged, or call texts what are none: one line, and everything else is read."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profiler.collectors.nsys import parquet_tables
from profiler.collectors.nsys.parquet import FORMAT
from profiler.collectors.nsys.parquet_bytes import column_bytes
from profiler.collectors.nsys.parquet_tables import DAMAGED
from profiler.errors import BadInput
from profiler.model.run import Reading
from profiler.model.trace import EventTable
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


def damaged(data: st.DataObject, good: bytes) -> bytes:
    """The table with some bytes of its footer changed."""
    body = bytearray(good)
    for _ in range(data.draw(st.integers(1, 6))):
        body[-data.draw(st.integers(1, 400))] = data.draw(st.sampled_from([0, 0x0C, 0x1C, 0x7F, 0x80, 0xF9, 0xFF]))
    return bytes(body)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_footer_is_refused_or_leads_to_bytes(data: st.DataObject, folder: Path) -> None:
    path = folder / "damaged.parquet"
    path.write_bytes(damaged(data, (folder / "StringIds.parquet").read_bytes()))
    with suppress(*DAMAGED):
        assert column_bytes(path, "value").dtype == pl.Binary


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), table=st.sampled_from([KERNELS, "CUPTI_ACTIVITY_KIND_RUNTIME", "StringIds"]))
def test_whatever_is_damaged_in_a_footer_ends_in_one_line(data: st.DataObject, table: str, folder: Path) -> None:
    path = folder / f"{table}.parquet"
    good = path.read_bytes()
    path.write_bytes(damaged(data, good))
    try:
        said = [problem.detail for problem in read(folder).problems]
    except BadInput as error:
        said = [str(error)] if table == KERNELS else ["only the kernels' table stands for the export\n"]
    finally:
        path.write_bytes(good)
    assert all("\n" not in text for text in said)


def test_a_table_is_read_in_pieces_and_gives_what_it_gives_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "CUPTI_ACTIVITY_KIND_RUNTIME.parquet").unlink()
    ranges = {
        "start": [10, 20, 30, 40, 50], "end": [11, 21, 31, 41, 51], "globalTid": [4242 << 24] * 5,
        "eventType": [59] * 5, "text": ["a", "b", "a", None, "c"], "textId": [None, None, None, 3, None],
    }  # fmt: skip
    pl.DataFrame(ranges).write_parquet(folder / "NVTX_EVENTS.parquet", row_group_size=2)
    whole = read(folder).traces[0]
    monkeypatch.setattr(parquet_tables, "PIECE", 2)
    pieces = read(folder).traces[0]
    assert pieces.names == whole.names
    assert all(
        np.array_equal(getattr(pieces.events, one.name), getattr(whole.events, one.name)) for one in fields(EventTable)
    )
    assert [whole.names[i] for i in whole.events.name[3:].tolist()] == ["a", "b", "a", "cudaLaunchKernel", "c"]


def test_a_folder_whose_name_looks_like_a_pattern_is_read(folder: Path) -> None:
    odd = folder / "run[1] *?"
    odd.mkdir()
    for path in folder.glob("*.parquet"):
        path.rename(odd / path.name)
    assert names_of(read(odd))[0] == "gemm_kernel"
