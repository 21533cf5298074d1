"""Dynamo's front end before two simulated engines of each kind: the workers are found, sampled, counted and logged apart.

What they simulate are times; how they are asked, and what they answer, is the real thing.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from profiler import diagnose, open_run
from profiler.analyzers.gap.measured import counters_of, measure
from tests.engines import installed
from tests.engines.servers import PROGRAM, free_port, profiler, serving

pytestmark = pytest.mark.engines


@pytest.mark.parametrize(("kind", "title"), [("vllm", "vLLM"), ("sglang", "SGLang")])
def test_a_front_end_and_its_two_workers_are_one_run(kind: str, title: str, tmp_path: Path) -> None:
    python = installed.dynamo()
    model = installed.big_tokenizer(python)
    environment = {
        "DYN_DISCOVERY_BACKEND": "file", "DYN_FILE_KV": str(tmp_path / "kv"), "DYN_REQUEST_PLANE": "tcp",
        "DYN_EVENT_PLANE": "zmq", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "DYN_TCP_RPC_HOST": "127.0.0.1",
        "DYN_TCP_RESPONSE_STREAM_HOST": "127.0.0.1", "DYN_EVENT_PLANE_HOST": "127.0.0.1",
        "DYN_SYSTEM_HOST": "127.0.0.1",
    }  # fmt: skip
    mocker = [
        str(python), "-m", "dynamo.mocker", "--engine-type", kind, "--model-path", str(model), "--model-name", "tiny",
        "--num-gpu-blocks-override", "512", "--block-size", "16", "--max-num-seqs", "8", "--max-num-batched-tokens",
        "512",
    ]  # fmt: skip
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    front = [str(python), "-m", "dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", str(port)]
    load = [
        *PROGRAM, "bench", "--url", url, "--out", "{run}", "--concurrency", "8", "--requests", "60", "--input-tokens",
        "64", "--output-tokens", "16",
    ]  # fmt: skip
    with ExitStack() as servers:
        workers = []
        for at in range(2):
            own = free_port(low=True)
            workers.append(f"http://127.0.0.1:{own}")
            told = environment | {"DYN_SYSTEM_PORT": str(own)}
            servers.enter_context(serving(mocker, workers[-1], "/metrics", tmp_path / f"worker-{at}.log", told, 60))
        servers.enter_context(serving(front, url, "/v1/models", tmp_path / "front.log", environment, 60))
        warm = [*load[: load.index("{run}")], tmp_path / "warm", *load[load.index("{run}") + 1 :]]
        first = profiler(*warm[len(PROGRAM) :])
        done = profiler("record", "--url", url, "--out", tmp_path / "run", "--every", "200ms", "--", *load)
    assert first.returncode == 0, first.stderr
    assert done.returncode == 0, done.stderr
    for worker in workers:
        assert f"behind it: {worker}: {title}" in done.stderr, done.stderr
    assert "DYN_SYSTEM_PORT" not in done.stderr
    # Each worker's output is its own; what they can't do is said once for both.
    assert "not collected: trace of worker-0, worker-1: " in done.stderr, done.stderr
    for at in range(2):
        assert (tmp_path / "run" / f"worker-{at}" / "server.log").stat().st_size > 0
    run = open_run(tmp_path / "run")
    assert run.fact("engine.name") == kind and list(run.workers) == ["worker-0", "worker-1"]
    assert {one.component for one in run.components} == {"dynamo"}
    counters, _ = counters_of(run.snapshots, None)
    own = [counters_of(series, None)[0]["ttft_seconds_count"] for series in run.workers.values()]
    # Ten requests of the warm-up; each was answered by one of the two, and none is counted twice.
    assert counters["ttft_seconds_count"] == sum(own) == 70 and min(own) > 0
    # What they publish of every step is each one's own, and tells the same requests and the 15 tokens after the first.
    passes = {log.path: log for log in run.logs if log.path.endswith("forward_pass.jsonl")}
    assert sorted(passes) == [f"worker-{at}/forward_pass.jsonl" for at in range(2)]
    assert all(log.every_step and np.isfinite(log.steps.seconds).all() for log in passes.values())
    decoded = [int(np.maximum(log.steps.decode_tokens, 0).sum()) for log in passes.values()]
    assert sum(decoded) == 70 * 15 and min(decoded) > 0
    (measured,) = [measure(run, bench) for bench in run.benches]
    assert measured.steps is not None and measured.steps.parallel == 2
    assert measured.steps.source.startswith("worker-0/forward_pass.jsonl")
    assert diagnose(tmp_path / "run", tmp_path / "run").verdict.status == "no difference"
    told_of = profiler("inspect", "-v", tmp_path / "run")
    assert told_of.returncode == 0 and "worker-1: " in told_of.stdout
