"""The rules of a fair comparison: each one shown passing, failing and not known where data can say so, and on real
runs what a careful reader of their files would find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from profiler import open_run
from profiler.analyzers.checking import check as checked
from profiler.analyzers.device import DeviceAccount
from profiler.analyzers.fairness.rules import RULES, check
from profiler.analyzers.graphs import MODES, GraphUse
from profiler.model.check import Check
from profiler.model.counters import GpuCounters
from profiler.model.diagnosis import FairnessRule
from profiler.model.fact import Fact
from profiler.model.metrics import MetricsSnapshot
from profiler.model.requests import BenchResult, Outputs, RequestTable
from profiler.model.run import Run
from profiler.model.steps import EngineLog, StepTable
from profiler.model.trace import EventTable, Trace
from tests.strategies import CORPUS, ROOT

N = 40
FACTS: dict[str, object] = {
    "engine.name": "one", "engine.version": "1.2.3", "engine.command": ["one", "serve"], "model.name": "m",
    "model.dtype": "bfloat16", "setting.kv_dtype": "auto", "setting.prefix_cache": False, "setting.tensor_parallel": 1,
    "hardware.gpu": "H200", "hardware.count": 1, "hardware.driver": "580", "hardware.cores": 16,
    "workload.temperature": 0, "workload.warmups": 32, "workload.ignore_eos": True, "workload.output_tokens": 50,
    "workload.dataset": "random", "workload.seed": 1, "workload.endpoint": "/v1/completions", "workload.retries": 0,
    "workload.profiled": False, "hardware.exclusive": True, "setting.max_num_seqs": 256, "setting.kv_tokens": 10_000,
    "workload.client_command": ["bench", "--base-url", "http://127.0.0.1:8000"],
}  # fmt: skip


def table(n: int = N, **columns: Any) -> RequestTable:
    rng = np.random.default_rng(0)
    gaps = 0.01 * (0.9 + 0.2 * rng.random((n, 49)))
    ttft = 0.05 + 0.01 * rng.random(n)
    texts = Outputs(np.arange(n), np.full(n, 200), np.zeros(n, np.bool_))
    one = RequestTable(
        start=np.arange(n) * 0.1, ttft=ttft, e2e=ttft + gaps.sum(1), input_tokens=np.full(n, 100),
        output_tokens=np.full(n, 50), ok=np.ones(n, np.bool_), itl=gaps.ravel(), itl_offset=np.arange(n + 1) * 49,
        late=np.full(n, 0.001), outputs=texts,
    )  # fmt: skip
    return replace(one, **columns)


def bench(**fields: Any) -> BenchResult:
    one = BenchResult(
        path="bench.json", tool="tool", duration=100.0, completed=N, failed=0, total_input_tokens=100 * N,
        total_output_tokens=50 * N, request_rate=10.0, client_protocol="openai", requests=table(),
        metadata={"num_prompts": str(N)},
    )  # fmt: skip
    return replace(one, **fields)


def scrape(order: float, **values: float) -> MetricsSnapshot:
    return MetricsSnapshot(path="m.prom", engine="one", order=order, seconds=None, values=values)


def run(
    name: str = "run-A", facts: dict[str, object] | None = None, result: BenchResult | None = None, **rest: Any
) -> Run:
    stated: dict[str, Fact[object]] = {
        key: Fact(value, "run.json", False) for key, value in (FACTS | (facts or {})).items() if value is not None
    }
    benches = rest.pop("benches", (bench() if result is None else result,))
    return Run(name=name, path=name, files=(), facts=stated, benches=benches, **rest)


def answer(rule: str, a: Run, b: Run) -> FairnessRule:
    found = check(a, b, *(one.benches[-1] if one.benches else None for one in (a, b)))
    return next(one for one in found if one.rule == rule)


def test_there_are_sixty_rules_each_named_once() -> None:
    assert [rule.label for rule in RULES] == [f"F-{n:02}" for n in range(1, 61)]
    assert len({rule.name for rule in RULES}) == len(RULES)


Change = Callable[[], Run]
FAILS: dict[str, tuple[str, Change]] = {
    "same_model": ("block", lambda: run(facts={"model.name": "other"})),
    "one_definition": ("block", lambda: run(result=bench(tool="another", requests=None))),
    "same_precision": ("block", lambda: run(facts={"setting.quantization": "fp8"})),
    "same_kv_dtype": ("warn", lambda: run(facts={"setting.kv_dtype": "fp8"})),
    "same_compute_dtype": ("warn", lambda: run(facts={"model.dtype": "float16"})),
    "same_model_code": ("block", lambda: run(facts={"setting.model_override": '{"num_hidden_layers": 2}'})),
    "same_prompt_tokens": ("block", lambda: run(result=bench(total_input_tokens=102 * N))),
    "same_sampling": ("block", lambda: run(facts={"workload.temperature": 0.8})),
    "same_requests": ("block", lambda: run(result=bench(completed=N - 1, requests=table(N - 1)))),
    "same_output_tokens": ("block", lambda: run(result=bench(total_output_tokens=48 * N))),
    "length_honoured": ("block", lambda: run(result=bench(requests=table(output_tokens=np.repeat([40, 50], [2, 38]))))),
    "tokens_counted_alike": ("block", lambda: run(result=bench(metadata={"total_output_tokens_retokenized": "1900"}))),
    "same_load": ("block", lambda: run(result=bench(request_rate=11.0))),
    "same_load_mode": ("block", lambda: run(result=bench(request_rate=float("inf"), max_concurrency=4))),
    "same_interface": ("block", lambda: run(facts={"workload.endpoint": "/generate"})),
    "same_hardware": ("block", lambda: run(facts={"hardware.gpu": "H100"})),
    "same_driver": ("warn", lambda: run(facts={"hardware.driver": "570"})),
    "exclusive_machine": ("block", lambda: run(facts={"hardware.exclusive": False})),
    "same_way_to_server": ("warn", lambda: run(facts={"workload.client_command": ["bench", "--base-url=http://far:1"]})),
    "same_limits": ("warn", lambda: run(facts={"hardware.cores": 8})),
    "warmed_up": ("warn", lambda: run(facts={"workload.warmups": 0})),
    "same_cache_state": ("warn", lambda: run(facts={"setting.prefix_cache": True})),
    "long_enough": ("warn", lambda: run(result=bench(duration=59.0))),
    "same_kv_capacity": ("info", lambda: run(facts={"setting.kv_tokens": 20_000})),
    "graphs_alike": ("warn", lambda: run(snapshots=(scrape(0, eager_steps=0, graph_steps=0), scrape(1, eager_steps=9, graph_steps=1)))),
    "devices_counted": ("block", lambda: run(facts={"setting.tensor_parallel": 2, "hardware.count": 1})),
    "same_speculation": ("warn", lambda: run(facts={"setting.speculative": "draft"})),
    "released": ("warn", lambda: run(facts={"engine.version": "1.3.0.dev5+g0123abcd"})),
    "client_free": ("block", lambda: run(result=bench(requests=table(late=np.full(N, 0.02))))),
    "no_omission": ("block", lambda: run(result=bench(requests=table(late=np.linspace(0, 0.02, N))))),
    "no_failures": ("block", lambda: run(result=bench(completed=N - 1, failed=1))),
    "no_hidden_retries": ("warn", lambda: run(facts={"workload.retries": 2})),
    "all_answered": ("block", lambda: run(result=bench(metadata={"num_prompts": str(N + 3)}))),
    "same_chunks": ("warn", lambda: run(result=bench(requests=chunked(4)))),
    "even_delivery": ("warn", lambda: run(result=bench(requests=bursting()))),
    "clocks_sane": ("warn", lambda: run(result=bench(requests=table(ttft=np.full(N, -1.0))))),
    "over_all_sent": ("", lambda: run(result=bench(failed=1, requests=None))),
    "output_quality": ("block", lambda: run(result=bench(requests=table(outputs=Outputs(np.arange(N), np.full(N, 9), np.ones(N, np.bool_)))))),
    "no_tricks": ("block", lambda: run(facts={"setting.load_format": "dummy"})),
    "repeatable": ("warn", lambda: run(facts={"engine.version": None})),
    "scope": ("info", lambda: run(facts={"model.dtype": None})),
}  # fmt: skip


def chunked(tokens: int) -> RequestTable:
    whole = table()
    chunks = 49 // tokens
    return replace(whole, itl=np.full(N * chunks, 0.04), itl_offset=np.arange(N + 1) * chunks)


def bursting() -> RequestTable:
    gaps = table().itl.copy()
    gaps[::5] = 0.0002
    return table(itl=gaps)


@pytest.mark.parametrize(("pace", "status"), [(0.0101, "fail"), (0.0012, "unknown")])
def test_a_late_client_is_told_from_a_fast_engine_by_the_engines_own_pace(pace: float, status: str) -> None:
    """Where more than half of the chunks came in bursts, the client's median gap is none of the engine's."""
    gaps = np.zeros(N * 49)
    gaps[::20] = 0.2
    told = tuple(scrape(at, itl_seconds_sum=at * pace * N * 49, itl_seconds_count=at * N * 49) for at in (0, 1))
    even, late = run(snapshots=told), run("run-B", result=bench(requests=table(itl=gaps)), snapshots=told)
    found = answer("even_delivery", even, late)
    assert found.status == status, found
    assert answer("even_delivery", replace(even, snapshots=()), replace(late, snapshots=())).status == "unknown"


@pytest.mark.parametrize("rule", FAILS)
def test_one_planted_difference_fails_its_rule_and_equal_runs_do_not(rule: str) -> None:
    severity, changed = FAILS[rule]
    base, other = run(), replace(changed(), name="run-B")
    if rule == "graphs_alike":
        base = run(snapshots=(scrape(0, eager_steps=0, graph_steps=0), scrape(1, eager_steps=0, graph_steps=9)))
    for a, b in ((base, other), (other, base)):
        found = answer(rule, a, b)
        if not severity:
            assert found.status == "unknown"
            continue
        assert (found.status, found.severity) == ("fail", severity), found
        assert found.fix and found.detail
        assert rule in ("one_definition", "same_model_code") or found.evidence
    assert answer(rule, base, replace(base, name="again")).status != "fail" or rule in ("repeatable", "scope")


def sampled(clock: float, throttled: float = 0.0) -> GpuCounters:
    ones = np.ones(50)
    return GpuCounters("gpu.csv", ones, np.zeros(50, np.int64), clock * ones, 2e9 * ones, ones, ones, throttled * ones)


def logged(every_step: bool) -> EngineLog:
    return EngineLog("server.log", "one", StepTable.build(0), every_step)


def traced(start: float) -> Trace:
    """A trace of one second that began at this second of the epoch."""
    columns = {f.name: np.zeros(1, np.int64) for f in fields(EventTable)}
    return Trace(
        "t.json", EventTable(**columns | {"duration": np.array([10**9])}), ("a kernel",), (), (), base=int(start * 1e9)
    )  # type: ignore[arg-type]


def silent() -> Run:
    nothing = np.zeros(N, np.int64)
    return run(result=bench(requests=table(outputs=Outputs(nothing, nothing, nothing > 0))))


PLANTED: dict[str, tuple[str, str, Change, Change]] = {
    "same_clocks": ("fail", "warn", lambda: run(counters=(sampled(1.5e9),)), lambda: run(counters=(sampled(1.9e9),))),
    "throttled": ("fail", "warn", lambda: run(counters=(sampled(1.5e9),)), lambda: run(counters=(sampled(1.5e9, 1.0),))),
    "equal clocks": ("pass", "warn", lambda: run(counters=(sampled(1.5e9),)), lambda: run(counters=(sampled(1.5e9),))),
    "cache_hits_alike": ("fail", "warn", lambda: hits(90), lambda: hits(10)),
    "same_cache_state": ("fail", "block", lambda: hits(90), lambda: hits(10)),
    "enough_for_p99": ("fail", "warn", run, run),
    "tuned": ("fail", "warn", lambda: run(facts={"engine.tuned": True}),
              lambda: run(facts={"engine.name": "two", "engine.tuned": False})),
    "same_tuning_effort": ("fail", "warn", lambda: run(facts={"engine.tuning_trials": 30}),
                           lambda: run(facts={"engine.name": "two", "engine.tuning_trials": 2})),
    "same_kv_capacity": ("fail", "warn", lambda: used(0.99, 10_000), lambda: used(0.4, 20_000)),
    "batch_limit_alike": ("fail", "warn", lambda: running(256), lambda: running(40)),
    "same_age": ("fail", "warn", lambda: run(facts={"engine.released": "2026-01-01"}),
                 lambda: run(facts={"engine.version": "2.0.0", "engine.released": "2026-06-01"})),
    "first_token_real": ("fail", "block", lambda: served(0.055), lambda: served(0.2)),
    "first tokens as served": ("pass", "block", lambda: served(0.055), lambda: served(0.05)),
    "an empty first chunk, by the engine's stages": ("fail", "block", lambda: staged(0.055), lambda: staged(0.2)),
    "engines' first tokens as seen": ("pass", "block", lambda: staged(0.055), lambda: staged(0.05)),
    "engine's first tokens, as stages": ("pass", "block", lambda: staged(0.055), lambda: staged(0.05)),
    "a warm-up scraped too": ("unknown", "block", lambda: staged(0.055), lambda: staged(0.05, 2 * N)),
    "silent answers": ("unknown", "block", silent, silent),
    "silent answers of this config": ("unknown", "block", run, silent),
    "silent on one side": ("fail", "block", run, silent),
    "seed alone stated": ("unknown", "warn", lambda: run(facts={"workload.dataset": None}), run),
    "client_free": ("fail", "warn", lambda: served(0.055), lambda: served(0.03)),
    "not_profiled": ("fail", "block", run, lambda: profiled(105.0)),
    "traced apart": ("pass", "block", run, lambda: profiled(300.0)),
    "same_logging": ("fail", "info", lambda: run(logs=(logged(True),)), lambda: run(logs=(logged(False),))),
    "curves": ("fail", "warn", run, run),
    "percentiles": ("fail", "warn", run, lambda: run(result=bench(requests=None))),
}  # fmt: skip
RULE_OF = {
    "throttled": "same_clocks", "equal clocks": "same_clocks", "first tokens as served": "first_token_real",
    "traced apart": "not_profiled", "silent answers": "output_quality", "silent on one side": "output_quality",
    "an empty first chunk, by the engine's stages": "first_token_real", "a warm-up scraped too": "first_token_real",
    "engines' first tokens as seen": "first_token_real", "engine's first tokens, as stages": "client_free",
    "silent answers of this config": "quality_of_this_config", "seed alone stated": "same_prefix_sharing",
}  # fmt: skip


def hits(share: float) -> Run:
    ends = scrape(0, prefix_queries=0, prefix_hits=0), scrape(1, prefix_queries=100, prefix_hits=share)
    return run(facts={"setting.prefix_cache": True}, snapshots=ends)


def used(share: float, tokens: int) -> Run:
    busy = tuple(scrape(i, running_requests=3, kv_usage=share) for i in range(2))
    return run(facts={"setting.kv_tokens": tokens}, snapshots=busy)


def running(sequences: float) -> Run:
    return run(snapshots=tuple(scrape(i, running_requests=sequences) for i in range(2)))


def served(ttft: float) -> Run:
    ends = (
        scrape(0, ttft_seconds_count=0, ttft_seconds_sum=0),
        scrape(1, ttft_seconds_count=N, ttft_seconds_sum=N * ttft),
    )
    return run(snapshots=ends)


def staged(ttft: float, count: int = N) -> Run:
    """Closed loop, without lateness; the engine times its queue and its prefill, half of ``ttft`` each."""
    stages = ("queue_seconds", "prefill_seconds")
    ends = (
        scrape(0, **{f"{stage}_{part}": 0 for stage in stages for part in ("count", "sum")}),
        scrape(1, **{f"{s}_count": count for s in stages} | {f"{s}_sum": count * ttft / 2 for s in stages}),
    )
    closed = bench(request_rate=float("inf"), max_concurrency=4, requests=table(late=None))
    return run(result=closed, snapshots=ends)


def profiled(start: float) -> Run:
    return run(facts={"workload.measured_window_epoch": [100.0, 200.0]}, traces=(traced(start),))


@pytest.mark.parametrize("what", PLANTED)
def test_what_other_files_show_is_found(what: str) -> None:
    status, severity, one, two = PLANTED[what]
    found = answer(RULE_OF.get(what, what), one(), replace(two(), name="run-B"))
    assert (found.status, found.severity) == (status, severity), found


def test_only_answers_that_say_something_are_compared() -> None:
    def spoken(first: int) -> Run:
        characters = np.repeat([0, 9], N // 2)
        digest = np.where(characters > 0, np.arange(first, first + N), 0)
        return run(result=bench(requests=table(outputs=Outputs(digest, characters, np.zeros(N, np.bool_)))))

    found = answer("output_quality", spoken(0), spoken(1000))
    assert "(0% of the answers agree" in found.detail
    assert "nothing to compare" in answer("output_quality", silent(), silent()).detail


@pytest.mark.parametrize(("replaying", "status"), [((4, 4), "pass"), ((4, 1), "fail"), ((4, None), "unknown")], ids=str)
def test_traces_say_how_many_decode_steps_replay_where_no_log_does(
    replaying: tuple[int | None, ...], status: str
) -> None:
    def accounts(replays: int | None) -> tuple[DeviceAccount, ...]:
        """Four decode steps, of which so many replay, and a prefill, which never does."""
        if replays is None:
            return (cast(DeviceAccount, SimpleNamespace(graphs=None)),)
        mode = np.array([MODES.index("full")] * replays + [MODES.index("eager")] * (5 - replays), np.int8)
        n = np.ones(5, np.int64)
        use = GraphUse(mode, (*("decode",) * 4, "prefill"), n, n, n * 1.0, 5, 4, 1.0, 1.0, 4, None, None, 0.0)
        return (cast(DeviceAccount, SimpleNamespace(graphs=use)),)

    a, b = run(), run("run-B")
    rules = check(a, b, None, None, known=[accounts(replays) for replays in replaying])
    found = next(rule for rule in rules if rule.rule == "graphs_alike")
    assert found.status == status
    assert status == "unknown" or (found.evidence[1].source, found.evidence[1].a) == ("traces", 1.0)


def test_what_is_missing_of_prefix_sharing_is_named_and_what_is_there_is_shown() -> None:
    found = answer("same_prefix_sharing", run(facts={"workload.dataset": None}), run())
    assert found.detail.startswith("data set is not stated")
    assert [(e.name, e.a, e.b) for e in found.evidence] == [("dataset", None, "random"), ("seed", 1, 1)]


def test_what_is_not_known_is_never_a_pass() -> None:
    empty = [Run(name=name, path=name, files=(), facts={}) for name in ("a", "b")]
    found = checked(*empty)
    assert {rule.status for rule in found.fairness} <= {"unknown", "not applicable", "fail"}
    assert {rule.rule for rule in found.fairness if rule.status == "fail"} == {"scope", "repeatable"}
    assert found.comparable is None
    for rule in found.fairness:
        assert rule.status != "unknown" or rule.fix, rule.rule


def test_a_clean_pair_has_no_blocking_failure() -> None:
    found = checked(run("run-A"), run("run-B"))
    failed = {rule.rule for rule in found.fairness if rule.status == "fail"}
    assert failed <= {"repeats", "curves", "enough_for_p99", "repeatable"}


def test_repeats_are_counted_and_their_spread_is_told() -> None:
    three = tuple(bench(duration=100.0 + i) for i in range(3))
    found = answer("repeats", run(benches=three), run("run-B", benches=three))
    assert found.status == "pass" and "2.0%" in found.detail
    assert answer("repeats", run(benches=three[:2]), run("run-B", benches=three[:2])).status == "fail"
    copies = (three[0], replace(three[0], path="copy.json"))
    assert answer("repeats", run(benches=copies), run("run-B", benches=copies)).evidence[0].a == 1


def test_curves_that_cross_name_no_winner() -> None:
    ours = tuple(bench(request_rate=float(r), duration=100.0) for r in (1, 2))
    theirs = tuple(bench(request_rate=float(r), duration=d) for r, d in ((1, 80.0), (2, 120.0)))
    found = answer("no_crossing", run(benches=ours), run("run-B", benches=theirs))
    assert (found.status, found.severity) == ("fail", "block")
    assert found.detail == "the curves cross: run-A serves more at 2 requests/s, run-B at 1 requests/s"
    assert answer("no_crossing", run(benches=ours), run("run-B", benches=ours)).status == "pass"


def test_an_open_loop_whose_queue_grows_is_saturated() -> None:
    late = table(200)
    waits = np.linspace(0, 30, 200)
    full = replace(late, ttft=late.ttft + waits, e2e=late.e2e + waits)
    found = answer("same_saturation", run(result=bench(requests=full)), run("run-B", result=bench(requests=late)))
    assert found.status == "fail"
    assert (
        answer("same_saturation", run(result=bench(requests=late)), run("run-B", result=bench(requests=late))).status
        == "pass"
    )


def test_answers_are_judged_against_what_repeats_agree_on() -> None:
    def answers(first: int) -> RequestTable:
        return table(outputs=Outputs(np.arange(first, first + N), np.full(N, 9), np.zeros(N, np.bool_)))

    alike = tuple(bench(duration=100.0 + i, requests=answers(0)) for i in range(2))
    others = tuple(bench(duration=100.0 + i, requests=answers(1000)) for i in range(2))
    assert answer("output_quality", run(benches=alike), run("run-B", benches=alike)).status == "pass"
    found = answer("output_quality", run(benches=alike), run("run-B", benches=others))
    assert (found.status, found.severity) == ("fail", "warn")
    alone = answer("output_quality", run(benches=alike[:1]), run("run-B", benches=others[:1]))
    assert alone.status == "unknown" and "0%" in alone.detail


# ------------------------------------------------------------------------------------------------------------ real runs
SIDE = CORPUS / "own" / "vllm-vs-sglang"
ALWAYS = {"repeats", "curves", "enough_for_p99", "long_enough"}


def real(a: Path, b: Path) -> Check:
    if not (a.exists() and b.exists()):
        pytest.skip("the corpus of real files is not on this machine")
    return checked(open_run(a), open_run(b))


def failures(found: Check) -> dict[str, str]:
    return {r.rule: r.severity for r in found.fairness if r.status == "fail" and r.rule not in ALWAYS}


def test_the_cross_engine_pair_shows_its_bursting_client_and_its_unequal_prompts() -> None:
    found = real(SIDE / "vllm-1" / "c1", SIDE / "sglang-1" / "c1")
    assert failures(found) == {
        "same_prompt_tokens": "warn", "cache_hits_alike": "warn", "same_kv_capacity": "info", "client_free": "warn",
        "even_delivery": "warn",
    }  # fmt: skip
    told = {rule.rule: rule.detail for rule in found.fairness}
    assert "3.4% different prompt tokens" in told["same_prompt_tokens"]
    assert told["even_delivery"].startswith("17% of vllm-1/c1's chunks came in bursts (0% on")
    assert "vllm-1/c1's client saw first tokens 54.2 ms after" in told["client_free"]
    assert found.comparable is None


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("dstack-pd/2p2d_conc32_in2048_out128_20250922_063704.json",
         "dstack-pd/1p3d_conc32_in2048_out128_20250923_033843.json", {"same_output_tokens": "block", "percentiles": "warn"}),
        ("aiperf/c1", "aiperf/c2", {"same_load": "block"}),
        ("llmservingsim/RTX4090_Llama-3.1-8B", "aiperf/c1",
         {"same_model": "block", "one_definition": "block", "same_requests": "block", "same_output_tokens": "block",
          "same_prompt_tokens": "block"}),
        ("inference-perf/vllm", "inference-perf/vllm+quantization",
         {"same_precision": "block", "same_prompt_tokens": "block", "same_cache_state": "warn", "percentiles": "warn"}),
        ("inference-perf/vllm", "inference-perf/vllm+v0_engine", {"same_prompt_tokens": "block", "percentiles": "warn"}),
    ],
)  # fmt: skip
def test_published_runs_show_what_their_files_show_and_no_more(a: str, b: str, expected: dict[str, str]) -> None:
    found = real(CORPUS / "bench" / a, CORPUS / "bench" / b)
    blank = {"scope": "info", "repeatable": "warn"}
    assert failures(found) == expected | blank
    assert found.comparable is False


def test_what_the_offline_files_do_not_count_is_not_known() -> None:
    folder = CORPUS / "bench" / "dstack-405b"
    if not folder.is_dir():
        pytest.skip("the corpus of real files is not on this machine")
    amd = next(folder.glob("4Mi300x*"))
    status = {r.rule: r.status for r in real(amd, next(folder.glob("8xH100*throughput*np64*"))).fairness}
    assert {status[rule] for rule in ("same_output_tokens", "same_hardware", "same_precision", "same_load")} == {
        "unknown"
    }


def test_the_page_lists_every_rule() -> None:
    page = (ROOT / "docs" / "fairness.md").read_text("utf-8")
    for rule in RULES:
        assert f"| {rule.label} | `{rule.name}` | {rule.severity} |" in page
