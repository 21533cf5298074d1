"""The file of a load as a run reads it: its numbers, what it says of the client itself, and what damage does to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profiler import diagnose
from profiler.model.run import Reading
from tests.mock_server import Script, serving

Read = Callable[[Path], tuple[str, Reading]]
MS = 1_000_000


def load(lines: list[dict[str, Any]], tmp_path: Path, read: Read, **point: Any) -> Reading:
    """A file of these records: each 100 ms to the first of two chunks, 10 ms between them, if not said otherwise."""
    head = {
        "type": "load", "schema": "profiler.load/1", "version": "0", "url": "http://h:1", "model": "m", "engine": None,
        "endpoint": "completions", "plan": "ab", "source": "drawn at random", "seed": 0, "prompts": "ids", "index": 0,
        "point": {"rate": 10.0, "arrival": "poisson"} | point, "requests": len(lines), "processes": 1,
        "ignore_eos": True, "timeout": 600.0,
    }  # fmt: skip
    record = {"type": "record", "phase": "load", "ok": True, "end": 120 * MS, "status": 200, "output": 2, "input": 7,
              "counted": "usage", "chunks": [100 * MS, 110 * MS]}  # fmt: skip
    end = {"type": "end", "stopped": None, "unsent": 0, "ended": 10**18, "clock": 0,
           "senders": [{"type": "done", "unsent": 0, "loop_p99": 0.001, "loop_max": 0.002, "cpu": 0.2}]}  # fmt: skip
    for line in lines:
        if line.get("type") == "end":
            end |= line
    written = [head, {"type": "zero", "epoch": 10**18}, *(record | one for one in lines if "type" not in one), end]
    path = tmp_path / "load.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in written))
    name, reading = read(path)
    assert name == "profiler_bench"
    return reading


def warned(reading: Reading) -> str:
    return " | ".join(problem.detail for problem in reading.problems if problem.severity == "warning")


def test_a_good_file(samples: Path, read: Read) -> None:
    name, reading = read(samples / "profiler_bench" / "load.jsonl")
    (bench,) = reading.benches
    assert name == "profiler_bench" and (bench.completed, bench.failed) == (7, 1)
    assert bench.requests is not None and len(bench.requests) == 8 and not bench.requests.ok[5]
    assert bench.total_output_tokens == bench.requests.output_tokens[bench.requests.ok].sum()
    assert 0.02 <= float(np.nanmin(bench.requests.ttft)) < 0.2
    assert reading.facts["engine.name"].value == "vllm" and reading.facts["engine.name"].inferred
    assert not reading.facts["workload.plan"].inferred


def test_a_cut_file_gives_what_stands_before_the_cut(samples: Path, read: Read) -> None:
    _, reading = read(samples / "profiler_bench" / "truncated.jsonl")
    assert 1 <= reading.benches[0].completed < 7
    assert "the file has no end" in warned(reading)
    assert any(problem.severity == "error" and "line" in str(problem.place) for problem in reading.problems)


def test_damaged_lines_are_counted_and_left_out(samples: Path, read: Read) -> None:
    _, reading = read(samples / "profiler_bench" / "malformed.jsonl")
    (error,) = [problem for problem in reading.problems if problem.severity == "error"]
    assert error.count == 3 and error.place == "line 5"
    assert reading.benches[0].completed + reading.benches[0].failed >= 5


def test_a_plan_is_known_for_what_it_is(samples: Path, read: Read) -> None:
    name, reading = read(samples / "profiler_bench" / "plan.jsonl")
    assert name == "profiler_plan" and "--plan" in reading.problems[0].detail


def test_times_are_exact(tmp_path: Path, read: Read) -> None:
    lines = [{"i": i, "due": i * 50 * MS, "sent": i * 50 * MS + MS} for i in range(10)]
    (bench,) = load(lines, tmp_path, read).benches
    assert bench.requests is not None
    assert bench.requests.ttft.tolist() == [0.1] * 10 and bench.requests.e2e.tolist() == [0.11] * 10
    assert bench.requests.itl.tolist() == [0.01] * 10
    assert bench.duration == pytest.approx(0.45 + 0.11, abs=1e-6)
    assert bench.metadata["send_lag_p99_ms"] == "1.00"


def test_requests_stand_in_the_order_of_the_plan(tmp_path: Path, read: Read) -> None:
    lines = [{"i": i, "sent": (9 - i) * MS, "output": i + 1} for i in range(10)]
    (bench,) = load(lines, tmp_path, read).benches
    assert bench.requests is not None and bench.requests.output_tokens.tolist() == list(range(1, 11))


@pytest.mark.parametrize(
    ("late", "sender", "says"),
    [
        (50, {}, "requests left up to 50.0 ms late"),
        (0, {"loop_p99": 0.03}, "its event loop was 30.0 ms behind"),
        (0, {"cpu": 0.93}, "a process used 93% of a core"),
        (9, {"loop_p99": 0.009, "cpu": 0.7}, ""),  # a tenth of the median TTFT is the bound
    ],
)
def test_a_client_that_could_not_keep_up_is_told(
    late: int, sender: dict[str, float], says: str, tmp_path: Path, read: Read
) -> None:
    done = {"type": "done", "unsent": 0, "loop_p99": 0.001, "loop_max": 0.002, "cpu": 0.2} | sender
    lines = [{"i": i, "due": i * MS, "sent": (i + late) * MS} for i in range(20)]
    reading = load([*lines, {"type": "end", "senders": [done]}], tmp_path, read)
    assert says in warned(reading) and ("did not keep up" in warned(reading)) == bool(says)
    assert ("more --processes" in warned(reading)) == (done["cpu"] > 0.9)
    assert ("a core, or a machine, of its own" in warned(reading)) == (bool(says) and done["cpu"] < 0.3)


def test_lateness_by_a_limit_in_flight_is_no_fault_of_the_client(tmp_path: Path, read: Read) -> None:
    lines = [{"i": i, "due": 0, "sent": i * 100 * MS} for i in range(20)]
    said = warned(load(lines, tmp_path, read, concurrency=1))
    assert "the limit of 1 in flight held requests back" in said and "mean 1.050 s" in said
    assert "did not keep up" not in said


def test_a_plan_that_ended_before_its_time_is_told(tmp_path: Path, read: Read) -> None:
    lines = [{"i": i, "sent": i * MS} for i in range(20)]
    said = warned(load(lines, tmp_path, read, rate=None, concurrency=2, duration=30.0))
    assert "all 20 planned requests were sent after 0.0 s of 30 s" in said
    assert "planned requests" not in warned(load(lines, tmp_path, read, rate=None, concurrency=2, duration=0.01))
    assert "planned requests" not in warned(load(lines, tmp_path, read, duration=30.0))


def test_failures_are_told_by_kind(tmp_path: Path, read: Read) -> None:
    lines = [
        {"i": i, "sent": 0, "ok": False, "kind": "http", "error": "status 503: busy", "chunks": []} for i in (0, 1)
    ]
    reading = load([*lines, {"i": 2, "sent": 0}], tmp_path, read)
    assert [p.count for p in reading.problems if p.detail == "http: status 503: busy"] == [2]
    assert (reading.benches[0].completed, reading.benches[0].failed) == (1, 2)


def test_a_warm_up_alone_is_no_result(tmp_path: Path, read: Read) -> None:
    reading = load([{"i": 0, "sent": 0, "phase": "warmup"}, {"type": "end", "stopped": "server lost"}], tmp_path, read)
    assert reading.benches == () and "no request of the load was sent" in warned(reading)
    assert "server lost" in warned(reading)


def test_two_engines_under_one_plan_are_diagnosed(tmp_path: Path) -> None:
    """A twice slower server loses, and the comparison is fair in what the client can know."""
    import profiler

    plan = None
    for name, itl in (("a", 0.004), ("b", 0.012)):
        with serving(Script(itl=itl, owner="vllm")) as mock:
            url = f"http://127.0.0.1:{mock.port}"
            how: dict[str, Any] = (
                {"plan": plan} if plan else {"concurrency": [4], "requests": 40, "output_tokens": "16"}
            )
            profiler.bench(url, tmp_path / name, **how)
        plan = tmp_path / "a" / "load" / "plan.jsonl"
    document = diagnose(tmp_path / "a", tmp_path / "b")
    (gap,) = [one for one in document.gaps if one.metric == "output_throughput"]
    assert gap.gap < 0
    rules = {rule.rule: rule.status for rule in document.fairness}
    assert {rules[name] for name in ("same_requests", "same_prompt_tokens", "same_output_tokens", "same_load",
                                     "no_failures", "same_model", "one_definition")} == {"pass"}  # fmt: skip
