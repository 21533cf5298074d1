"""The miniature engine behind an address, and a start of it that the product's own collectors record."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from profiler import registry
from profiler.cli.main import State
from profiler.cli.reading import read_run
from profiler.cli.served_start import record_served, serving
from profiler.collectors.discovery import discover
from profiler.collectors.http_client import Client
from profiler.examples.miniature_settings import Settings

pytestmark = pytest.mark.selftest


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def url(place: Path) -> Iterator[str]:
    pytest.importorskip("torch", reason="torch is not installed")
    with serving(Settings(max_num_seqs=4), place) as address:
        yield address


def completed(client: Client, prompt: object, tokens: object) -> list[str]:
    """The data of every event of a streamed answer."""
    answer = client.post("/v1/completions", {"prompt": prompt, "max_tokens": tokens, "stream": True}, 60.0)
    assert answer.status == 200
    return [line.removeprefix("data: ") for line in answer.text.splitlines() if line]


def test_it_is_found_as_an_engine_and_says_what_it_is(url: str, place: Path) -> None:
    found = discover(Client(url), registry.engines(), dict)
    assert found.engine is not None
    assert found.identity.version == "0.32.0+miniature"
    assert found.facts["setting.max_num_seqs"] == 4
    assert found.log == str(place / "server.log")


def test_an_answer_is_streamed_a_token_an_event_with_counts(url: str) -> None:
    with Client(url) as client:
        *events, last = completed(client, list(range(210)), 5)
        assert last == "[DONE]"
        answers = [json.loads(event) for event in events]
        assert [one["usage"]["completion_tokens"] for one in answers] == [1, 2, 3, 4, 5, 5]
        assert {one["usage"]["prompt_tokens"] for one in answers} == {210}
        assert [one["choices"][0]["finish_reason"] for one in answers[:-1]] == [None] * 4 + ["length"]
        assert answers[-1]["choices"] == []
        # The second time from the prefix cache.
        assert completed(client, list(range(210)), 5) == [*events, last]
        assert "vllm:prefix_cache_hits_total 200" in client.get("/metrics").text
        assert len(completed(client, "a text", 1)) == 3


@pytest.mark.parametrize(
    ("prompt", "tokens", "why"),
    [
        ([], 5, "neither text nor"),
        ([1, -1], 5, "neither text nor"),
        ([True], 5, "neither text nor"),
        ({"a": 1}, 5, "neither text nor"),
        ([1], 0, "no positive number"),
        ([1], "5", "no positive number"),
        ([1] * 250, 7, "above the 256"),
    ],
)
def test_what_it_cannot_answer_is_refused_with_the_reason(url: str, prompt: object, tokens: object, why: str) -> None:
    with Client(url) as client:
        refused = client.post("/v1/completions", {"prompt": prompt, "max_tokens": tokens}, 60.0)
        assert refused.status == 400
        assert why in refused.text
        assert client.get("/health").status == 200


def test_a_client_that_hangs_up_leaves_no_trace_in_the_log(url: str, place: Path) -> None:
    body = json.dumps({"prompt": [1], "max_tokens": 200}).encode()
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as gone:
            gone.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            gone.recv(1)
    with Client(url) as client:
        # Behind the three, since a step of the engine answers all of them.
        assert len(completed(client, [1], 201)) == 203
    assert "Traceback" not in (place / "server.log").read_text("utf-8")


def test_addresses_that_are_not_there_are_told_from_those_that_want_a_post(url: str) -> None:
    with Client(url) as client:
        assert client.get("/start_profile").status == 405
        assert client.get("/elsewhere").status == 404
        assert client.post("/elsewhere", None, 60.0).status == 404


def test_one_trace_at_a_time_and_it_ends_by_itself(url: str, place: Path) -> None:
    with Client(url) as client:
        begin = {"profile_prefix": "first", "max_iterations": 3}
        assert client.post("/start_profile", begin, 60.0).status == 200
        assert client.post("/start_profile", begin, 60.0).status == 409
        completed(client, [1, 2, 3], 5)
        assert client.post("/stop_profile", None, 60.0).status == 409
        assert client.post("/start_profile", {"profile_prefix": "../out"}, 60.0).status == 200
        assert client.post("/stop_profile", None, 60.0).status == 200
    assert [path.name.split(".")[0] for path in sorted(place.glob("*.pt.trace.json.gz"))] == [
        "first-rank-0",
        "trace-rank-0",
    ]


def test_a_recorded_start_is_a_run_like_any_other(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from profiler.examples.miniature_run import Load

    record_served(tmp_path / "run", Settings(), Load(requests=150, concurrency=8), 1000, State(quiet=True))
    run = read_run(tmp_path / "run", State(quiet=True))
    (bench,) = run.benches
    assert (bench.completed, bench.failed) == (150, 0)
    assert run.fact("engine.version") == "0.32.0+miniature"
    assert run.fact("setting.max_num_seqs") == 16
    assert len(run.traces) == 1
