"""Which of a run's files are handed to HolisticTraceAnalysis, as which rank. What it makes of them is in tests/peers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from profiler.collectors.torch_trace.hta import rank_files, trace_analysis
from profiler.errors import MissingEvidence, UsageError

EVENT = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1.5, "dur": 2, "pid": 0, "tid": 7, "args": {"stream": 7}}


def trace(path: Path, rank: int | None = None) -> Path:
    info = {} if rank is None else {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 16}}
    path.write_text(json.dumps({"schemaVersion": 1, **info, "traceEvents": [EVENT]}))
    return path


def test_the_rank_that_a_trace_states_counts_and_other_files_are_left_out(tmp_path: Path) -> None:
    second = trace(tmp_path / "a.json", rank=12)
    first = trace(tmp_path / "b-rank3.json")
    (tmp_path / "results.json").write_text('{"completed": 5}')
    assert rank_files(tmp_path) == {3: first, 12: second}
    assert rank_files(second) == {12: second}


def test_traces_that_state_no_rank_are_numbered(tmp_path: Path) -> None:
    assert rank_files(trace(tmp_path / "x.json")) == {0: tmp_path / "x.json"}
    other = trace(tmp_path / "y.json")
    assert rank_files(tmp_path) == {0: tmp_path / "x.json", 1: other}


def test_two_traces_of_one_rank_and_one_without_are_refused(tmp_path: Path) -> None:
    trace(tmp_path / "a.json", rank=1)
    trace(tmp_path / "b.json", rank=1)
    with pytest.raises(UsageError, match=r"states rank 1, as a\.json does"):
        rank_files(tmp_path)
    trace(tmp_path / "b.json")
    with pytest.raises(UsageError, match="states no rank"):
        rank_files(tmp_path)


def test_what_hta_cannot_open_and_a_run_without_traces_are_said(tmp_path: Path) -> None:
    with pytest.raises(MissingEvidence, match="no torch-profiler trace"):
        rank_files(tmp_path)
    trace(tmp_path / "a.trace")
    with pytest.raises(UsageError, match=r"opens \*\.json"):
        rank_files(tmp_path)


def test_without_hta_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hta.trace_analysis", None)
    with pytest.raises(UsageError, match=r"serving-profiler\[hta\]"):
        trace_analysis(trace(tmp_path / "a.json"))
