"""Tables that outgrow memory: the same table whether or not it went to a file, and memory that does not follow size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profiler import open_run
from profiler.errors import BadInput
from profiler.model.trace import EventTable, Trace
from profiler.store import growing
from profiler.store.growing import GrowingColumn, in_blocks, let_go
from tests.strategies import CORPUS, ROOT, document, event_texts, small_trace


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=9), max_size=6),
    dtype=st.sampled_from([np.int32, np.int64]),
    most=st.integers(0, 20),
)
def test_a_column_is_what_was_appended_wherever_it_went(
    parts: list[list[int]], dtype: type, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "MOST_ROWS", most)
    column = GrowingColumn(dtype)
    for part in parts:
        column.append(np.array(part, dtype))
    whole = column.done()
    let_go(whole)
    assert whole.tolist() == [value for part in parts for value in part]
    assert whole.dtype == dtype and len(column) == len(whole) and not whole.flags.writeable


def _same(one: Trace, two: Trace) -> None:
    for field in EventTable.__dataclass_fields__:
        assert np.array_equal(getattr(one.events, field), getattr(two.events, field)), field
    assert (one.names, one.threads, one.labels, one.phases) == (two.names, two.threads, two.labels, two.phases)


@pytest.mark.parametrize("name", ["trace.json", "nsys"])
def test_a_run_that_outgrows_memory_is_the_same_run_read_and_reopened(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    if name == "nsys":
        real = CORPUS / "nsys" / "nsys-ai" / "h100_2gpu_1s.sqlite"
        if not real.exists():
            pytest.skip("the corpus of real files is not on this machine")
        path.write_bytes(real.read_bytes())
    else:
        # Above the size from which tables are kept.
        path.write_bytes(document(event_texts(small_trace(40, 40)), ending=True) + b" " * (1 << 20))
    held = open_run(path).traces
    for kept in (tmp_path / ".profiler").glob("*"):
        kept.unlink()
    monkeypatch.setattr(growing, "MOST_ROWS", 10)
    monkeypatch.setattr(growing, "BLOCK", 7)
    for opening in (1, 2):
        found = open_run(path).traces
        assert len(found) == len(held) > 0, opening
        for one, two in zip(held, found, strict=True):
            _same(one, two)
            assert sum(len(block) for block in in_blocks(two.events)) == len(one.events) > 10


def test_a_full_disk_is_said_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(document(event_texts(small_trace(2, 2))))
    monkeypatch.setattr(growing, "MOST_ROWS", 1)
    monkeypatch.setattr(growing, "_place", lambda: Path("/proc"))
    with pytest.raises(BadInput, match="TMPDIR"):
        GrowingColumn(np.int64).append(np.zeros(2, np.int64))
    (problem,) = [p for p in open_run(path).problems if p.severity == "error"]
    assert "could not be kept in /proc" in problem.detail and "TMPDIR" in problem.detail


MEASURE = """
import json, sys
from pathlib import Path
from profiler import open_run
from profiler.store import column_file, growing
growing.MOST_ROWS = growing.BLOCK = column_file.BLOCK = 1 << 16
(trace,) = open_run(Path(sys.argv[1])).traces
said = dict(line.split(":") for line in open("/proc/self/status") if line.startswith("Vm"))
print(json.dumps([len(trace.events), int(said["VmHWM"].split()[0]) * 1024]))
"""


def test_the_memory_that_reading_takes_does_not_grow_with_the_trace(tmp_path: Path) -> None:
    peaks = []
    for events in (400_000, 1_200_000):
        path = tmp_path / f"{events}.json"
        row = '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":%d.5,"dur":2,"args":{"stream":7}}'
        with path.open("w") as out:
            out.write('{"traceEvents":[' + row % 0)
            out.writelines("," + row % (3 * i) for i in range(1, events))
            out.write("]}")
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, "-c", MEASURE, str(path)], check=True, capture_output=True, text=True, cwd=ROOT
            )
            found, peak = json.loads(done.stdout)
            assert found == events
            peaks.append(peak)
    # In memory alone 800,000 further events would be 49 MB.
    assert peaks[2] - peaks[0] < 16 << 20 and peaks[3] - peaks[1] < 16 << 20, peaks
