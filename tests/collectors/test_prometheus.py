"""Scrapes: values as an independent reading of the lines gives them, ranks once, ratios averaged."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from profiler.collectors.scheduler.exposition import Sample, samples
from profiler.collectors.scheduler.prometheus import FIRST, LAST, position
from profiler.model.run import Reading

Read = Callable[[Path], tuple[str, Reading]]


def total(path: Path, start: str) -> float:
    """The sum of the samples whose line begins so."""
    lines = [line for line in path.read_text().splitlines() if re.match(start, line)]
    assert lines
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def values(read: Read, path: Path) -> dict[str, float]:
    name, reading = read(path)
    assert name == "prometheus"
    return dict(reading.snapshots[0].values)


def test_counter_differences_of_a_run(corpus: Path, read: Read) -> None:
    run = corpus / "own/vllm-vs-sglang/vllm-1/c16"
    before, after = values(read, run / "before.prom"), values(read, run / "after.prom")
    for concept, metric in {
        "generation_tokens": "vllm:generation_tokens_total",
        "prompt_tokens": "vllm:prompt_tokens_total",
        "requests": "vllm:request_success_total",
        "step_tokens_count": "vllm:iteration_tokens_total_count",
        "queue_seconds_sum": "vllm:request_queue_time_seconds_sum",
        "itl_seconds_count": "vllm:inter_token_latency_seconds_count",
        "computed_prompt_tokens": 'vllm:prompt_tokens_by_source_total.*source="local_compute"',
    }.items():
        expected = total(run / "after.prom", metric) - total(run / "before.prom", metric)
        assert after[concept] - before[concept] == pytest.approx(expected, rel=1e-12, abs=1e-9), concept
    # 112 measured requests and 2 warm-ups of 64 tokens and one probe of the client.
    assert after["generation_tokens"] - before["generation_tokens"] >= 112 * 64


def test_stages_add_up_to_the_loop(corpus: Path, read: Read) -> None:
    path = corpus / "own/vllm-vs-sglang/sglang-1/c16/after.prom"
    found = values(read, path)
    whole = total(path, "sglang:scheduler_stage_seconds_total")
    assert found["executor_seconds"] + found["scheduler_seconds"] + found["idle_seconds"] == pytest.approx(whole)
    assert found["executor_seconds"] == total(path, 'sglang:scheduler_stage_seconds_total.*"run_batch"')
    assert found["steps"] == found["eager_steps"] == 69 + 2652
    assert found["computed_prompt_tokens"] == 44761
    assert found["prompt_tokens"] == 2680 + 45322


def test_every_snapshot_of_the_cross_engine_pair(corpus: Path, read: Read) -> None:
    folders = sorted((corpus / "own/vllm-vs-sglang").glob("*/*/metrics"))
    assert len(folders) == 7
    for folder in folders:
        paths = sorted(folder.glob("*.prom"))
        snapshots = [read(path)[1].snapshots for path in paths]
        assert snapshots and all(len(one) == 1 for one in snapshots)
        assert [one[0].seconds for one in snapshots] == [int(path.stem) / 1e3 for path in paths]
        tokens = [one[0].values["generation_tokens"] for one in snapshots]
        assert tokens == sorted(tokens)


def test_labels_ranks_and_modes(samples: Path, read: Read) -> None:
    good = values(read, samples / "prometheus/good.prom")
    assert good == {
        "running_requests": 7.0,
        "kv_usage": pytest.approx(0.3),
        "generation_tokens": 2000.0,
        "step_tokens_sum": 640.0,
        "step_tokens_count": 10.0,
        "computed_prompt_tokens": 70.0,
    }
    assert values(read, samples / "prometheus/ranks.prom") == {
        "running_requests": 12.0,
        "executor_seconds": 4.5,
        "scheduler_seconds": 0.75,
        "idle_seconds": 3.0,
        "eager_steps": 10.0,
        "graph_steps": 40.0,
        "steps": 50.0,
    }


def test_a_cut_scrape_keeps_what_is_whole(samples: Path, read: Read) -> None:
    _, reading = read(samples / "prometheus/truncated.prom")
    assert reading.snapshots[0].values == {"running_requests": 3.0}
    assert [(one.severity, one.place) for one in reading.problems] == [("warning", "line 3")]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("own/components/smg.metrics", "router"),
        ("own/components/mc.metrics", "Mooncake"),
        ("own/components/dynamo_frontend_vllm_mocker.metrics", "Dynamo"),
    ],
)
def test_other_components_are_named(corpus: Path, read: Read, name: str, told: str) -> None:
    kind, reading = read(corpus / name)
    assert kind == "prometheus"
    assert not reading.snapshots
    assert told in reading.problems[-1].detail


def test_the_exposition_format() -> None:
    lines = [
        'a:b{x="1,}\\"\\\\\\n",y=""} +Inf 123 # {trace_id="x"} 1',
        "c 1e-3",
        'd{ e = "f" , } NaN',
        "g_bucket 1",
        "h{i=j} 1",
        "",
    ]
    found = dict(samples(lines))
    assert found[1] == Sample("a:b", (("x", '1,}"\\\n'), ("y", "")), float("inf"))
    assert found[2] == Sample("c", (), 0.001)
    assert found[3] is not None and found[3].labels == (("e", "f"),)
    assert 4 not in found and found[5] is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("metrics/0014002.prom", (14.002, 14.002)),
        ("before.prom", (FIRST, None)),
        ("metrics-after-np1.txt", (LAST, None)),
        ("metrics-final.prom", (LAST, None)),
        ("scrape_1796016480.prom", (1796016480.0, None)),
        ("ep_metrics", (0.0, None)),
        ("rank0.prom", (0.0, None)),
    ],
)
def test_position(name: str, expected: tuple[float, float | None]) -> None:
    assert position(name) == expected
