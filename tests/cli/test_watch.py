"""``profiler watch`` and ``profiler doctor --url`` against servers that answer as recorded."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from profiler.cli.main import main
from tests.live_servers import Answer, Asked, llamacpp, served, sglang, vllm
from tests.strategies import ROOT

pytestmark = pytest.mark.usefixtures("corpus")
Invoke = Callable[..., tuple[int, str, str]]


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Invoke:
    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["profiler", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        assert isinstance(left.value.code, int)
        out, err = capfd.readouterr()
        return left.value.code, out, err

    return run


def growing(tokens_a_look: int, waiting: int) -> Callable[[Asked], Answer]:
    """llama.cpp's metrics with a counter that grows at every look."""
    text = llamacpp()["/metrics"]
    assert isinstance(text, str)
    looks = iter(range(10**6))

    def answer(_: Asked) -> Answer:
        made = re.sub(r"(?m)^(llamacpp:tokens_predicted_total) .*$", rf"\1 {next(looks) * tokens_a_look}", text)
        made = re.sub(r"(?m)^(llamacpp:requests_processing) .*$", r"\1 8", made)
        return 200, re.sub(r"(?m)^(llamacpp:requests_deferred) .*$", rf"\1 {waiting}", made)

    return answer


def test_a_pipe_gets_a_line_for_every_look(invoke: Invoke) -> None:
    with served(llamacpp() | {"/metrics": growing(50, waiting=7)}) as server:
        status, out, _ = invoke("watch", "--url", server.url, "--every", "100ms", "--duration", "700ms")
        assert {one.method for one in server.asked} == {"GET"}
    lines = out.splitlines()
    assert status == 0 and len(lines) >= 3 and "\x1b" not in out
    for line in lines:
        assert "running 8, waiting 7" in line and "held up by batching: 7 requests wait behind the limit of 8" in line
        rate = re.search(r"output tokens/s ([\d,]+)", line)
        assert rate is not None and int(rate[1].replace(",", "")) > 0


def test_a_server_that_goes_away_is_said_and_waited_for(invoke: Invoke) -> None:
    answers = iter([True] * 4)
    lively = growing(50, waiting=0)

    def answer(asked: Asked) -> Answer:
        return lively(asked) if next(answers, False) else (0, "")

    with served(llamacpp() | {"/metrics": answer}) as server:
        status, out, _ = invoke("watch", "--url", server.url, "--every", "50ms", "--duration", "600ms")
    assert status == 0 and "no answer" in out.splitlines()[-1]


def test_ctrl_c_ends_it(tmp_path: object) -> None:
    with served(vllm()) as server:
        command = [sys.executable, "-c", "from profiler.cli.main import main; main()", "watch", "--url", server.url]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while server.paths("GET").count("/metrics") < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _out, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in err, err


def test_without_metrics_it_says_what_turns_them_on(invoke: Invoke) -> None:
    with served(llamacpp(metrics=False)) as server:
        status, _, err = invoke("watch", "--url", server.url)
    assert status == 2 and "start it with --metrics" in err and len(err.splitlines()) == 1


def test_the_doctor_of_a_server_names_every_piece_and_the_commands(invoke: Invoke) -> None:
    with served(vllm(settings=False, profiler=False)) as server:
        status, out, _ = invoke("doctor", "--url", server.url, "--json")
        assert {one.method for one in server.asked} == {"GET"}
    told = json.loads(out)
    pieces = {one["name"]: one for one in told["pieces"]}
    assert status == 0 and told["engine"] == "vLLM 0.32.0"
    assert (
        pieces["metrics"]["ready"] and not pieces["trace"]["ready"] and "--profiler-config" in pieces["trace"]["needs"]
    )
    assert set(told["restart"]) == {"nsys", "rocprofv3"}
    with served(sglang()) as server:
        status, out, _ = invoke("--no-color", "doctor", "--url", server.url)
    assert status == 0 and "SGLang 0.5.23" in out and "can be started (--profile)" in re.sub(r"\s+", " ", out)


def test_the_doctor_of_this_machine_covers_every_collector(invoke: Invoke) -> None:
    status, out, _ = invoke("doctor", "--json")
    names = {one["name"] for one in json.loads(out)}
    assert status == 0
    assert names >= {
        "pynvml",
        "amdsmi",
        "py-spy",
        "torch",
        "nsys",
        "rocprofv3",
        "docker",
        "journalctl",
        "metrics",
        "nvtx",
    }
