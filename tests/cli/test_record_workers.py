"""``profiler record`` of a router with several workers: each is sampled, counted once, and shown apart; and of engines
of several ages, whose words differ and whose numbers do not."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from profiler import open_run, registry
from profiler.analyzers.gap.measured import counters_of
from profiler.analyzers.inspection import inspect
from profiler.cli.main import main
from profiler.collectors.discovery import discover
from profiler.collectors.workers import workers_of
from tests.engines.servers import free_port
from tests.live_servers import Route, Server, client_of, served, sglang, sglang_spelled, trtllm, worker

pytestmark = pytest.mark.usefixtures("corpus")


def recorded(
    router: Server, out: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    words = ["profiler", "record", "--url", router.url, "--out", str(out), "--duration", "500ms", "--every", "100ms"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as left:
        main()
    assert isinstance(left.value.code, int)
    return left.value.code, capfd.readouterr().err


def gateway(*urls: str) -> dict[str, Route]:
    listed = json.dumps({"workers": [{"url": url} for url in urls], "stats": {}})
    # It repeats what its workers say, as a router that adds them up would.
    text = "# TYPE smg_worker_requests_active gauge\nsmg_worker_requests_active 1\nvllm:generation_tokens_total 1\n"
    return {"/v1/models": "{}", "/workers": listed, "/metrics": text}


def stack(*urls: str) -> dict[str, Route]:
    rows = "".join(f'vllm:num_requests_running{{server="{url}"}} 1\n' for url in urls)
    text = f'# TYPE vllm:healthy_pods_total gauge\nvllm:healthy_pods_total{{server="{urls[0]}"}} 1\n{rows}'
    return worker(1) | {"/metrics": text}


@pytest.mark.parametrize("router_of", [gateway, stack])
def test_counters_are_added_up_and_gauges_stay_each_worker_s(
    router_of: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert callable(router_of)
    with served(worker(3)) as slow, served(worker(30)) as fast:
        # A router that knows data-parallel ranks lists a server once for each.
        named = (f"{slow.url}@0", f"{slow.url}@1", fast.url) if router_of is gateway else (slow.url, fast.url)
        with served(router_of(*named)) as router:
            status, said = recorded(router, tmp_path / "run", monkeypatch, capfd)
        assert {one.method for one in (*slow.asked, *fast.asked)} == {"GET"}
    assert status == 0 and f"behind it: {slow.url}: vLLM 0.32.0" in said, said
    run = open_run(tmp_path / "run")
    assert list(run.workers) == ["worker-0", "worker-1"]
    looks = [len(series) - 1 for series in run.workers.values()]
    counters, gauges = counters_of(run.snapshots, None)
    assert counters["generation_tokens"] == 3 * looks[0] + 30 * looks[1]
    assert gauges["running_requests_max"] == 30  # not 33: the limit of sequences is each worker's own
    told = json.loads((tmp_path / "run" / "run.json").read_text())
    assert [one["folder"] for one in told["recording"]["workers"]] == ["worker-0", "worker-1"]
    assert told["engine"]["name"] == "vllm" and told["engine"]["version"] == "0.32.0"
    assert [p for p in run.problems if "num_gpu_blocks" in p.detail]
    figures = {figure.name: figure.value for figure in inspect(run).figures if figure.section == "workers"}
    assert figures["worker-0: output tokens"] == 3 * looks[0] and figures["worker-1: requests running"] == 30
    even = figures["most work of one worker over the mean"]
    assert even == pytest.approx(2 * 30 * looks[1] / (3 * looks[0] + 30 * looks[1]))


def test_workers_with_other_settings_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = "/server_info?config_format=json"
    other = worker(3)
    settings = other[path]
    assert isinstance(settings, str)
    other[path] = re.sub(r'("max_num_seqs": ?)128', r"\g<1>64", settings)
    with served(worker(3)) as one, served(other) as two, served(gateway(one.url, two.url)) as router:
        status, said = recorded(router, tmp_path / "run", monkeypatch, capfd)
    assert status == 0 and "the workers differ in max_num_seqs; the run shows the first one's" in said, said
    assert open_run(tmp_path / "run").fact("setting.max_num_seqs") == 128


def test_a_worker_that_is_not_there_or_no_server_is_said_and_the_others_are_sampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with (
        served(worker(3)) as only,
        served(gateway()) as inner,
        served(gateway("http://127.0.0.1:9", "grpc://h:1", only.url, inner.url)) as router,
    ):
        status, said = recorded(router, tmp_path / "run", monkeypatch, capfd)
    assert status == 0, said
    assert "worker-0 (http://127.0.0.1:9): " in said and "no answer" in said and "grpc://h:1" in said
    assert "it is a router itself" in said
    run = open_run(tmp_path / "run")
    # One worker alone is the run's engine.
    assert not run.workers and {one.path.split("/")[0] for one in run.snapshots} == {"worker-2"}


ALONE = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/metrics" else 404)
        self.end_headers()
        self.wfile.write(sys.argv[1].encode() if self.path == "/metrics" else b"")
    def log_message(self, *said): pass
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
print(flush=True)
server.serve_forever()
"""


def test_a_worker_on_this_machine_is_found_by_its_environment_and_told_by_its_mark() -> None:
    instances = [{"component": "backend", "endpoint": "generate", "instance_id": number} for number in (42, 43)]
    health = json.dumps({"endpoints": [], "instances": instances})
    started = []
    with ExitStack() as processes:
        for mark in ("2a", "ff"):  # the second is another front end's
            port = str(free_port(low=True))
            text = f'# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{{worker_id="{mark}"}} 0\n'
            child = subprocess.Popen(
                [sys.executable, "-c", ALONE, text, port],
                env={**os.environ, "DYN_SYSTEM_PORT": port}, stdout=subprocess.PIPE,
            )  # fmt: skip
            processes.enter_context(child)
            processes.callback(child.kill)
            assert child.stdout is not None and child.stdout.readline()
            started.append(f"http://127.0.0.1:{port}")
        with served({"/v1/models": "{}", "/health": health, "/metrics": "dynamo_frontend_requests_total 1\n"}) as front:
            found = discover(client_of(front), registry.engines(), dict)
            (first,) = workers_of(found, client_of(front), registry.engines(), dict)
    assert found.identity.workers == (started[0],) and first.title == f"{started[0]}: vLLM (version not known)"
    assert len(found.identity.unnamed) == 1 and "instance 43" in found.identity.unnamed[0]


def test_a_worker_that_restarts_goes_on_from_where_it_was(tmp_path: Path) -> None:
    for folder, values in (
        ("worker-0", (10, 20, 5)),
        ("worker-1", (1000, 1001, 1002)),
        ("metrics", (1010, 1021, 1007)),
    ):
        (tmp_path / folder).mkdir()
        for at, value in enumerate(values):
            text = f"# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total {value}\n"
            (tmp_path / folder / f"{at:07d}.prom").write_text(text)
    run = open_run(tmp_path)
    counters, _ = counters_of(run.snapshots, None)
    assert counters["generation_tokens"] == 10 + 2 and len(run.snapshots) == 6


@pytest.mark.parametrize("old", [False, True])
def test_sglang_without_metrics_tells_its_load(
    old: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    routes = sglang(old)
    del routes["/metrics"]
    if old:
        del routes["/v1/loads?include=core"]
        routes["/get_load"] = '[{"dp_rank": 0, "num_reqs": 7, "num_waiting_reqs": 2, "num_tokens": 90}]'
    with served(routes) as server:
        status, said = recorded(server, tmp_path / "run", monkeypatch, capfd)
    assert status == 0 and "not collected: metrics: " in said, said
    run = open_run(tmp_path / "run")
    assert len(run.snapshots) >= 3 and {one.engine for one in run.snapshots} == {"sglang"}
    assert run.snapshots[0].path.startswith("load/")
    wanted = {"running_requests": 5, "waiting_requests": 2} if old else {"running_requests": 0, "kv_usage": 0}
    assert wanted.items() <= dict(run.snapshots[-1].values).items()


LABELS = '{engine_type="unified",model_name="m",tp_rank="0",pp_rank="0"}'
# What the versions call it, by their own source.
SPELLINGS = [
    ("0.4.4", "time_per_output_token_seconds", "queue_time_s", None),
    ("0.5.2", "inter_token_latency_seconds", "queue_time_s", "total_retracted_reqs"),
    ("0.5.23", "inter_token_latency_seconds", "queue_time_seconds", "num_retracted_requests_total"),
]


@pytest.mark.parametrize(("version", "itl", "queue", "retracted"), SPELLINGS)
def test_sglang_of_any_age_says_the_same(
    version: str,
    itl: str,
    queue: str,
    retracted: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    values = {
        "num_running_reqs": 3, "num_queue_reqs": 1, "token_usage": 0.5, "generation_tokens_total": 90, f"{itl}_sum": 2,
        f"{itl}_count": 80, f"{queue}_sum": 1, f"{queue}_count": 4,
    } | ({} if retracted is None else {retracted: 6})  # fmt: skip
    text = "# TYPE sglang:token_usage gauge\n" + "".join(f"sglang:{n}{LABELS} {v}\n" for n, v in values.items())
    with served(sglang_spelled(version, text)) as server:
        status, said = recorded(server, tmp_path / "run", monkeypatch, capfd)
    assert status == 0 and f"SGLang {version}" in said, said
    wanted = {"running_requests": 3, "waiting_requests": 1, "kv_usage": 0.5, "generation_tokens": 90, "itl_seconds_sum": 2,
              "itl_seconds_count": 80, "queue_seconds_sum": 1, "queue_seconds_count": 4}  # fmt: skip
    seen = dict(open_run(tmp_path / "run").snapshots[-1].values)
    assert wanted.items() <= seen.items()
    assert seen.get("preemptions") == (None if retracted is None else 6)


@pytest.mark.parametrize(
    ("version", "spelled", "seconds"),
    [
        # Before hostStepTimeMS only iterLatencyMS, which spans two steps that overlap: no step's time.
        ("1.0.0", {}, None), ("1.2.0", {"hostStepTimeMS": 4.5, "prevDeviceStepTimeMS": 4.0}, 0.0045),
        ("1.3.0", {"schedulerMode": "non_overlap", "gpuForwardTimeMS": 8.0}, 0.009),
    ],
)  # fmt: skip
def test_steps_of_trtllm_of_any_age(
    version: str,
    spelled: dict[str, object],
    seconds: float | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with served(trtllm(version, spelled)) as server:
        status, said = recorded(server, tmp_path / "run", monkeypatch, capfd)
    assert status == 0 and f"TensorRT-LLM {version}" in said, said
    (log,) = open_run(tmp_path / "run").logs
    assert len(log.steps) >= 4 and set(log.steps.decode_requests.tolist()) == {3}
    taken = log.steps.seconds
    assert np.isnan(taken).all() if seconds is None else np.allclose(taken, seconds)


def test_ranks_of_a_load_are_added_up(tmp_path: Path) -> None:
    ranks = [
        {"num_running_reqs": 4, "num_waiting_reqs": 1, "token_usage": 0.5},
        {"num_running_reqs": 2, "token_usage": 0},
    ]
    (tmp_path / "0001000.json").write_text(json.dumps({"loads": ranks, "version": "0.5.23"}))
    (snapshot,) = open_run(tmp_path).snapshots
    assert snapshot.values == {"running_requests": 6, "waiting_requests": 1, "kv_usage": 0.25}
    assert snapshot.seconds == 1.0
