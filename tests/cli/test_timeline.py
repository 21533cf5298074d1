"""The timeline's file: slices that lie where the trace says, aligned runs, launches tied to kernels, idle time named."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from profiler.analyzers.device import accounts_of
from tests.cli.conftest import Invoke
from tests.conftest import Lab
from tests.strategies import KINETO, small_trace, written


def events_of(path: Path) -> list[dict[str, Any]]:
    document: dict[str, list[dict[str, Any]]] = json.loads(gzip.decompress(path.read_bytes()))
    return document["traceEvents"]


def slices(events: list[dict[str, Any]], category: str) -> list[dict[str, Any]]:
    return [event for event in events if event["ph"] == "X" and event["cat"] == category]


def test_two_runs_are_aligned_at_equal_steps(invoke: Invoke, lab: Lab, tmp_path: Path) -> None:
    pair, out = lab("graphs-off"), tmp_path / "t.json.gz"
    status, _, err = invoke("timeline", pair.b.path, "--against", pair.a.path, "--out", out)
    assert status == 0
    assert "ui.perfetto.dev" in err
    events = events_of(out)
    steps = slices(events, "step")
    by_process = {pid: [s for s in steps if s["pid"] == pid] for pid in {s["pid"] for s in steps}}
    assert len(by_process) == 2
    firsts = [rows[0] for rows in by_process.values()]
    assert [first["ts"] for first in firsts] == [0.0, 0.0]
    assert firsts[0]["args"] == firsts[1]["args"]
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert {"run-B: gpu 0", "run-A: gpu 0", "run-A: gpu 0, idle", "run-B: host"} <= names


def test_it_begins_at_the_moment_that_a_report_names(invoke: Invoke, lab: Lab, tmp_path: Path) -> None:
    pair, out = lab("graphs-off"), tmp_path / "t.json.gz"
    moment = next(m for m in pair.forward.moments if m.run == "b" and m.cause == "cuda_graph")
    shown = next(s for s in pair.forward.timelines[moment.pair].steps if s.run == "b")
    status, _, _ = invoke("timeline", pair.b.path, "--at", f"{moment.at:.6f}s", "--steps", "1", "--out", out)
    assert status == 0
    (step,) = slices(events_of(out), "step")
    assert step["name"].endswith(f" {shown.step}")
    assert invoke("timeline", pair.b.path, "--at", "1s", "--whole", "--out", out)[0] == 2
    out.unlink()
    status, _, err = invoke("timeline", pair.b.path, "--at", "99s", "--out", out)
    assert status == 2 and "ends after" in err and not out.exists()


def test_arrows_lead_from_launches_to_kernels(invoke: Invoke, lab: Lab, tmp_path: Path) -> None:
    out = tmp_path / "t.json.gz"
    invoke("timeline", lab("graphs-off").b.path, "--out", out)
    events = events_of(out)
    starts = {e["id"]: e["ts"] for e in events if e["ph"] == "s"}
    ends = {e["id"]: e["ts"] for e in events if e["ph"] == "f"}
    tied = starts.keys() & ends.keys()
    assert len(tied) > 100
    assert all(starts[key] <= ends[key] for key in tied)


@pytest.mark.parametrize(
    "name", ["vllm-mixed-piecewise-mi300x", "lightllm-ep8-decode-h200-rank0", "hf-qwen1.5-0.5b-h100"]
)
def test_the_whole_of_a_real_trace(name: str, invoke: Invoke, tmp_path: Path) -> None:
    path = KINETO / f"{name}.pt.trace.json.gz"
    if not path.is_file():
        pytest.skip("the corpus of real files is not on this machine")
    from profiler import open_run

    out = tmp_path / "t.json.gz"
    assert invoke("timeline", path, "--whole", "--out", out)[0] == 0
    events = events_of(out)
    (account,) = accounts_of(open_run(path).traces[0])
    idle = sum(s["dur"] for s in slices(events, "idle"))
    assert idle * 1e3 == pytest.approx(account.window_ns - account.busy_ns, rel=1e-6, abs=100)
    device = {e["pid"] for e in events if e["name"] == "process_name" and e["args"]["name"].endswith(account.device)}
    kernels = [e for e in events if e["ph"] == "X" and e["pid"] in device]
    assert len(kernels) >= account.kernels


def test_a_trace_without_steps_is_told_what_to_do(invoke: Invoke, tmp_path: Path) -> None:
    path = KINETO / "gpu-only-mi210.pt.trace.json.gz"
    if not path.is_file():
        pytest.skip("the corpus of real files is not on this machine")
    status, _, err = invoke("timeline", path, "--out", tmp_path / "t.json.gz")
    assert status == 2
    assert "--whole" in err


def test_a_generated_trace_lies_where_it_was_put(invoke: Invoke, tmp_path: Path) -> None:
    built = small_trace()
    path = written(built, tmp_path / "r.pt.trace.json")
    out = tmp_path / "t.json.gz"
    assert invoke("timeline", path, "--whole", "--out", out)[0] == 0
    events = events_of(out)
    first = min(b.start for b in built if b.on_device)
    stated = sorted((b.name, (b.start - first) / 1e3, b.duration / 1e3) for b in built if b.on_device)
    pid = next(e["pid"] for e in events if e["name"] == "process_name" and e["args"]["name"].endswith("gpu 0"))
    found = sorted((e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X" and e["pid"] == pid)
    assert [row[0] for row in found] == [row[0] for row in stated]
    assert [x for row in found for x in row[1:]] == pytest.approx([x for row in stated for x in row[1:]])
