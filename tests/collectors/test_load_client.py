"""The client against a real server in this process: what it sends, what it takes for output, how it fails and ends."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import profiler
from profiler import registry
from profiler.analyzers.goodput import goodput
from profiler.analyzers.metrics import metrics_of
from profiler.collectors.client.crew import LOST_AFTER
from profiler.collectors.client.lengths import parse_lengths
from profiler.collectors.client.load import Carried, Order, send_load
from profiler.collectors.client.target import parse_target, secret_headers
from profiler.collectors.client.workload import Workload
from profiler.errors import BadInput, UsageError
from profiler.model.requests import BenchResult
from profiler.model.run import Run
from tests.mock_server import MockServer, Script, serving

CLOSED = Workload(concurrencies=(4,), requests=12, warmup=2, input=parse_lengths("5"), output=parse_lengths("6"))
OPEN = replace(CLOSED, concurrencies=(), rates=(50.0,))


def order(mock: MockServer, out: Path, work: Workload = CLOSED, **more: Any) -> Order:
    return Order(parse_target(f"http://127.0.0.1:{mock.port}"), out, work, **more)


def sent(mock: MockServer, out: Path, work: Workload = CLOSED, **more: Any) -> tuple[Carried, Run]:
    carried = send_load(order(mock, out, work, **more), registry.engines())
    return carried, profiler.open_run(out)


def records(out: Path, point: int = 0) -> list[dict[str, Any]]:
    (file,) = (out / "load").glob(f"{point:02d}-*.jsonl")
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    found = [line for line in lines if line["type"] == "record" and line["phase"] == "load"]
    return sorted(found, key=lambda line: line["i"])


def table(bench: BenchResult) -> Any:
    assert bench.requests is not None
    return bench.requests


def warnings(run: Run) -> str:
    return "\n".join(problem.detail for problem in run.problems if problem.severity != "info")


# ----------------------------------------------------------------------------------------------------- what is measured
@pytest.mark.parametrize("endpoint", ["completions", "chat"])
@pytest.mark.parametrize("usage", ["end", "running", "never"])
def test_streams_of_the_openai_endpoints(endpoint: str, usage: str, tmp_path: Path) -> None:
    script = Script(usage=usage, role_first=True, comments=True, owner="vllm" if usage == "running" else "somebody")
    with serving(script) as mock:
        _, run = sent(mock, tmp_path, replace(CLOSED, form="text"), endpoint=endpoint)
    (bench,) = run.benches
    assert (bench.completed, bench.failed, bench.total_output_tokens) == (12, 0, 72)
    assert bench.max_concurrency == 4 and bench.model == "mock" and bench.client_protocol == endpoint
    assert bench.total_input_tokens == (0 if usage == "never" else 60)
    assert np.array_equal(np.diff(table(bench).itl_offset), [5] * 12)  # six chunks; role and comments are none
    assert all(one.get("tokens") == ([1] * 6 if usage == "running" else None) for one in records(tmp_path))
    assert ("chunks were counted" in warnings(run)) == (usage == "never")
    assert run.fact("engine.name") == ("vllm" if usage == "running" else None)
    assert [line.severity for line in run.problems if line.severity == "error"] == []


def test_chunks_of_several_tokens(tmp_path: Path) -> None:
    with serving(Script(usage="running", pack=4, owner="vllm")) as mock:
        _, run = sent(mock, tmp_path)
    assert run.benches[0].total_output_tokens == 72
    assert {tuple(one["tokens"]) for one in records(tmp_path)} == {(4, 2)}
    assert all(one["counted"] == "usage" and one["output"] == 6 for one in records(tmp_path))


def test_usage_at_the_end_counts_more_than_chunks(tmp_path: Path) -> None:
    with serving(Script(pack=3)) as mock:
        _, run = sent(mock, tmp_path)
    assert run.benches[0].total_output_tokens == 72
    assert all(len(one["chunks"]) == 2 and "tokens" not in one for one in records(tmp_path))


def test_a_native_endpoint_whose_text_grows(tmp_path: Path) -> None:
    with serving(Script(owner="sglang", pack=2)) as mock:
        _, run = sent(mock, tmp_path, endpoint="native")
        body = mock.of_load()[0].body
    assert run.benches[0].total_output_tokens == 72 and run.benches[0].total_input_tokens == 60
    assert {tuple(one["tokens"]) for one in records(tmp_path)} == {(2, 2, 2)}
    assert body["sampling_params"] == {
        "temperature": 0, "max_new_tokens": 6, "ignore_eos": True, "min_new_tokens": 6,
    }  # fmt: skip


def test_what_is_sent_is_the_plan(tmp_path: Path) -> None:
    with serving(Script(owner="vllm")) as mock:
        sent(mock, tmp_path / "a", extra_body={"top_k": 3})
        first = [one.body for one in mock.of_load()]
        mock.seen.clear()
        sent(mock, tmp_path / "b", plan=tmp_path / "a" / "load" / "plan.jsonl", processes=3)
        again = [one.body for one in mock.of_load()]
        assert {one.headers["x-request-id"] for one in mock.seen} >= {"profiler-warmup-0", "profiler-load-11"}
    assert len(first) == 12 and all(body.pop("top_k") == 3 for body in first)
    assert first == again
    assert first[0]["ignore_eos"] is True and first[0]["min_tokens"] == 6 and first[0]["model"] == "mock"
    one, two = (profiler.open_run(tmp_path / name) for name in "ab")
    assert one.fact("workload.extra_body") == {"top_k": 3} and two.fact("workload.extra_body") is None
    assert one.fact("workload.plan") == two.fact("workload.plan") is not None
    assert np.array_equal(table(one.benches[0]).output_tokens, table(two.benches[0]).output_tokens)


def test_no_request_leaves_before_it_is_due_and_the_lag_is_kept(tmp_path: Path) -> None:
    with serving(Script(ttft=0.02, itl=0.001)) as mock:
        _, run = sent(mock, tmp_path, replace(OPEN, requests=40))
    (bench,) = run.benches
    assert bench.request_rate == 50.0 and bench.metadata["arrival"] == "poisson"
    assert all(one["sent"] >= one["due"] >= 0 for one in records(tmp_path))
    assert float(bench.metadata["send_lag_p99_ms"]) > 0 and float(bench.metadata["client_cpu"]) > 0
    assert table(bench).ttft.min() >= 0.02 and metrics_of(bench)["mean_e2e"] >= 0.025
    rate = goodput(bench, {"ttft": 60.0})
    assert rate is not None and rate == pytest.approx(40 / bench.duration)


def test_a_limit_of_an_open_loop_is_said_with_what_it_hides(tmp_path: Path) -> None:
    with serving(Script(ttft=0.1)) as mock:
        _, run = sent(
            mock, tmp_path, replace(OPEN, rates=(200.0,), concurrencies=(1,), requests=10, arrival="constant")
        )
    assert "the limit of 1 in flight held requests back: TTFT from when they were due" in warnings(run)
    lines = records(tmp_path)
    assert all(later["sent"] >= earlier["sent"] + earlier["end"] for earlier, later in pairwise(lines))


def test_a_stalled_server_delays_answers_and_no_request(tmp_path: Path) -> None:
    """An open loop sends on while nothing comes back: no coordinated omission."""
    with serving(Script(gather=25)) as mock:
        _, run = sent(mock, tmp_path, replace(OPEN, requests=25, warmup=0), timeout=60.0)
    assert run.benches[0].completed == 25
    lines = records(tmp_path)
    assert max(one["sent"] for one in lines) < min(one["sent"] + one["chunks"][0] for one in lines)


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_never_more_in_flight_than_asked(processes: int, tmp_path: Path) -> None:
    with serving(Script(ttft=0.02, itl=0.002)) as mock:
        _, run = sent(mock, tmp_path, replace(CLOSED, requests=24), processes=processes)
    lines = records(tmp_path)
    moments = sorted([(one["sent"], 1) for one in lines] + [(one["sent"] + one["end"], -1) for one in lines])
    most = max(np.cumsum([change for _, change in moments]))
    assert most == 4 if processes == 1 else 1 <= most <= 4
    assert run.benches[0].completed == 24 and [one["i"] for one in lines] == list(range(24))


def test_a_sweep_is_one_result_a_point(tmp_path: Path) -> None:
    with serving(Script()) as mock:
        carried, run = sent(mock, tmp_path, replace(CLOSED, concurrencies=(1, 3)))
    assert carried.stopped is None
    assert [(bench.max_concurrency, bench.completed) for bench in run.benches] == [(1, 12), (3, 12)]
    assert [record.format for record in run.files] == ["manifest", "profiler_bench", "profiler_bench", "profiler_plan"]


def test_a_duration_ends_a_closed_loop_and_says_what_was_left(tmp_path: Path) -> None:
    with serving(Script(ttft=0.05)) as mock:
        _, run = sent(mock, tmp_path, replace(CLOSED, requests=1000, duration=0.3))
    (bench,) = run.benches
    assert 4 <= bench.completed < 1000 and bench.failed == 0
    assert any("the time was over" in problem.detail for problem in run.problems)


def test_the_python_function(tmp_path: Path) -> None:
    with serving(Script(needs_key="k")) as mock:
        url = f"http://127.0.0.1:{mock.port}/v1/"
        run = profiler.bench(url, tmp_path / "run", concurrency=[2], requests=4, output_tokens="3",
                             headers={"Authorization": "Bearer k"})  # fmt: skip
    assert run.benches[0].completed == 4 and run.benches[0].total_output_tokens == 12


# --------------------------------------------------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("trouble", "after", "kind", "says"),
    [
        ("status", 0, "http", "status 503: too many requests"),
        ("error", 2, "stream", "out of memory"),
        ("cut", 3, "disconnect", "closed the connection"),
        ("garbage", 1, "protocol", "no JSON objects"),
        ("no stream", 0, "protocol", "no stream of events"),
        ("no http", 0, "protocol", "no HTTP answer"),
        ("empty", 0, "empty", "no output"),
        ("stall", 2, "timeout", "within 2 s"),
    ],
)
def test_a_failure_is_kept_with_its_kind(trouble: str, after: int, kind: str, says: str, tmp_path: Path) -> None:
    with serving(Script(trouble=trouble, after=after, only=5)) as mock:
        carried, run = sent(mock, tmp_path, timeout=2.0 if trouble == "stall" else 600.0)
    (bench,) = run.benches
    assert (bench.completed, bench.failed, carried.stopped) == (11, 1, None)
    failed = records(tmp_path)[5]
    assert failed["ok"] is False and failed["kind"] == kind and says in failed["error"]
    assert len(failed.get("chunks", [])) == (6 if trouble == "garbage" else after)  # what came before stays known
    assert "1 of 12 requests failed" in warnings(run) and says in warnings(run)
    assert np.isnan(table(bench).ttft[5]) and bool(table(bench).ok[5]) is False


def test_an_answer_without_a_length_ends_with_its_connection(tmp_path: Path) -> None:
    with serving(Script(trouble="until close")) as mock:
        _, run = sent(mock, tmp_path)
    assert run.benches[0].completed == 12 and run.benches[0].total_output_tokens == 72


def test_a_server_that_closes_idle_connections_costs_no_request(tmp_path: Path) -> None:
    """A retry is made only where no byte of an answer came, and it is counted."""
    with serving(Script(close_idle=True)) as mock:
        _, run = sent(mock, tmp_path, replace(CLOSED, concurrencies=(1,)))
    assert run.benches[0].completed == 12
    again = sum(one.get("reconnects", 0) for one in records(tmp_path))
    said = [problem.count for problem in run.problems if "sent again" in problem.detail]
    assert said == ([again] if again else [])


def test_a_lost_server_ends_the_load_and_leaves_a_run(tmp_path: Path) -> None:
    with serving(Script(trouble="cut")) as mock:
        carried, run = sent(mock, tmp_path, replace(CLOSED, requests=500, concurrencies=(2, 4)))
    assert carried.stopped == "server lost"
    assert LOST_AFTER <= len(records(tmp_path)) < 500
    assert "the load was stopped (server lost)" in warnings(run)
    assert len(list((tmp_path / "load").glob("0*"))) == 1  # no second point


def test_a_load_whose_warm_up_fails_is_not_sent(tmp_path: Path) -> None:
    with serving(Script(trouble="error", always=True)) as mock:
        carried, run = sent(mock, tmp_path)
        assert mock.of_load() == []
    assert carried.stopped == "warm-up failed" and run.benches == ()
    assert "stream: out of memory" in warnings(run) and "12 of 12 requests were not sent" in warnings(run)


def test_nothing_is_written_where_nothing_answers(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(UsageError, match="nothing answers there"):
            send_load(Order(parse_target(f"http://127.0.0.1:{port}"), tmp_path / "run", CLOSED), registry.engines())
    assert not (tmp_path / "run").exists()


def test_a_load_is_never_written_over(tmp_path: Path) -> None:
    with serving(Script()) as mock:
        sent(mock, tmp_path)
        with pytest.raises(UsageError, match="holds a load already"):
            send_load(order(mock, tmp_path), registry.engines())


def test_the_operators_manifest_stays(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"engine": {"name": "trtllm", "version": "1.2"}}')
    with serving(Script(owner="vllm")) as mock:
        _, run = sent(mock, tmp_path)
    assert run.fact("engine.name") == "trtllm" and run.fact("model.name") == "mock"


@pytest.mark.parametrize("signalled", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_load_opens(signalled: signal.Signals, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with serving(Script(ttft=0.01, itl=0.02)) as mock:
        command = ["bench", "--url", f"http://127.0.0.1:{mock.port}", "--out", str(out), "--concurrency", "3",
                   "--requests", "5000", "--output-tokens", "5", "--warmup", "0"]  # fmt: skip
        running = subprocess.Popen(
            [sys.executable, "-c", "from profiler.cli.main import main; main()", *command],
            cwd=Path(profiler.__file__).parents[1], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + 60
        while len(mock.of_load()) < 12 and time.monotonic() < deadline:
            time.sleep(0.02)
        running.send_signal(signalled)
        _, err = running.communicate(timeout=60)
        assert running.returncode == (130 if signalled == signal.SIGINT else -9)
    assert b"Traceback" not in err
    run = profiler.open_run(out)
    (bench,) = run.benches
    assert bench.completed >= 1
    assert ("the load was stopped (interrupted)" if signalled == signal.SIGINT else "has no end") in warnings(run)
    if signalled == signal.SIGINT:
        assert {one.get("kind") for one in records(out)} <= {None, "interrupted"}


# -------------------------------------------------------------------------------------------------------------- secrets
def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_keys_are_sent_and_never_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from profiler.cli.main import main

    key, other = "PLANTED-SECRET-of-the-env", "PLANTED-SECRET-of-a-header"
    monkeypatch.setenv("SERVER_KEY", key)
    (tmp_path / "headers").write_text(f"# ours\nX-Team: {other}\n")
    with serving(Script(needs_key=key, trouble="status", only=3)) as mock:
        words = ["profiler", "bench", "--url", f"http://127.0.0.1:{mock.port}", "--out", str(tmp_path / "run"),
                 "--concurrency", "2", "--requests", "8", "--api-key-env", "SERVER_KEY",
                 "--header-file", str(tmp_path / "headers"), "--extra-body", '{"api_key": "PLANTED-SECRET-body"}']  # fmt: skip
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as left:
            main()
        assert left.value.code == 0
        assert all(one.headers["authorization"] == f"Bearer {key}" for one in mock.seen)
        assert all(one.headers["x-team"] == other for one in mock.seen)
        assert mock.of_load()[0].body["api_key"] == "PLANTED-SECRET-body"
    out, err = capfd.readouterr()
    assert "PLANTED" not in out + err
    assert b"PLANTED" not in everything_in(tmp_path / "run")


def test_a_senders_command_line_and_environment_hold_no_header(tmp_path: Path) -> None:
    """The key of a file travels through a pipe: other users of the machine can't read it off the process."""
    (tmp_path / "key").write_text("PLANTED-SECRET-of-a-file\n")
    seen: list[bytes] = []
    with serving(Script(ttft=0.3, needs_key="PLANTED-SECRET-of-a-file")) as mock:
        target = parse_target(f"http://127.0.0.1:{mock.port}", secret_headers(key_file=tmp_path / "key"))

        def look(label: str, answered: int, planned: int) -> None:
            for process in Path("/proc").glob("[0-9]*/stat"):
                with contextlib.suppress(OSError):  # it may just have ended
                    if process.read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                        seen.extend((process.parent / name).read_bytes() for name in ("cmdline", "environ"))

        send_load(Order(target, tmp_path / "run", CLOSED), registry.engines(), look)
    assert any(b"sender_process" in text for text in seen)
    assert not any(b"PLANTED" in text for text in seen)


def test_a_refused_entry_says_what_to_do(tmp_path: Path) -> None:
    with serving(Script(needs_key="x")) as mock, pytest.raises(UsageError, match="--api-key-env"):
        send_load(order(mock, tmp_path), registry.engines())


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"key_variable": "SURELY_NOT_SET_ANYWHERE"}, UsageError),
        ({"key_file": "empty"}, BadInput),
        ({"header_file": "broken"}, BadInput),
        ({"header_file": "split"}, BadInput),
    ],
)
def test_keys_that_are_none(arguments: dict[str, str], error: type[Exception], tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "broken").write_text("PLANTED-SECRET\n")
    (tmp_path / "split").write_text("bad name: PLANTED-SECRET\n")
    given = {name: value if name == "key_variable" else tmp_path / value for name, value in arguments.items()}
    with pytest.raises(error) as refused:
        secret_headers(**given)  # type: ignore[arg-type]
    assert "PLANTED" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["ftp://a", "http://", "http://h:99999", "http://u:PLANTED@h", "http://h/?q=1", "http://h/a b"]
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_target(url)
    assert "PLANTED" not in str(refused.value)


def test_tls_with_an_authority_of_ones_own(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed, and the certificate is made with it")
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(tmp_path / "key.pem"), "-out",
               str(tmp_path / "cert.pem"), "-days", "2", "-subj", "/CN=localhost", "-addext",
               "subjectAltName=DNS:localhost,IP:127.0.0.1"]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    with serving(Script(), tls=context) as mock:
        url = f"https://127.0.0.1:{mock.port}"
        with pytest.raises(UsageError, match=r"(?i)certificate"):
            send_load(Order(parse_target(url), tmp_path / "no", CLOSED), registry.engines())
        target = parse_target(url, ca_file=tmp_path / "cert.pem")
        send_load(Order(target, tmp_path / "run", CLOSED), registry.engines())
    assert profiler.open_run(tmp_path / "run").benches[0].completed == 12
