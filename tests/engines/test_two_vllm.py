"""Two real vLLM: beside each other with one flag different, and behind a router of the test's own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from profiler import diagnose, open_run
from profiler.analyzers.gap.measured import counters_of, measure
from profiler.collectors.host.pyspy import program
from tests.engines.conftest import vllm_server
from tests.engines.round_robin import router
from tests.engines.servers import PROGRAM, Running, profiler

pytestmark = pytest.mark.engines
REQUESTS, TOKENS = 400, 32


@pytest.mark.parametrize(
    ("flags", "setting", "values", "asked", "cause"),
    [
        (
            ("--max-num-seqs", "2"), "setting.max_num_seqs", [16, 2],
            ("--concurrency", "16", "--requests", "320", "--input-tokens", "32", "--output-tokens", "32"), "batching",
        ),
        (
            ("--max-num-batched-tokens", "64"), "setting.token_budget", [2048, 64],
            ("--concurrency", "8", "--requests", "120", "--input-tokens", "1024", "--output-tokens", "8"), "batching",
        ),
        (
            ("--no-enable-prefix-caching",), "setting.prefix_cache", [True, False],
            ("--concurrency", "4", "--requests", "160", "--shared-prefix", "1x1792", "--input-tokens", "32",
             "--output-tokens", "8"), "memory",
        ),
    ],
    ids=["sequences", "budget", "prefixes"],
)  # fmt: skip
def test_two_servers_that_differ_in_one_flag_are_told_apart_by_it(
    flags: tuple[str, ...], setting: str, values: list[int], asked: tuple[str, ...], cause: str, vllm: Running,
    tmp_path: Path,
) -> None:  # fmt: skip
    """Each is recorded under the same load, with a traced pass; the flag's cause is the largest, the other way round
    too. Where other programs hold the client back and no difference shows, both are recorded again, twice at most."""
    other = tmp_path / "other"
    other.mkdir()
    load = [*PROGRAM, "bench", "--out", "{run}", *asked, "--vocabulary", "250", "--url"]
    with vllm_server(vllm.python, vllm.model, other, "server.log", {}, *flags) as second:
        for attempt in range(3):
            runs = [tmp_path / f"{attempt}" / name for name in "AB"]
            for run, one in zip(runs, (vllm, second), strict=True):
                done = profiler("record", "--url", one.url, "--out", run, "--profile", "--", *load, one.url)
                assert done.returncode == 0, done.stderr
            if diagnose(*runs).verdict.winner is not None:
                break
    assert [open_run(run).fact(setting) for run in runs] == values
    for pair, better in ((runs, "a"), (runs[::-1], "b")):
        document = diagnose(*pair)
        gap = document.gaps[0]
        largest = max(gap.causes, key=lambda row: abs(row.gap))
        assert (document.verdict.winner, largest.cause) == (better, cause), document.verdict.text
        assert sum(row.gap for row in gap.causes) + gap.unexplained.gap == pytest.approx(gap.gap)


def test_one_recording_traces_two_engines(vllm: Running, second_vllm: Running, tmp_path: Path) -> None:
    with router((vllm.url, second_vllm.url)) as url:
        bench = [
            *PROGRAM, "bench", "--url", url, "--out", "{run}", "--engine", "vllm", "--concurrency", "8", "--requests",
            REQUESTS, "--input-tokens", "32", "--output-tokens", TOKENS, "--vocabulary", "250",
        ]  # fmt: skip
        stacks = [] if program() is None else ["--stacks"]
        done = profiler("record", "--url", url, "--out", tmp_path / "run", "--profile", *stacks, "--", *bench)
    assert done.returncode == 0, done.stderr
    run = open_run(tmp_path / "run")
    told = json.loads((tmp_path / "run" / "run.json").read_text())["recording"]
    assert list(run.workers) == ["worker-0", "worker-1"] and told["state"] == "done"
    assert run.fact("engine.name") == "vllm" and run.fact("setting.max_num_seqs") == 16
    # Each wrote a trace of its own into the folder that both share.
    assert [trace.path.split("/")[:2] for trace in run.traces] == [["worker-0", "trace"], ["worker-1", "trace"]]
    assert set(told["trace"]["workers"]) == {"worker-0", "worker-1"} and told["trace"]["toll"] > 0
    logs = {log.path: log for log in run.logs}
    decoded = [int(np.maximum(logs[f"worker-{at}/server.log"].steps.decode_tokens, 0).sum()) for at in range(2)]
    counters, gauges = counters_of(run.snapshots, None)
    # The load's warm-up of ten requests is in both; the first token of a request is its prefill's.
    assert counters["generation_tokens"] == (REQUESTS + 10) * TOKENS
    assert sum(decoded) == (REQUESTS + 10) * (TOKENS - 1) and min(decoded) > 0.3 * max(decoded)
    assert gauges["running_requests_max"] <= 8
    (measured,) = [measure(run, bench) for bench in run.benches]
    assert measured.steps is not None and measured.steps.parallel == 2
    assert measured.steps.total <= measured.duration
    if stacks:
        roles = {(path.parts[-3], path.name.rsplit("-", 1)[0]) for path in tmp_path.glob("run/worker-*/stacks/*.txt")}
        assert {("worker-0", "engine-core"), ("worker-1", "engine-core")} <= roles
    assert diagnose(tmp_path / "run", tmp_path / "run").verdict.status == "no difference"
    shown = profiler("inspect", "-v", tmp_path / "run")
    assert shown.returncode == 0 and "worker-1: " in shown.stdout
    # Both are free again.
    for one in (vllm, second_vllm):
        again = profiler("doctor", "--url", one.url, "--json")
        assert json.loads(again.stdout)["pieces"]
