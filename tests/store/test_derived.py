"""What was made of traces comes back as it was, for the same traces and the same code only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from profiler import open_run
from profiler.model.requests import Floats, Ints
from profiler.model.steps import StepLabel
from profiler.model.trace import Trace
from profiler.store import derived as module
from profiler.store import opening
from profiler.store.derived import derived
from tests.store.test_opening import assert_same
from tests.strategies import small_trace, written

CODE = ("profiler.store.derived",)


@dataclass(frozen=True)
class Made:
    """Something of every kind that is kept."""

    columns: Mapping[str, Floats]
    numbers: Ints
    flags: np.ndarray[tuple[int], np.dtype[np.bool_]]
    text: str
    share: float
    none: float | None
    inner: tuple[StepLabel, ...]


MADE = Made(
    {"a": np.array([1.5, np.nan, -np.inf]), "": np.zeros(0)},
    np.array([2**62, -1]),
    np.array([True, False]),
    "日本",
    np.float64(0.1),
    None,
    (StepLabel(), StepLabel(phase="decode", requests=3)),
)


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    monkeypatch.setattr(opening, "CACHED_FROM", 0)
    written(small_trace(), tmp_path / "x.pt.trace.json")
    return open_run(tmp_path).traces[0]


class Maker:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> Made:
        self.asked += 1
        return MADE

    def get(self, *traces: Trace, what: str = "made") -> Made:
        return derived(traces, what, Made, CODE, self)


def test_what_was_made_comes_back_as_it_was(trace: Trace) -> None:
    make = Maker()
    first, second = make.get(trace), make.get(trace)
    assert make.asked == 1 and first is MADE and second is not MADE
    assert_same(replace(first, share=0.1), second)
    second.numbers[0] = 1  # as any column that was made


def test_other_names_traces_labels_and_code_are_told_apart(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Maker()
    make.get(trace)
    make.get(trace, what="other")
    make.get(trace, trace)
    assert make.asked == 3
    for changed in (replace(trace, path="elsewhere"), replace(trace, labels={0: StepLabel(phase="decode")})):
        make.asked = 0
        make.get(changed)
        make.get(changed)
        assert make.asked == 1
    make.get(trace)
    monkeypatch.setattr(module, "code_of", lambda *_: "other code")
    make.asked = 0
    make.get(trace)
    make.get(trace)
    assert make.asked == 1


def test_a_changed_file_is_another_trace(trace: Trace, tmp_path: Path) -> None:
    make = Maker()
    make.get(trace)
    path = tmp_path / "x.pt.trace.json"
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    make.get(open_run(tmp_path).traces[0])
    assert make.asked == 2


def test_nothing_is_kept_of_a_trace_that_is_not(trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Maker()
    bare = replace(trace, kept=None)
    for _ in range(2):
        make.get(bare)
        make.get(trace, bare)
    monkeypatch.setattr(module, "code_of", lambda *_: None)
    make.get(trace)
    assert make.asked == 5 and not list((tmp_path / ".profiler").glob("*.derived"))


@pytest.mark.parametrize("keep", [0, 10, -3])
def test_what_is_damaged_is_made_again(keep: int, trace: Trace, tmp_path: Path) -> None:
    make = Maker()
    make.get(trace)
    (file,) = (tmp_path / ".profiler").glob("*.derived")
    whole = file.read_bytes()
    file.write_bytes(whole[:keep])
    assert_same(make.get(trace), MADE)
    assert make.asked == 2 and file.read_bytes() == whole
    at = len(whole) // 2
    file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    make.get(trace)
    assert make.asked == 3


@pytest.mark.parametrize("column", [["|O", b"12345678"], ["no type", b""], ["<i8", b"123"], "text"])
def test_a_forged_column_is_no_object(column: object, trace: Trace, tmp_path: Path) -> None:
    make = Maker()
    make.get(trace)
    (file,) = (tmp_path / ".profiler").glob("*.derived")
    kept = msgspec.msgpack.decode(module.zstd.decompress(file.read_bytes()))
    kept["value"]["numbers"] = column
    file.write_bytes(module.zstd.compress(msgspec.msgpack.encode(kept)))
    assert_same(make.get(trace), MADE)
    assert make.asked == 2


def test_a_disk_that_takes_nothing_is_no_error(trace: Trace, tmp_path: Path) -> None:
    make = Maker()
    gone = replace(trace, kept=tmp_path / "nowhere" / "x")
    make.get(gone)
    make.get(gone)
    assert make.asked == 2
