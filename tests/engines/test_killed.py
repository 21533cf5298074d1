"""A real vLLM that dies by SIGKILL while its profiler session runs: the recording ends, and whatever else runs is let go."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from profiler import open_run
from tests.engines.conftest import vllm_server
from tests.engines.round_robin import router
from tests.engines.servers import PROGRAM, Running, load, profiler
from tests.strategies import ROOT

pytestmark = pytest.mark.engines


def recorded(url: str, run: Path, log: Path, then: Callable[[], None]) -> tuple[int, str]:
    """A recording with a session of up to a minute, in which something happens: (exit status, standard error)."""
    words = ["record", "--url", url, "--out", str(run), "--profile", "--trace-steps", "1000", "--trace-seconds", "60s"]
    process = subprocess.Popen(
        [*PROGRAM, *words, "--", *load(url, 300)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 200
    while b"POST /start_profile" not in log.read_bytes() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    then()
    return process.wait(timeout=200), process.communicate()[1]


def test_one_of_two_that_is_killed_in_its_session(vllm: Running, tmp_path: Path) -> None:
    folder, run = tmp_path / "second", tmp_path / "run"
    folder.mkdir()
    with (
        vllm_server(vllm.python, vllm.model, folder, "server.log", {}) as mortal,
        router((vllm.url, mortal.url)) as url,
    ):

        def kill() -> None:
            os.killpg(mortal.process.pid, signal.SIGKILL)
            mortal.process.wait()

        status, said = recorded(url, run, folder / "server.log", kill)
    assert status == 3 and "problem: worker-1: trace: the server was lost while its profiler ran: " in said, said
    assert "problem: worker-0" not in said, said
    opened = open_run(run)
    assert opened.fact("recording.state") == "incomplete" and list(opened.workers) == ["worker-0", "worker-1"]
    assert [trace.path.split("/")[0] for trace in opened.traces] == ["worker-0"]
    # The other one's profiler is free again.
    again = profiler("record", "--url", vllm.url, "--out", tmp_path / "again", "--profile", "--", *load(vllm.url))
    assert again.returncode == 0, again.stderr


def test_one_whose_engine_core_is_killed_in_its_session(vllm: Running, tmp_path: Path) -> None:
    """Its API server outlives it for a moment, and so does its worker, which may still write what it has traced."""
    folder, run = tmp_path / "server", tmp_path / "run"
    folder.mkdir()
    with vllm_server(vllm.python, vllm.model, folder, "server.log", {}) as mortal:
        told = json.loads(profiler("doctor", "--url", mortal.url, "--json").stdout)
        (core,) = [one["pid"] for one in told["processes"] if one["role"] == "engine core"]
        status, said = recorded(mortal.url, run, folder / "server.log", lambda: os.kill(core, signal.SIGKILL))
    lost = "problem: trace: the server was lost while its profiler ran: "
    assert status == 3 and (lost in said or "problem: the load ended with status 1 in the second pass" in said), said
    opened = open_run(run)
    assert opened.fact("recording.state") == "incomplete" and len(opened.snapshots) >= 2
    assert any("was lost" in one.detail or "the load ended" in one.detail for one in opened.problems)
    assert all(len(trace.events) for trace in opened.traces)
