"""``record`` and ``watch`` on a real vLLM: what is found, what is written, and that its profiler is let go."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from profiler import diagnose, open_run
from profiler.collectors.host.pyspy import program
from tests.engines.servers import PROGRAM, Running, load, profiler
from tests.strategies import ROOT

pytestmark = pytest.mark.engines


def test_it_is_found_with_its_processes_and_settings(vllm: Running) -> None:
    told = json.loads(profiler("doctor", "--url", vllm.url, "--json").stdout)
    assert told["engine"].startswith("vLLM 0.32.0") and told["settings"]["setting.max_num_seqs"] == 16
    roles = {one["role"] for one in told["processes"]}
    assert {"api server", "engine core", "worker"} <= roles
    pieces = {one["name"]: one for one in told["pieces"]}
    for name in ("metrics", "settings", "log", "trace", "every step in the log"):
        assert pieces[name]["ready"], pieces[name]
    by_pid = json.loads(profiler("doctor", "--pid", vllm.process.pid, "--json").stdout)
    assert by_pid["engine"] == told["engine"]


def test_a_measured_pass_and_a_traced_one_make_a_run(vllm: Running, tmp_path: Path) -> None:
    bench = [
        vllm.python.with_name("vllm"), "bench", "serve", "--base-url", vllm.url, "--model", "tiny", "--tokenizer",
        vllm.model, "--dataset-name", "random", "--random-input-len", "64", "--random-output-len", "32",
        "--num-prompts", "400", "--max-concurrency", "8", "--ignore-eos", "--save-result", "--save-detailed",
        "--result-dir", "{run}", "--result-filename", "bench.json",
    ]  # fmt: skip
    done = profiler("record", "--url", vllm.url, "--out", tmp_path / "run", "--profile", "--", *bench)
    assert done.returncode == 0, done.stderr
    run = open_run(tmp_path / "run")
    assert run.fact("engine.version") == "0.32.0" and run.fact("setting.max_num_seqs") == 16
    assert len(run.benches) == 1 and run.benches[0].completed == 400
    assert len(run.traces) == 1 and len(run.snapshots) >= 3
    told = json.loads((tmp_path / "run" / "run.json").read_text())["recording"]
    assert told["state"] == "done" and told["trace"]["toll"] > 0
    # The log and the stat logger tell of the same steps, and of no step of the traced pass.
    by_file = {log.path: log for log in run.logs}
    logged, recorded = by_file["server.log"], by_file["steps.jsonl"]
    # A record without a time is of a moment in which requests ended and none ran.
    timed = np.isfinite(recorded.steps.seconds)
    assert recorded.every_step and timed.mean() > 0.9 and abs(len(logged.steps) - int(timed.sum())) <= 2
    found = diagnose(tmp_path / "run", tmp_path / "run")
    assert found.verdict.status == "no difference" and profiler("inspect", tmp_path / "run").returncode == 0


def test_the_profiler_is_free_again_after_a_termination(vllm: Running, tmp_path: Path) -> None:
    before = set(vllm.traces.glob("*.pt.trace.json*"))
    log = vllm.traces.parent / "server.log"
    logged = log.stat().st_size
    words = ["record", "--url", vllm.url, "--out", str(tmp_path / "a"), "--profile", "--trace-steps", "1000"]
    process = subprocess.Popen(
        [*PROGRAM, *words, "--trace-seconds", "60s", "--", *load(vllm.url, 300)],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while b"POST /start_profile" not in log.read_bytes()[logged:] and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 130, said
    assert set(vllm.traces.glob("*.pt.trace.json*")) > before
    again = profiler("record", "--url", vllm.url, "--out", tmp_path / "b", "--profile", "--", *load(vllm.url))
    assert again.returncode == 0, again.stderr
    assert len(open_run(tmp_path / "b").traces) == 1


@pytest.mark.parametrize("native", [False, True])
def test_host_stacks_of_its_core_and_worker_state_their_toll(vllm: Running, tmp_path: Path, native: bool) -> None:
    if program() is None:
        pytest.skip("py-spy is not installed")
    words = ["record", "--url", vllm.url, "--out", tmp_path / "run", "--native" if native else "--stacks"]
    done = profiler(*words, "--", *load(vllm.url, 1600))
    assert done.returncode == 0, done.stderr
    found = {path.name.rsplit("-", 1)[0]: path.read_text() for path in tmp_path.glob("run/stacks/*.txt")}
    assert set(found) == {"engine-core", "worker"}
    # Frames of a library have no line of a Python file.
    libraries = re.compile(r"\(\S*(?:\.so|libc|libtorch|libstdc)")
    assert bool(libraries.search(found["worker"])) == native, found["worker"][:2000]
    costs = {
        one["collector"]: one for one in json.loads((tmp_path / "run" / "run.json").read_text())["recording"]["costs"]
    }
    assert costs["host stacks"]["toll"] > 0.3 and costs["host stacks"]["cpu_seconds"] > 0
    # The stat logger says what it took of the server.
    assert costs["steps"]["server_seconds"] > 0 and costs["metrics"]["server_seconds"] is None
    shown = profiler("inspect", tmp_path / "run").stdout
    assert "recording.cost.host stacks" in shown and "as many tokens a second" in " ".join(shown.split())


def test_it_can_be_watched(vllm: Running) -> None:
    busy = subprocess.Popen(load(vllm.url, 100_000), stdout=subprocess.DEVNULL)
    try:
        done = profiler("watch", "--url", vllm.url, "--every", "500ms", "--duration", "20s")
    finally:
        busy.kill()
        busy.wait()
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) >= 3
    running = [int(found[1]) for line in lines if (found := re.search(r"running (\d+), waiting 0", line))]
    assert 0 < max(running) <= 8 and all("tokens/s" in line for line in lines), done.stdout


def test_a_capture_in_this_process_is_a_run(vllm: Running, tmp_path: Path) -> None:
    """Under the engine's interpreter, which has torch."""
    program = (
        "import sys, torch, profiler\n"
        "model = torch.nn.Linear(64, 64)\n"
        "with profiler.capture(sys.argv[1], steps=3, skip=2) as capture:\n"
        "    for _ in range(6):\n"
        "        with capture.range('execute_context_0(0)_generation_4(4)'):\n"
        "            model(torch.ones(4, 64))\n"
        "        capture.step()\n"
    )
    done = subprocess.run(
        [str(vllm.python), "-c", program, str(tmp_path / "run")],
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    run = open_run(tmp_path / "run")
    (trace,) = run.traces
    marked = [at for at, name in enumerate(trace.names) if name.startswith("execute_context")]
    assert int(np.isin(trace.events.name, marked).sum()) == 3
    assert run.fact("recording.state") == "done"
