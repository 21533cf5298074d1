"""SGLang: its own benchmark client against a server that answers as one of its own was recorded; and, where that is
asked for, two real servers on the CPU that differ in one flag."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from profiler import diagnose, open_run
from profiler.analyzers.gap.measured import measure
from profiler.collectors.host.pyspy import program
from tests.engines import installed
from tests.engines.servers import PROGRAM, free_port, profiler, serving
from tests.live_servers import Answer, Asked, served, sglang

pytestmark = pytest.mark.engines


def generated(asked: Asked) -> Answer:
    """``/generate`` as it streams: the text and the counts so far with every event."""
    body = json.loads(asked.body)
    made = body["sampling_params"]["max_new_tokens"]
    prompt = len(body["input_ids"]) if "input_ids" in body else len(body["text"].split())
    events = (
        {"text": "ab " * at, "meta_info": {"prompt_tokens": prompt, "completion_tokens": at, "cached_tokens": 0}}
        for at in range(1, made + 1)
    )
    return 200, "".join(f"data: {json.dumps(one)}\n\n" for one in events) + "data: [DONE]\n\n"


@pytest.mark.usefixtures("corpus")
def test_its_own_client_is_a_load_whose_result_is_read(tmp_path: Path) -> None:
    python = installed.sglang_client()
    model = installed.tiny_model(installed.vllm())
    with served(sglang() | {"POST /generate": generated, "/model_info": "{}"}) as server:
        load = [
            python, "-m", "sglang.bench_serving", "--backend", "sglang", "--base-url", server.url, "--model", "tiny",
            "--tokenizer", model, "--dataset-name", "random-ids", "--random-input-len", "24", "--random-output-len",
            "8", "--random-range-ratio", "1", "--num-prompts", "12", "--max-concurrency", "4", "--output-details",
            "--output-file", "{run}/bench.jsonl",
        ]  # fmt: skip
        done = profiler("record", "--url", server.url, "--out", tmp_path / "run", "--every", "500ms", "--", *load)
        asked = [one for one in server.asked if one.path == "/generate"]
    assert done.returncode == 0, done.stderr
    run = open_run(tmp_path / "run")
    (bench,) = run.benches
    assert (bench.tool, bench.completed, bench.failed) == ("sglang bench_serving", 12, 0)
    assert bench.total_output_tokens == 12 * 8 and bench.max_concurrency == 4
    assert bench.requests is not None and bench.requests.output_tokens.tolist() == [8] * 12
    assert len(asked) >= 12 and run.fact("engine.version") == "0.5.23"


def recorded(python: Path, model: Path, out: Path, limit: int) -> dict[str, object]:
    """One server with this limit of running requests, recorded while a load of eight clients runs: what ``doctor``
    said of it."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [
        str(python), "-m", "sglang.launch_server", "--model-path", str(model), "--served-model-name", "tiny", "--host",
        "127.0.0.1", "--port", str(port), "--device", "cpu", "--attention-backend", "torch_native", "--enable-metrics",
        "--mem-fraction-static", "0.1", "--max-total-tokens", "32768", "--context-length", "2048",
        "--skip-server-warmup", "--decode-log-interval", "1", "--max-running-requests", str(limit),
    ]  # fmt: skip
    load = [
        *PROGRAM, "bench", "--url", url, "--out", "{run}", "--concurrency", "8", "--requests", "40", "--warmup", "8",
        "--input-tokens", "32", "--output-tokens", "16", "--vocabulary", "250",
    ]  # fmt: skip
    stacks = [] if program() is None else ["--stacks"]
    words = ["record", "--url", url, "--out", out, "--profile", *stacks, "--", *load]
    environment = {"SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1"}
    with serving(command, url, "/health", out.with_suffix(".log"), environment, 600):
        told = json.loads(profiler("doctor", "--url", url, "--json").stdout)
        done = subprocess.run(
            [*PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=900, check=False, env={**os.environ}
        )
    assert done.returncode == 0, done.stderr
    return told  # type: ignore[no-any-return]


def test_two_servers_that_differ_in_one_flag(tmp_path: Path) -> None:
    python = installed.sglang_server()
    model = installed.tiny_model(installed.vllm())
    for name, limit in (("a", 8), ("b", 2)):
        told = recorded(python, model, tmp_path / name, limit)
        assert str(told["engine"]).startswith("SGLang 0.5.23")
        settings, pieces = told["settings"], told["pieces"]
        assert isinstance(settings, dict) and settings["setting.max_num_seqs"] == limit
        assert isinstance(pieces, list)
        ready = {one["name"] for one in pieces if one["ready"]}
        assert {"metrics", "settings", "every step in the log", "log", "trace"} <= ready
        run = open_run(tmp_path / name)
        assert len(run.traces) == 1 and run.benches[0].completed == 40 and run.fact("recording.state") == "done"
        assert [len(log.steps) > 20 for log in run.logs] == [True]
        (measured,) = [measure(run, bench) for bench in run.benches]
        assert measured.steps is not None and measured.traced is not None
        assert measured.gauges["running_requests_max"] <= limit
        if program() is not None:
            assert [path.name.rpartition("-")[0] for path in (tmp_path / name / "stacks").iterdir()] == [
                "scheduler-and-worker"
            ]
        assert profiler("inspect", tmp_path / name).returncode == 0
    found = diagnose(tmp_path / "a", tmp_path / "b")
    (gap,) = [one for one in found.gaps if one.metric == "output_throughput"]
    assert gap.winner != "b"
    (batching,) = [cause for cause in gap.causes if cause.cause == "batching"]
    assert "2" in batching.summary and any("sequence" in one.name for one in batching.evidence)
