"""``profiler record`` of several engines behind a router: each one's log, stacks and trace are its own, and every profiler
that was started is told to stop, whatever becomes of the others."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from profiler import diagnose, open_run, registry
from profiler.analyzers.gap.measured import counters_of
from profiler.cli.main import main
from profiler.collectors import second_pass, trace_pass
from profiler.collectors.host.pyspy import program
from tests.engines.servers import free_port
from tests.live_servers import Answer, Asked, Route, Server, served, sglang, vllm
from tests.strategies import ROOT, small_trace, written

pytestmark = pytest.mark.usefixtures("corpus")
Invoke = Callable[..., tuple[int, str]]
SHORT = ("--duration", "300ms", "--every", "100ms", "--trace-seconds", "300ms")


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Invoke:
    """``profiler record --out run`` in this process: (exit status, standard error)."""

    def run(url: str, *words: object) -> tuple[int, str]:
        given = ["profiler", "record", "--url", url, "--out", str(tmp_path / "run"), *map(str, words)]
        monkeypatch.setattr(sys, "argv", given)
        with pytest.raises(SystemExit) as left:
            main()
        assert isinstance(left.value.code, int)
        return left.value.code, capfd.readouterr().err

    return run


def traced(at: int = 0) -> dict[str, Route]:
    """An SGLang that writes a trace where it is told to; of ``at`` more steps than another."""

    def start(asked: Asked) -> Answer:
        body = json.loads(asked.body)
        written(small_trace(12 + at), Path(body["output_dir"]) / f"{body['profile_prefix']}-1.0-TP-0.trace.json.gz")
        return 200, "Start profiling.\n"

    return sglang() | {"POST /start_profile": start}


@contextmanager
def fleet(*routes: Mapping[str, Route]) -> Iterator[tuple[Server, list[Server]]]:
    """A router and its workers."""
    with ExitStack() as servers:
        workers = [servers.enter_context(served(one)) for one in routes]
        listed = json.dumps({"workers": [{"url": one.url} for one in workers], "stats": {}})
        text = "# TYPE smg_worker_requests_active gauge\nsmg_worker_requests_active 1\n"
        router = servers.enter_context(served({"/v1/models": "{}", "/workers": listed, "/metrics": text}))
        yield router, workers


def told(run: Path) -> dict[str, dict[str, object]]:
    return json.loads((run / "run.json").read_text())["recording"]  # type: ignore[no-any-return]


# ----------------------------------------------------------------------------------------------------------- the traces
def test_each_worker_is_traced_into_its_own_folder(record: Invoke, tmp_path: Path) -> None:
    with fleet(traced(), traced(3)) as (router, workers):
        status, said = record(router.url, "--profile", *SHORT)
        assert [one.paths("POST") for one in workers] == [["/start_profile", "/stop_profile"]] * 2
        assert router.paths("POST") == []
        folders = [json.loads(one.asked[-2].body)["output_dir"] for one in workers if one.asked[-2].body]
    assert status == 0, said
    run = tmp_path / "run"
    assert set(folders) <= {str(run / "worker-0" / "trace"), str(run / "worker-1" / "trace")}
    opened = open_run(run)
    assert [one.path for one in opened.traces] == [
        f"worker-{at}/trace/profiler-worker-{at}-1.0-TP-0.trace.json.gz" for at in range(2)
    ]
    assert len(opened.traces[0].events) < len(opened.traces[1].events)
    assert set(told(run)["trace"]["workers"]) == {"worker-0", "worker-1"}  # type: ignore[call-overload]
    assert diagnose(run, run).verdict.winner is None


def test_engines_that_write_into_one_folder_are_told_apart(record: Invoke, tmp_path: Path) -> None:
    shared = tmp_path / "traces"
    shared.mkdir()
    path = "/server_info?config_format=json"

    def of(names: bool) -> dict[str, Route]:
        routes = vllm()
        settings = json.loads(str(routes[path]))
        settings["vllm_config"]["profiler_config"]["torch_profiler_dir"] = str(shared)
        if not names:
            routes["/version"] = '{"version": "0.20.0"}'

        def start(asked: Asked) -> Answer:
            prefix = json.loads(asked.body)["profile_prefix"] if asked.body else f"x{time.time_ns()}"
            written(small_trace(12), shared / f"{prefix}_rank0.{time.time_ns()}.pt.trace.json.gz")
            return 200, ""

        return routes | {path: json.dumps(settings), "POST /start_profile": start}

    with fleet(of(True), of(True)) as (router, _):
        status, said = record(router.url, "--profile", *SHORT)
    assert status == 0, said
    for at in range(2):
        (trace,) = (tmp_path / "run" / f"worker-{at}" / "trace").iterdir()
        assert trace.name.startswith(f"profiler-worker-{at}_rank0.")


def test_engines_whose_files_have_no_names_of_ours_are_traced_one_after_the_other(
    record: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_pass, "BLIND_WINDOW", 0.2)
    shared = tmp_path / "traces"
    shared.mkdir()
    path, order = "/server_info?config_format=json", list[str]()

    def of(name: str) -> dict[str, Route]:
        routes = vllm()
        settings = json.loads(str(routes[path]))
        settings["vllm_config"]["profiler_config"]["torch_profiler_dir"] = str(shared)

        def asked(what: str) -> Callable[[Asked], Answer]:
            def answer(_: Asked) -> Answer:
                order.append(f"{what} {name}")
                return 200, ""

            return answer

        changed: dict[str, Route] = {
            path: json.dumps(settings), "/version": '{"version": "0.20.0"}',
            "POST /start_profile": asked("start"), "POST /stop_profile": asked("stop"),
        }  # fmt: skip
        return routes | changed

    monkeypatch.setattr(trace_pass, "FLUSH_SECONDS", 0.2)
    with fleet(of("a"), of("b")) as (router, _):
        record(router.url, "--profile", *SHORT)
    assert order == ["start a", "stop a", "start b", "stop b"]


@pytest.mark.parametrize("answer", [(409, "busy"), (0, "")])
def test_one_that_refuses_does_not_keep_the_others_from_being_traced(
    answer: Answer, record: Invoke, tmp_path: Path
) -> None:
    with fleet(sglang() | {"POST /start_profile": answer}, traced()) as (router, (first, second)):
        status, said = record(router.url, "--profile", *SHORT)
        # A start whose answer was lost may have begun.
        assert first.paths("POST")[1:] == (["/stop_profile"] if answer[0] == 0 else [])
        assert second.paths("POST") == ["/start_profile", "/stop_profile"]
    assert status == 3 and "problem: worker-0: trace: " in said and "worker-1: trace" not in said, said
    assert [one.path.split("/")[0] for one in open_run(tmp_path / "run").traces] == ["worker-1"]


def test_one_that_can_t_be_told_to_stop_is_named_and_the_others_are_stopped(record: Invoke, tmp_path: Path) -> None:
    with fleet(traced() | {"POST /stop_profile": (0, "")}, traced()) as (router, (first, second)):
        status, said = record(router.url, "--profile", *SHORT)
        assert second.paths("POST") == ["/start_profile", "/stop_profile"]
        assert f"curl -X POST {first.url}/stop_profile" in said
    assert status == 3 and len(open_run(tmp_path / "run").traces) == 2


def test_a_router_of_which_nobody_answers_is_no_trace(record: Invoke, tmp_path: Path) -> None:
    with served(gateway("http://127.0.0.1:9")) as router:
        status, said = record(router.url, "--profile", *SHORT)
    assert status == 3 and "trace: none of the servers behind the router was reached" in said
    assert open_run(tmp_path / "run").fact("recording.state") == "incomplete"


def test_a_worker_that_is_killed_while_its_profiler_runs_is_named_and_the_others_are_stopped(
    record: Invoke, tmp_path: Path
) -> None:
    with (
        processes([tmp_path / "mortal.log"], "mortal") as (mortal,),
        served(traced()) as one,
        served(traced()) as other,
    ):
        with served(gateway(one.url, mortal, other.url)) as router:
            words = ("--duration", "400ms", "--every", "100ms", "--trace-seconds", "3s")
            status, said = record(router.url, "--profile", *words)
        assert [server.paths("POST") for server in (one, other)] == [["/start_profile", "/stop_profile"]] * 2
    assert status == 3 and "problem: worker-1: trace: the server was lost while its profiler ran: " in said, said
    assert said.count("problem: ") == 1, said
    opened = open_run(tmp_path / "run")
    assert [trace.path.split("/")[0] for trace in opened.traces] == ["worker-0", "worker-2"]
    assert opened.fact("recording.state") == "incomplete" and list(opened.workers) == [
        "worker-0",
        "worker-1",
        "worker-2",
    ]
    assert any("worker-1: trace: the server was lost" in problem.detail for problem in opened.problems)
    assert diagnose(tmp_path / "run", tmp_path / "run").verdict.winner is None


def test_a_server_that_is_lost_ends_a_long_session(
    record: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long before the bound of the session."""
    monkeypatch.setattr(trace_pass, "LOST_SECONDS", 1.0)
    with processes([tmp_path / "mortal.log"], "mortal") as (mortal,):
        status, said = record(mortal, "--profile", "--duration", "400ms", "--every", "100ms", "--trace-seconds", "600s")
    seconds = told(tmp_path / "run")["trace"]["seconds"]
    assert isinstance(seconds, float) and seconds < 300
    assert status == 3 and "problem: trace: the server was lost while its profiler ran: " in said, said
    opened = open_run(tmp_path / "run")
    assert len(opened.snapshots) >= 2 and opened.fact("recording.state") == "incomplete"


def test_a_signal_in_the_middle_stops_every_profiler(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with fleet(traced(), traced(), traced()) as (router, workers):
        words = ["record", "--url", router.url, "--out", str(run), "--profile", "--trace-seconds", "60s"]
        process = subprocess.Popen(
            [sys.executable, "-c", "from profiler.cli.main import main; main()", *words, "--duration", "300ms"],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        deadline = time.monotonic() + 60
        while not all("/start_profile" in one.paths("POST") for one in workers) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 130, said
        assert [one.paths("POST") for one in workers] == [["/start_profile", "/stop_profile"]] * 3
    opened = open_run(run)
    assert opened.fact("recording.state") == "interrupted" and len(opened.traces) == 3


# ------------------------------------------------------------------------------------------------- the logs and stacks
WORKER = """
import http.server, itertools, os, signal, sys, threading, time
port, first = int(sys.argv[1]), int(sys.argv[2])
number = itertools.count(1)
models = '{"object":"list","data":[{"id":"tiny","object":"model","owned_by":"vllm","root":"/m/tiny"}]}'
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):  # its profiler kills it
        self.send_response(200)
        self.end_headers()
        threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGKILL)).start()
    def do_GET(self):
        at = next(number) if self.path == "/metrics" else 0
        if at:
            print(f"INFO 11-30 06:00:{at % 60:02d} [loggers.py:1] Engine 000: Iteration({at}): 0 context requests, 0 "
                  f"context tokens, {first} generation requests, {first} generation tokens, iteration elapsed time: "
                  "4.00 ms", flush=True)
        text = {"/v1/models": models, "/version": '{"version":"0.32.0"}', "/metrics": "# TYPE "
                "vllm:num_requests_running gauge\\nvllm:num_requests_running %d\\nvllm:generation_tokens_total %d\\n"
                % (first, first * at)}.get(self.path)
        refused = 405 if self.path == "/start_profile" and "mortal" in sys.argv else 404
        self.send_response(200 if text else refused)
        self.end_headers()
        self.wfile.write((text or "").encode())
    def log_message(self, *said): pass
print("INFO 11-30 06:00:00 [a.py:1] vLLM API server version 0.32.0", flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


@contextmanager
def processes(logs: list[Path], *words: str) -> Iterator[list[str]]:
    """Workers that are processes of their own, each with a log: their addresses. ``words`` are on their command lines."""
    with ExitStack() as started:
        urls = []
        for at, log in enumerate(logs):
            port = free_port()
            output = started.enter_context(log.open("ab"))
            child = subprocess.Popen(
                [sys.executable, "-c", WORKER, str(port), str(at + 2), *words], stdout=output, stderr=output
            )
            started.enter_context(child)
            started.callback(child.kill)
            urls.append(f"http://127.0.0.1:{port}")
        deadline = time.monotonic() + 30
        while not all(b"version" in log.read_bytes() for log in logs) and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.2)
        yield urls


def gateway(*urls: str) -> dict[str, Route]:
    listed = json.dumps({"workers": [{"url": url} for url in urls], "stats": {}})
    text = "# TYPE smg_worker_requests_active gauge\nsmg_worker_requests_active 1\n"
    return {"/v1/models": "{}", "/workers": listed, "/metrics": text}


def test_each_worker_on_this_machine_gives_its_log_and_its_stacks(
    record: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second_pass, "STACK_SECONDS", 2.0)
    logs = [tmp_path / "first.log", tmp_path / "second.log"]
    words = ["--duration", "1s", "--every", "100ms"] + ([] if program() is None else ["--stacks"])
    with processes(logs) as urls, served(gateway(*urls)) as router:
        status, said = record(router.url, *words)
    opened = open_run(tmp_path / "run")
    by_path = {log.path: log for log in opened.logs}
    for at in range(2):
        steps = by_path[f"worker-{at}/server.log"].steps
        assert len(steps) >= 3 and set(steps.decode_requests.tolist()) == {at + 2}
    assert list(opened.workers) == ["worker-0", "worker-1"]
    assert "settings of worker-0, worker-1: " in said, said
    told_of = told(tmp_path / "run")["workers"]
    assert [len(one["processes"]) for one in told_of] == [1, 1]  # type: ignore[index]
    if program() is not None and status == 0:
        taken = {path.parent.parent.name for path in (tmp_path / "run").glob("worker-*/stacks/process-*.txt")}
        # Both sleep most of the time: there may be nothing in the files.
        assert taken == {"worker-0", "worker-1"}


def test_workers_with_one_output_keep_no_log_and_are_told_why(record: Invoke, tmp_path: Path) -> None:
    log = tmp_path / "both.log"
    with processes([log, log]) as urls, served(gateway(*urls)) as router:
        status, said = record(router.url, "--duration", "400ms", "--every", "100ms")
    assert status == 0 and "not collected: log of worker-0, worker-1: they write into one file" in said, said
    assert not open_run(tmp_path / "run").logs


def test_the_doctor_names_what_workers_lack(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with processes([tmp_path / "a.log", tmp_path / "b.log"]) as urls, served(gateway(*urls)) as router:
        for words in (["--json"], []):
            monkeypatch.setattr(sys, "argv", ["profiler", "--no-color", "doctor", "--url", router.url, *words])
            with pytest.raises(SystemExit):
                main()
            out = capfd.readouterr().out
            if words:
                lacking = json.loads(out)["lacking_behind"]
                assert "--profiler-config" in lacking["trace of worker-0, worker-1"]
                assert not [name for name in lacking if name.startswith(("log", "metrics"))]
            else:
                assert "not of them: trace of worker-0, worker-1" in out


def test_a_router_s_own_flags_are_not_the_engines(record: Invoke, tmp_path: Path) -> None:
    logs = [tmp_path / "a.log", tmp_path / "b.log"]
    with processes(logs, "serve", "--max-num-seqs", "12") as urls, served(gateway(*urls)) as router:
        status, said = record(router.url, "--duration", "300ms", "--every", "100ms")
    assert status == 0, said
    opened = open_run(tmp_path / "run")
    assert opened.fact("setting.max_num_seqs") == 12 and opened.fact("engine.name") == "vllm"
    command = opened.fact("engine.router_command")
    assert isinstance(command, list) and command != opened.fact("engine.command")


def test_a_worker_that_dies_in_the_middle_leaves_a_run_of_all(
    record: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("profiler.collectors.sampling.LOST_SECONDS", 0.3)
    answers = iter([str(sglang()["/metrics"])] * 4)
    dying = traced() | {"/metrics": lambda _: (200, text) if (text := next(answers, "")) else (0, "")}
    with fleet(traced(), dying) as (router, _):
        status, said = record(router.url, "--profile", "--duration", "20s", "--every", "50ms")
    assert status == 3 and "the server was lost" in said
    opened = open_run(tmp_path / "run")
    assert list(opened.workers) == ["worker-0", "worker-1"]
    counters, _ = counters_of(opened.snapshots, None)
    assert counters["generation_tokens"] == 0


def test_a_rate_counts_from_the_first_scrape_that_holds_its_counter(tmp_path: Path) -> None:
    """SGLang shows its counter of tokens after the first request ended."""
    for at, made in enumerate(("", "", "sglang:generation_tokens_total 100\n", "sglang:generation_tokens_total 160\n")):
        text = f"# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs 3\n{made}"
        (tmp_path / f"{at * 2000:07d}.prom").write_text(text)
    level = trace_pass.level_of(tmp_path, registry.engines())
    assert (level.running, level.tokens_per_second, level.steps_per_second) == (3.0, 30.0, None)
