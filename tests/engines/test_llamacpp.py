"""llama.cpp's own server: found, measured, recorded; what it tells of itself and what it does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from profiler import diagnose, open_run
from tests.engines import installed
from tests.engines.servers import PROGRAM, free_port, profiler, serving

pytestmark = pytest.mark.engines


def test_it_is_found_measured_and_recorded(tmp_path: Path) -> None:
    python = installed.llamacpp()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    program = str(Path(__file__).with_name("llamacpp_server.py"))
    command = [str(python), program, str(tmp_path / "tiny.gguf"), str(port), "4"]
    load = [
        *PROGRAM, "bench", "--url", url, "--out", "{run}", "--concurrency", "8", "--requests", "60", "--input-tokens",
        "32", "--output-tokens", "16", "--vocabulary", "250",
    ]  # fmt: skip
    with serving(command, url, "/health", tmp_path / "server.log", {}, 60):
        told = json.loads(profiler("doctor", "--url", url, "--json").stdout)
        done = profiler("record", "--url", url, "--out", tmp_path / "run", "--every", "200ms", "--", *load)
    assert told["engine"].startswith("llama.cpp") and told["settings"]["setting.max_num_seqs"] == 4
    pieces = {one["name"]: one for one in told["pieces"]}
    assert pieces["metrics"]["ready"] and pieces["settings"]["ready"] and pieces["log"]["ready"]
    assert not pieces["trace"]["ready"]
    assert done.returncode == 0, done.stderr
    run = open_run(tmp_path / "run")
    assert run.fact("engine.name") == "llamacpp" and run.fact("setting.max_num_seqs") == 4
    (bench,) = run.benches
    assert bench.completed == 60 and bench.total_output_tokens == 60 * 16
    first, last = run.snapshots[0].values, run.snapshots[-1].values
    # The load's warm-up is in the counter too: ten requests.
    assert last["generation_tokens"] - first["generation_tokens"] == 70 * 16
    assert max(one.values["running_requests"] for one in run.snapshots) <= 4
    assert (tmp_path / "run" / "server.log").stat().st_size > 0
    assert diagnose(tmp_path / "run", tmp_path / "run").verdict.status == "no difference"
    assert profiler("inspect", tmp_path / "run").returncode == 0
