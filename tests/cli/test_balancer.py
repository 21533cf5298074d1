"""``record`` and ``watch`` at the address of a load balancer, which sends every request to the next server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import pytest

from profiler import open_run
from tests.cli.conftest import Invoke
from tests.live_servers import Answer, Asked, Route, Server, client_of, served, sglang, vllm

pytestmark = pytest.mark.usefixtures("corpus")
TOLD = "several processes answer in turns"


def pod(name: str, start: int) -> dict[str, Route]:
    """An engine as recorded, of another start; its counters grow with every scrape, from another height."""
    routes = {"vllm": vllm, "sglang": sglang}[name]()
    text = routes["/metrics"]
    assert isinstance(text, str)
    text = re.sub(r"(?m)^(process_start_time_seconds|sglang:startup_time_seconds\{.*\}) .*$", rf"\1 {start}.25", text)
    looks = iter(range(10**6))

    def grown(_: Asked) -> Answer:
        made = rf"\1 {1000 * start + next(looks)}"
        return 200, re.sub(rf"(?m)^({name}:generation_tokens_total(?:\{{.*\}})?) .*$", made, text)

    return routes | {"/metrics": grown}


@contextmanager
def balanced(*pods: dict[str, Route]) -> Iterator[Server]:
    """One address, and behind it these servers in turns."""
    with served(pods[0]) as first, served(pods[-1]) as last:
        turns = cycle((first, last))

        def forward(asked: Asked) -> Answer:
            with client_of(next(turns)) as client:
                answer = client.get(asked.path)
            return answer.status, answer.text

        with served(dict.fromkeys(pods[0], forward)) as balancer:
            yield balancer


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_a_recording_through_a_balancer_says_so_and_its_counters_are_not_used(
    name: str, invoke: Invoke, tmp_path: Path
) -> None:
    with balanced(pod(name, 7), pod(name, 400)) as server:
        words = "--url", server.url, "--out", tmp_path / "run", "--duration", "700ms", "--every", "100ms"
        status, _, err = invoke("record", *words)
    lines = [line for line in err.splitlines() if TOLD in line]
    assert status == 3 and len(lines) == 1, err
    assert lines[0].startswith(f"problem: {server.url}/metrics: ") and "--url" in lines[0]
    run = open_run(tmp_path / "run")
    assert run.snapshots == () and len(list((tmp_path / "run" / "metrics").iterdir())) >= 3
    assert sum(TOLD in one.detail for one in run.problems if one.file == "metrics") == 1
    assert TOLD in json.dumps(json.loads((tmp_path / "run" / "run.json").read_text())["recording"]["problems"])
    status, out, _ = invoke("inspect", tmp_path / "run")
    assert status == 3 and TOLD in " ".join(out.split())


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_one_server_and_its_restart_are_recorded_as_ever(name: str, invoke: Invoke, tmp_path: Path) -> None:
    before, after = pod(name, 7), pod(name, 400)
    looks = iter(range(10**6))

    def restarted(asked: Asked) -> Answer:
        route = (before if next(looks) < 4 else after)["/metrics"]
        assert callable(route)
        return route(asked)

    with served(before | {"/metrics": restarted}) as server:
        words = "--url", server.url, "--out", tmp_path / "run", "--duration", "900ms", "--every", "100ms"
        status, _, err = invoke("record", *words)
    run = open_run(tmp_path / "run")
    assert status == 0 and TOLD not in err
    made = {one.values["generation_tokens"] // 100000 for one in run.snapshots}
    assert made == {0.0, 4.0} and not [one for one in run.problems if one.severity != "info"]


def test_a_look_through_a_balancer_ends_with_one_line(invoke: Invoke) -> None:
    with balanced(pod("vllm", 7), pod("vllm", 400)) as server:
        status, out, err = invoke("watch", "--url", server.url, "--every", "50ms", "--duration", "5s")
    assert status == 2 and out == ""
    assert err.count("\n") == 1 and TOLD in err and err.startswith(f"profiler: {server.url}/metrics: ")
