"""What runs inside other programs: a capture around an offline engine, and the stat logger inside vLLM's server.

Torch and vLLM are stood in for here; the tests of real engines run both for true.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import profiler
from profiler import open_run
from profiler.errors import UsageError


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A torch without a device, whose profiler notes what it is told."""
    module = types.ModuleType("torch")
    module.told = []  # type: ignore[attr-defined]

    class Profile:
        def __init__(self, **options: Any) -> None:
            self.ready = options["on_trace_ready"]
            module.told.append(("schedule", options["schedule"]))  # type: ignore[attr-defined]

        def __enter__(self) -> None:
            module.told.append("begun")  # type: ignore[attr-defined]

        def __exit__(self, *_: object) -> None:
            module.told.append("ended")  # type: ignore[attr-defined]
            self.ready(self)

        def step(self) -> None:
            module.told.append("step")  # type: ignore[attr-defined]

        def export_chrome_trace(self, path: str) -> None:
            Path(path).write_bytes(b"")

    module.profiler = types.SimpleNamespace(  # type: ignore[attr-defined]
        profile=Profile, ProfilerActivity=types.SimpleNamespace(CPU=0, CUDA=1), schedule=lambda **steps: steps
    )
    module.cuda = types.SimpleNamespace(is_available=lambda: False)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


class Engine:
    """An offline engine with a profiler of its own."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def start_profile(self) -> None:
        self.told.append("start")

    def stop_profile(self) -> None:
        self.told.append("stop")


def test_a_capture_traces_the_steps_that_were_asked_for(torch: Any, tmp_path: Path) -> None:
    with profiler.capture(tmp_path / "run", steps=2, skip=3) as capture:
        capture.step()
    assert torch.told == [("schedule", {"wait": 2, "warmup": 1, "active": 2, "repeat": 1}), "begun", "step", "ended"]
    assert [path.name.startswith("rank0.") for path in (tmp_path / "run" / "trace").iterdir()] == [True]
    assert open_run(tmp_path / "run").fact("recording.state") == "done"


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(
    ("steps", "skip", "calls", "told"),
    [(None, 0, 3, ["start", "stop"]), (2, 0, 1, ["start", "stop"]), (2, 1, 5, ["start", "stop"]), (2, 4, 2, [])],
)
def test_an_engines_own_profiler_is_stopped_once(
    tmp_path: Path, steps: int | None, skip: int, calls: int, told: list[str]
) -> None:
    engine = Engine()
    with profiler.capture(tmp_path / "run", engine, steps, skip) as capture:
        for _ in range(calls):
            capture.step()
    assert engine.told == told


@pytest.mark.usefixtures("torch")
def test_an_exception_stops_the_engines_profiler_and_leaves_a_run(tmp_path: Path) -> None:
    engine = Engine()
    with pytest.raises(ZeroDivisionError), profiler.capture(tmp_path / "run", engine):
        raise ZeroDivisionError
    assert engine.told == ["start", "stop"]
    assert open_run(tmp_path / "run").fact("recording.state") == "interrupted"


def test_what_a_capture_needs_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match=r"serving-profiler\[torch\]"):
        profiler.capture(tmp_path / "run").__enter__()
    with pytest.raises(UsageError, match="start_profile"):
        profiler.capture(tmp_path / "run", engine=object())
    with pytest.raises(UsageError, match="at least one step"):
        profiler.capture(tmp_path / "run", steps=0)
    assert not (tmp_path / "run").exists()


@dataclass
class Hits:
    queries: int = 40
    hits: int = 10


@dataclass
class Details:
    num_ctx_requests: int = 1
    num_ctx_tokens: int = 30
    num_generation_requests: int = 2
    num_generation_tokens: int = 2
    elapsed_ms: float = 4.0
    iteration_index: int = 0


@dataclass
class Stats:
    num_running_reqs: int = 3
    num_waiting_reqs: int = 1
    step_counter: int = 0
    kv_cache_usage: float = 0.25
    prefix_cache_stats: Hits = field(default_factory=Hits)
    iteration_details: Details | None = None
    left_out: list[str] = field(default_factory=lambda: ["x"] * 1000)


@pytest.fixture
def step_log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module as vLLM imports it."""
    base = types.ModuleType("vllm.v1.metrics.loggers")
    base.StatLoggerBase = object  # type: ignore[attr-defined]
    for name in ("vllm", "vllm.v1", "vllm.v1.metrics"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, base.__name__, base)
    name = "profiler.collectors.engines.vllm_step_log"
    yield importlib.import_module(name)
    sys.modules.pop(name)


def test_the_stat_logger_is_inert_until_it_is_asked_for(
    step_log: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROFILER_STEP_LOG", raising=False)
    logger = step_log.StepLog(None)
    logger.record(Stats(), None)
    logger.log_engine_initialized()
    assert list(tmp_path.iterdir()) == []


def test_its_steps_are_read_as_they_were(step_log: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROFILER_STEP_LOG", str(tmp_path / "steps.jsonl"))
    first, second = step_log.StepLog(None), step_log.StepLog(None, 1)
    for number in range(3):
        first.record(Stats(iteration_details=Details(iteration_index=number)), None)
    first.record(None, None)
    second.record(Stats(), None, engine_idx=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["steps.1.jsonl", "steps.jsonl"]
    assert "left_out" not in json.loads((tmp_path / "steps.jsonl").read_text().splitlines()[0])["sched"]
    own = [json.loads(line)["own_seconds"] for line in (tmp_path / "steps.jsonl").read_text().splitlines()]
    assert own[0] == 0 and sorted(own) == own and own[-1] > 0
    (log,) = open_run(tmp_path / "steps.jsonl").logs
    assert log.every_step and log.steps.prefill_tokens.tolist() == [30] * 3
    assert log.steps.decode_requests.tolist() == [2] * 3 and log.steps.seconds == pytest.approx([0.004] * 3)


def test_a_full_disk_ends_the_log_and_not_the_server(step_log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROFILER_STEP_LOG", "/dev/full")
    logger = step_log.StepLog(None)
    for _ in range(3):
        logger.record(Stats(), None)
