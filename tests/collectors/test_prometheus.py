"""Scrapes: values as an independent reading of the lines gives them, ranks once, ratios averaged."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from profiler import open_run
from profiler.analyzers.inspection import inspect
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
    ("name", "component", "expected"),
    [
        ("smg", "gateway", {"running_requests": 0.0, "requests": 4.0}),
        ("mc", "mooncake", {"requests": 0.0}),
        ("dynamo_frontend_vllm_mocker", "dynamo", {
            "running_requests": 0.0, "waiting_requests": 0.0, "hit_rate": 5568 / 6320, "requests": 20.0, "output_tokens": 640.0,
            "ttft_seconds": 11.603441754999999 / 20, "itl_seconds": 12.089063488999999 / 620, "e2e_seconds": 23.728465721000003 / 20}),
        ("dynamo_worker_vllm_mocker", "dynamo", {"running_requests": 0.0, "waiting_requests": 0.0, "requests": 20.0}),
        ("dynamo_worker_sglang_mocker", "dynamo", {"running_requests": 0.0, "waiting_requests": 0.0, "requests": 20.0}),
        ("dynamo_worker_trtllm_mocker", "dynamo", {"running_requests": 0.0, "waiting_requests": 0.0, "requests": 20.0}),
    ],
)  # fmt: skip
def test_components_answer_for_themselves(
    corpus: Path, read: Read, name: str, component: str, expected: dict[str, float]
) -> None:
    kind, reading = read(corpus / f"own/components/{name}.metrics")
    (found,) = reading.components
    assert (kind, found.component) == ("prometheus", component) and found.values == pytest.approx(expected)
    # What an engine's mocker writes beside the component's metrics is the engine's.
    assert [one.engine for one in reading.snapshots] == re.findall(r"worker_(\w+)_mocker", name)


def test_every_component_answers(samples: Path, read: Read) -> None:
    """A scrape of each in the names of its source: sums over series, averages of ratios, means of histograms."""
    _, reading = read(samples / "prometheus/components.prom")
    found = {one.component: one.values for one in reading.components}
    assert found == {
        "llmd": pytest.approx({"running_requests": 5.0, "waiting_requests": 2.5, "kv_usage": 0.4, "hit_rate": 0.25, "requests": 9.0, "ttft_seconds": 0.5}),
        "mooncake": {"kv_usage": 0.25, "hit_rate": 0.75, "requests": 8.0},
        "lmcache": {"hit_rate": 0.5, "requests": 3.0},
        "triton": pytest.approx({"running_requests": 4.0, "waiting_requests": 6.0, "kv_usage": 0.5, "requests": 10.0, "ttft_seconds": 0.02, "e2e_seconds": 0.3}),
        "kserve": {"requests": 2.0, "e2e_seconds": 1.5},
    }  # fmt: skip
    assert not reading.snapshots and not reading.problems


def test_a_router_under_an_engines_prefix_is_not_that_engine(samples: Path, read: Read) -> None:
    _, reading = read(samples / "prometheus/stack_router.prom")
    assert not reading.snapshots and "engine.name" not in reading.facts
    (found,) = reading.components
    assert found.component == "stack_router"
    assert found.values == {"running_requests": 7.0, "waiting_requests": 1.0, "hit_rate": 0.5, "requests": 12.0}


def test_inspect_shows_the_last_scrape_of_a_component(tmp_path: Path) -> None:
    for name, running in (("before", 0), ("after", 3)):
        (tmp_path / f"{name}.prom").write_text(
            f"# TYPE smg_worker_requests_active gauge\nsmg_worker_requests_active {running}\n"
        )
    (tmp_path / "other.prom").write_text("# TYPE smg_worker_requests_active gauge\nsmg_worker_requests_active 1\n")
    document = inspect(open_run(tmp_path))
    assert sorted((one.source, one.values["running_requests"]) for one in document.components) == [
        ("after.prom", 3.0), ("other.prom", 1.0)]  # fmt: skip


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
    assert found[1] == Sample("a:b", (("x", '1,}"\\\n'), ("y", "")), float("inf"), 0.123)
    assert found[2] == Sample("c", (), 0.001)
    assert found[3] is not None and found[3].labels == (("e", "f"),)
    assert 4 not in found and found[5] is None


def test_openmetrics(samples: Path, read: Read) -> None:
    """Counters end in ``_total`` and have a time of creation, samples an exemplar and a stamp in seconds."""
    name, reading = read(samples / "prometheus/openmetrics.txt")
    (found,) = reading.snapshots
    assert name == "prometheus" and not reading.problems
    assert found.values == {
        "running_requests": 3.0, "generation_tokens": 17.0, "ttft_seconds_sum": 1.5, "ttft_seconds_count": 2.0}  # fmt: skip
    assert found.order == 1520879607.789


def test_a_dump_of_several_times_is_a_snapshot_each(samples: Path, read: Read) -> None:
    _, reading = read(samples / "prometheus/openmetrics_dump.txt")
    assert [(one.order, one.values["generation_tokens"]) for one in reading.snapshots] == [(10.5, 5.0), (20.5, 9.0)]
    assert not reading.problems


def test_prometheus_stamps_are_milliseconds_and_a_files_name_comes_first(tmp_path: Path, read: Read) -> None:
    text = "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 3 1520879607789\n"
    for name, order in (("scrape.txt", 1520879607.789), ("before.txt", FIRST)):
        (tmp_path / name).write_text(text)
        assert read(tmp_path / name)[1].snapshots[0].order == order


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
