"""The column file: what was written comes back, and no damage goes unnoticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profiler.store import column_file
from profiler.store.column_file import DamagedColumns, read_columns, write_columns

COLUMNS = {
    "kind": np.arange(10, dtype=np.uint8),
    "name": np.arange(10, dtype=np.int32) - 5,
    "start": np.arange(10, dtype=np.int64) * 2**50 - 2**53,
}


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.sampled_from([(-(2**63), 2**63 - 1), (-(2**31) - 2, 2**31 + 1), (2**40, 2**40 + 2**32)]).flatmap(
        lambda bounds: st.lists(st.integers(*bounds), max_size=20)
    ),
    dtype=st.sampled_from([np.uint8, np.int32, np.int64, ">i8"]),
    block=st.integers(1, 8),
)
def test_columns_come_back_whatever_the_block(
    values: list[int], dtype: type, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_file, "BLOCK", block)
    whole = np.array(values, np.int64).astype(dtype)
    columns = {"a": whole, "every other": np.repeat(whole, 2)[::2]}
    write_columns(tmp_path / "x.columns", columns)
    found = read_columns(tmp_path / "x.columns")
    assert list(found) == list(columns)
    for name, column in columns.items():
        assert np.array_equal(found[name], column) and found[name].itemsize == column.itemsize


def test_every_cut_and_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.columns"
    write_columns(path, COLUMNS)
    good = path.read_bytes()
    for at in range(len(good)):
        for damaged in (good[:at], good[:at] + bytes([good[at] ^ 0x41]) + good[at + 1 :]):
            path.write_bytes(damaged)
            with pytest.raises(DamagedColumns):
                read_columns(path)
