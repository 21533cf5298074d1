"""``profiler record`` against servers that answer as recorded: what it writes, that it asks before it touches, and that
it lets go whatever ends it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from profiler import open_run
from profiler.cli.main import main
from profiler.collectors import sampling, trace_pass
from profiler.collectors.load_command import placed
from profiler.collectors.run_folder import OutOfSpace, RunFolder
from profiler.collectors.torch_trace.remote import SessionRefused, TraceSession
from profiler.model.live import TraceControl, TraceWindow
from tests.live_servers import Answer, Asked, Route, Server, client_of, llamacpp, served, sglang, trtllm, vllm
from tests.strategies import ROOT, small_trace, written

pytestmark = pytest.mark.usefixtures("corpus")
Invoke = Callable[..., tuple[int, str]]
PROGRAM = "from profiler.cli.main import main; main()"
WAIT = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Invoke:
    """``profiler record --out run`` in this process: (exit status, standard error)."""

    def run(server: Server, *words: object) -> tuple[int, str]:
        given = ["profiler", "record", "--url", server.url, "--out", str(tmp_path / "run"), *map(str, words)]
        monkeypatch.setattr(sys, "argv", given)
        with pytest.raises(SystemExit) as left:
            main()
        assert isinstance(left.value.code, int)
        return left.value.code, capfd.readouterr().err

    return run


def manifest(run: Path) -> dict[str, dict[str, object]]:
    return json.loads((run / "run.json").read_text())  # type: ignore[no-any-return]


def tracing(routes: Mapping[str, Route], writes: bool = True) -> dict[str, Route]:
    """The same server; its profiler writes a trace where it is told to."""

    def start(asked: Asked) -> Answer:
        if writes:
            written(small_trace(12), Path(json.loads(asked.body)["output_dir"]) / "1.0-TP-0.trace.json.gz")
        return 200, "Start profiling.\n"

    return {**routes, "POST /start_profile": start}


def begun(*words: object, until: Callable[[], bool]) -> subprocess.Popen[str]:
    """The command as a process of its own, once something has happened."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "record", *map(str, words)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not until() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert until(), process.communicate()[1] if process.poll() is not None else "nothing happened"
    return process


# ------------------------------------------------------------------------------------------------------ what it writes
@pytest.mark.parametrize(("routes", "engine"), [(vllm, "vllm"), (sglang, "sglang"), (llamacpp, "llamacpp")])
def test_a_run_is_written_by_get_requests_alone(
    record: Invoke, tmp_path: Path, routes: Callable[[], dict[str, Route]], engine: str
) -> None:
    with served(routes()) as server:
        status, said = record(server, "--duration", "600ms", "--every", "200ms")
        assert {one.method for one in server.asked} == {"GET"}
    assert status == 0 and "cost of metrics" in said, said
    run = open_run(tmp_path / "run")
    assert run.fact("engine.name") == engine and run.fact("recording.state") == "done"
    assert len(run.snapshots) >= 3 and all(one.seconds is not None for one in run.snapshots)
    window = run.fact("workload.measured_window")
    assert isinstance(window, list) and window[1] - window[0] >= 0.6
    assert [record.path for record in run.files if not record.read] == []
    costs = {one["collector"]: one for one in manifest(tmp_path / "run")["recording"]["costs"]}  # type: ignore[index,attr-defined]
    assert costs["metrics"]["requests"] == costs["metrics"]["samples"] == len(run.snapshots)
    assert costs["metrics"]["received"] == costs["metrics"]["written"] > 0
    assert costs["discovery"]["requests"] >= 3
    assert not (tmp_path / "run" / "trace").exists()


def test_steps_that_are_drained_are_kept_and_the_first_ones_dropped(record: Invoke, tmp_path: Path) -> None:
    with served(trtllm()) as server:
        status, said = record(server, "--duration", "600ms", "--every", "100ms")
    assert status == 0 and "emptied whenever it is read" in said
    run = open_run(tmp_path / "run")
    (log,) = run.logs
    lines = [json.loads(line) for line in (tmp_path / "run" / "steps.jsonl").read_text().splitlines()]
    # The discovery read steps 0 and 1, the first sample 2 and 3: both are from before the run.
    assert [one["iter"] for one in lines] == list(range(4, 4 + len(lines))) and len(lines) >= 6
    assert len(log.steps) == len(lines) and run.fact("engine.version") == "1.2.0"


def test_the_second_pass_traces_and_its_result_is_thrown_away(record: Invoke, tmp_path: Path) -> None:
    program = "import pathlib, sys, time; p = pathlib.Path(sys.argv[1]); time.sleep(3); p.write_text(str(p.parent))"
    load = [sys.executable, "-c", program, "{run}/result.txt"]
    with served(tracing(sglang())) as server:
        status, said = record(server, "--profile", "--every", "200ms", "--trace-seconds", "300ms", "--", *load)
        posts = [one for one in server.asked if one.method == "POST"]
    assert status == 0, said
    assert [one.path for one in posts] == ["/start_profile", "/stop_profile"]
    body = json.loads(posts[0].body)
    assert body["num_steps"] == 20 and body["with_stack"] is False and body["profile_prefix"] == "profiler"
    assert (tmp_path / "run" / "result.txt").read_text() == str(tmp_path / "run")
    run = open_run(tmp_path / "run")
    assert [trace.path for trace in run.traces] == ["trace/1.0-TP-0.trace.json.gz"]
    told = manifest(tmp_path / "run")["recording"]["trace"]
    assert isinstance(told, dict) and told["files"] == ["1.0-TP-0.trace.json.gz"]
    assert run.fact("workload.client_command") == load


def test_one_server_behind_a_router_is_recorded_with_it_and_gets_no_key(record: Invoke, tmp_path: Path) -> None:
    with served(vllm()) as worker:
        listed = json.dumps({"workers": [{"url": worker.url.replace("127.0.0.1", "localhost")}], "stats": {}})
        text = "# TYPE smg_worker_requests_active gauge\nsmg_worker_requests_active 1\n"
        routes: dict[str, Route] = {"/v1/models": "{}", "/workers": listed, "/metrics": text}
        with served(routes, key="routerkey") as router:
            key = tmp_path / "key"
            key.write_text("routerkey\n")
            status, said = record(router, "--api-key-file", key, "--duration", "300ms")
        assert {one.headers.get("Authorization") for one in worker.asked} == {None}
    assert status == 0 and "behind it: http://localhost:" in said, said
    run = open_run(tmp_path / "run")
    assert {one.engine for one in run.snapshots} == {"vllm"} and {one.component for one in run.components} == {
        "gateway"
    }


def test_the_run_of_a_load_that_names_it_itself_is_replaced_too() -> None:
    out, aside = Path("runs/a"), Path("/tmp/x")
    words = ["load", "--out", "runs/a", "--file=runs/a/f", "runs/ab", "{run}/g", str(out.absolute())]
    assert placed(words, out, aside) == ["load", "--out", "/tmp/x", "--file=/tmp/x/f", "runs/ab", "/tmp/x/g", "/tmp/x"]


def test_the_log_is_followed_from_its_start_without_older_steps(record: Invoke, tmp_path: Path) -> None:
    def step(number: int) -> str:
        return (
            f"INFO 11-30 06:00:{number:02d} [loggers.py:1] Engine 000: Iteration({number}): 0 context requests, 0 context "
            "tokens, 2 generation requests, 2 generation tokens, iteration elapsed time: 4.00 ms\n"
        )

    log = tmp_path / "server.txt"
    log.write_text("INFO 11-30 06:00:00 [a.py:1] vLLM API server version 0.32.0\n" + step(1) + step(2))
    load = "import sys; open(sys.argv[1], 'a').write(sys.argv[2] + 'INFO started with --api-key verysecret\\n')"
    with served(vllm()) as server:
        status, said = record(server, "--log", log, "--", sys.executable, "-c", load, log, step(3) + step(4))
    assert status == 0, said
    kept = (tmp_path / "run" / "server.log").read_text()
    assert "version 0.32.0" in kept and "Iteration(2)" not in kept and "Iteration(3)" in kept
    assert "verysecret" not in kept
    assert len(open_run(tmp_path / "run").logs[0].steps) == 2


def test_nothing_secret_is_written(record: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_KEY", "topsecretkey1")
    load = [sys.executable, "-c", "pass", "--api-key", "loadsecret2", "--header", "Authorization: Bearer loadsecret3"]
    with served(vllm(), key="topsecretkey1") as server:
        status, said = record(server, "--api-key-env", "SERVER_KEY", "--", *load)
    text = said + "".join(path.read_text() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert status == 0 and not [word for word in ("topsecretkey1", "loadsecret2", "loadsecret3") if word in text]


# --------------------------------------------------------------------------------------------------------- letting go
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle_of_a_trace_stops_the_profiler(tmp_path: Path, number: signal.Signals) -> None:
    run = tmp_path / "run"
    with served(tracing(sglang())) as server:
        words = ("--url", server.url, "--out", run, "--profile", "--trace-seconds", "60s", "--duration", "300ms")
        process = begun(*words, until=lambda: "/start_profile" in server.paths("POST"))
        process.send_signal(number)
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 130, said
        assert server.paths("POST") == ["/start_profile", "/stop_profile"]
    opened = open_run(run)
    assert opened.fact("recording.state") == "interrupted" and len(opened.traces) == 1


def test_a_signal_in_the_measured_pass_keeps_what_was_collected(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with served(vllm()) as server:
        process = begun(
            "--url", server.url, "--out", run, "--profile", "--every", "100ms", "--", *WAIT,
            until=lambda: len(list(run.glob("metrics/*.prom"))) >= 3,
        )  # fmt: skip
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 130, said
        assert server.paths("POST") == []
    opened = open_run(run)
    assert len(opened.snapshots) >= 3 and opened.fact("recording.state") == "interrupted"
    assert any("ended as 'interrupted'" in problem.detail for problem in opened.problems)


def test_a_recording_that_is_killed_leaves_a_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with served(vllm()) as server:
        process = begun(
            "--url", server.url, "--out", run, "--every", "100ms", "--duration", "60s",
            until=lambda: len(list(run.glob("metrics/*.prom"))) >= 2,
        )  # fmt: skip
        process.kill()
        process.communicate()
    opened = open_run(run)
    assert opened.fact("engine.name") == "vllm" and len(opened.snapshots) >= 2
    assert any("did not come to its end" in problem.detail for problem in opened.problems)


class Broken(Exception):
    pass


WINDOW = TraceWindow(5, 1.0, None, "profiler")
CONTROL = TraceControl(lambda window, version: {"n": window.steps}, lambda version: True, True, "restart it")


def test_an_exception_stops_the_profiler() -> None:
    with served({"POST /start_profile": "", "POST /stop_profile": ""}) as server:
        with client_of(server) as client, pytest.raises(Broken), TraceSession(client, CONTROL, WINDOW, None):
            raise Broken
        assert server.paths("POST") == ["/start_profile", "/stop_profile"]


def test_a_start_whose_answer_is_lost_is_stopped_too() -> None:
    with served({"POST /start_profile": (0, ""), "POST /stop_profile": ""}) as server:
        with client_of(server) as client, pytest.raises(SessionRefused, match="no answer"):
            TraceSession(client, CONTROL, WINDOW, None).__enter__()
        assert server.paths("POST")[-1] == "/stop_profile"


def test_a_stop_that_nobody_hears_is_told_with_the_command() -> None:
    with served({"POST /start_profile": "", "POST /stop_profile": (0, "")}) as server, client_of(server) as client:
        with TraceSession(client, CONTROL, WINDOW, None) as session:
            pass
        assert session.problem is not None and f"curl -X POST {server.url}/stop_profile" in session.problem


@pytest.mark.parametrize(("status", "told"), [(404, "restart it"), (409, "is another session running"), (401, "key")])
def test_a_session_that_was_refused_is_not_stopped(status: int, told: str) -> None:
    with served({"POST /start_profile": (status, "no"), "POST /stop_profile": ""}) as server:
        with client_of(server) as client, pytest.raises(SessionRefused, match=told):
            TraceSession(client, CONTROL, WINDOW, None).__enter__()
        assert server.paths("POST") == ["/start_profile"]


def test_one_session_at_a_time() -> None:
    with served({"POST /start_profile": "", "POST /stop_profile": ""}) as server, client_of(server) as client:
        second = TraceSession(client, CONTROL, WINDOW, None)
        with TraceSession(client, CONTROL, WINDOW, None), pytest.raises(SessionRefused, match="another recording"):
            second.__enter__()
        assert server.paths("POST") == ["/start_profile", "/stop_profile"]
        with TraceSession(client, CONTROL, WINDOW, None):
            pass


# ------------------------------------------------------------------------------------------------------- what is missing
def test_an_engine_without_its_profiler_says_how_to_get_one(record: Invoke, tmp_path: Path) -> None:
    with served(vllm(profiler=False)) as server:
        status, said = record(server, "--profile", "--trace-seconds", "300ms", "--duration", "300ms")
        assert server.paths("POST").count("/stop_profile") == 0
    assert status == 3 and "--profiler-config" in said and "nsys profile" in said
    assert open_run(tmp_path / "run").fact("recording.state") == "incomplete"


def test_a_trace_that_did_not_come_names_its_place(
    record: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_pass, "FLUSH_SECONDS", 0.5)
    with served(tracing(sglang(), writes=False)) as server:
        status, said = record(server, "--profile", "--trace-seconds", "300ms", "--duration", "300ms")
    assert status == 3 and f"no file of it came into {tmp_path / 'run' / 'trace'}" in said


def test_a_lost_server_ends_the_recording(record: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "LOST_SECONDS", 0.3)
    answers = iter([(200, recorded_metrics())] * 4)
    with served(vllm() | {"/metrics": lambda _: next(answers, (0, ""))}) as server:
        status, said = record(server, "--every", "50ms", "--", *WAIT)
    assert status == 3 and "the server was lost" in said
    assert len(open_run(tmp_path / "run").snapshots) >= 2


def recorded_metrics() -> str:
    route = vllm()["/metrics"]
    assert isinstance(route, str)
    return route


def test_a_bound_of_the_disk_ends_the_recording(record: Invoke, tmp_path: Path) -> None:
    with served(vllm()) as server:
        status, said = record(server, "--most", "200KiB", "--every", "50ms", "--", *WAIT)
    assert status == 3 and "reached its bound" in said
    run = open_run(tmp_path / "run")
    assert run.snapshots and run.fact("recording.state") == "incomplete"
    assert sum(path.stat().st_size for path in (tmp_path / "run").rglob("*.prom")) <= 200 << 10


def test_a_full_disk_is_told_and_half_a_file_is_not_left(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run", 1 << 20)
    (folder.path / "gpu.csv").symlink_to("/dev/full")
    with pytest.raises(OutOfSpace, match="full"):
        folder.append("gpu.csv", b"x" * 10)
    (folder.path / ".a.prom.part").symlink_to("/dev/full")
    with pytest.raises(OutOfSpace, match="full"):
        folder.write("a.prom", b"x" * 10)
    assert [path.name for path in folder.path.iterdir()] == ["gpu.csv"]


def test_a_load_that_fails_is_told(record: Invoke, tmp_path: Path) -> None:
    with served(vllm()) as server:
        status, said = record(server, "--profile", "--", sys.executable, "-c", "raise SystemExit(7)")
        assert server.paths("POST") == []
    assert status == 3 and "the load ended with status 7" in said
    assert open_run(tmp_path / "run").snapshots


def test_a_load_that_fails_in_the_second_pass_is_told(record: Invoke, tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, time; mark = pathlib.Path(sys.argv[1]); again = mark.exists(); mark.touch(); "
        "time.sleep(0.5); sys.exit(7 if again else 0)"
    )
    load = [sys.executable, "-c", program]
    with served(tracing(sglang())) as server:
        status, said = record(server, "--profile", "--trace-seconds", "60s", "--", *load, tmp_path / "seen")
        assert server.paths("POST") in ([], ["/start_profile", "/stop_profile"])
    assert status == 3 and "the load ended with status 7 in the second pass" in said, said
    assert open_run(tmp_path / "run").snapshots


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "--duration"),
        (("--duration", "0s"), "above zero"),
        (("--duration", "1s", "--most", "4"), "no size"),
        (("--duration", "1s", "--log", "absent.log"), "no such file"),
        (("--duration", "1s", "--api-key-env", "ABSENT_KEY"), "no such variable"),
        (("--", "absent-program"), "can't be started"),
    ],
)
def test_wrong_usage_is_one_line(record: Invoke, words: tuple[str, ...], told: str) -> None:
    with served(vllm()) as server:
        status, said = record(server, *words)
    assert status == 2 and told in said and "Traceback" not in said


def test_a_folder_that_holds_something_is_left_alone(record: Invoke, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("mine")
    with served(vllm()) as server:
        status, said = record(server, "--duration", "1s")
    assert status == 2 and "not empty" in said and [path.name for path in (tmp_path / "run").iterdir()] == ["mine.txt"]
