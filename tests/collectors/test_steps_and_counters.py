"""Steps as records, other engines' logs and metrics, queries of Prometheus, counters of devices."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from profiler.collectors.engines import trtllm
from profiler.model.run import Reading
from profiler.model.steps import StepLabel

Read = Callable[[Path], tuple[str, Reading]]


# -------------------------------------------------------------------------------------------------- TensorRT-LLM
def test_device_time_belongs_to_the_iteration_before(samples: Path, read: Read) -> None:
    name, reading = read(samples / "server_log/iterations_new.log")
    (log,) = reading.logs
    steps = log.steps
    assert name == "server_log" and log.engine == "trtllm" and log.every_step
    np.testing.assert_allclose(steps.seconds, [0.0305, 0.012, 0.0055, 0.9, 0.005])
    np.testing.assert_allclose(steps.device_seconds, [0.02825, 0.0105, 0.005, 0.85, np.nan])
    assert steps.prefill_requests.tolist() == [2, 1, 0, 0, 0] and steps.prefill_tokens.tolist() == [100, 64, 0, 0, 0]
    assert steps.decode_requests.tolist() == [0, 2, 3, 0, 3] and steps.decode_tokens.tolist() == [0, 2, 3, 0, 3]
    assert steps.cached_tokens[0] == 32 and steps.kv_usage[0] == 0.125
    assert reading.facts["engine.version"].value == "1.2.0rc4"
    assert np.diff(steps.clock).tolist() == [1.0] * 4
    (old,) = read(samples / "server_log/iterations_old.log")[1].logs
    np.testing.assert_allclose(old.steps.seconds, [0.0051, 0.0052])
    np.testing.assert_allclose(old.steps.device_seconds, [0.0049, np.nan])
    assert old.steps.decode_requests.tolist() == [3, 3]


def test_iterations_of_a_list_that_is_emptied(samples: Path, read: Read) -> None:
    name, reading = read(samples / "step_records/iterations.json")
    (log,) = reading.logs
    assert name == "step_records" and log.engine == "trtllm" and not log.every_step  # 4 and 5 are missing
    np.testing.assert_allclose(log.steps.seconds, [0.03, 0.012, 0.005, 0.005])
    np.testing.assert_allclose(log.steps.device_seconds, [0.028, 0.011, np.nan, np.nan])
    assert log.steps.waiting.tolist() == [1] * 4 and log.steps.kv_usage.tolist() == [0.25] * 4
    told = {problem.detail.split(":")[0]: problem.count for problem in reading.problems}
    assert told["the records' own count has gaps"] == 2
    assert any("empties" in problem.detail and problem.severity == "info" for problem in reading.problems)
    (log,) = read(samples / "step_records/device.json")[1].logs
    assert log.steps.seconds.tolist() == [0.018] and log.steps.device_seconds.tolist() == [0.007]


def test_the_iteration_log_of_a_benchmark_has_a_record_a_line(samples: Path, read: Read, tmp_path: Path) -> None:
    """trtllm-bench --iteration_log writes the same records, one a line."""
    records = json.loads((samples / "step_records/iterations.json").read_text())
    path = tmp_path / "iteration_log.json"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    name, reading = read(path)
    (log,), (listed,) = reading.logs, read(samples / "step_records/iterations.json")[1].logs
    assert name == "step_records" and log.engine == "trtllm"
    np.testing.assert_array_equal(log.steps.seconds, listed.steps.seconds)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("[Executor] _forward_step: 1 ctx reqs, 2 gen reqs", StepLabel("mixed", 1, None, 2)),
        ("[Executor] _forward_step 17: 0 ctx reqs, 8 gen reqs", StepLabel("decode", 0, 0, 8)),
        ("[Executor] _forward_step 18: 2 ctx reqs, 300 ctx tokens, 0 gen reqs", StepLabel("prefill", 2, 300, 0)),
        ("_forward_step", None),
    ],
)
def test_step_ranges(name: str, expected: StepLabel | None) -> None:
    assert trtllm.step_label(name) == expected


# ------------------------------------------------------------------------------------------------- stat-logger
def test_a_plugin_s_steps_equal_the_file(corpus: Path, samples: Path, read: Read) -> None:
    path = corpus / "own/vllm-everything-on/statlogger-plugin-steps.jsonl.gz"
    name, reading = read(path)
    (log,) = reading.logs
    records = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    details = [record["sched"]["iteration_details"] for record in records if record.get("sched")]
    assert name == "step_records" and len(log.steps) == len(details)
    told = [detail["elapsed_ms"] / 1e3 if detail else np.nan for detail in details]
    np.testing.assert_allclose(log.steps.seconds, told)
    assert log.steps.prefill_tokens.tolist() == [d["num_ctx_tokens"] if d else -1 for d in details]
    assert log.steps.decode_requests.tolist() == [d["num_generation_requests"] if d else -1 for d in details]
    (log,) = read(samples / "step_records/plugin.jsonl")[1].logs
    assert log.every_step and log.steps.graph.tolist() == [0, 1, 1] and log.steps.cached_tokens.tolist() == [16] * 3
    assert log.engine == "vllm" and log.steps.clock[0] == 1796016639.0


def test_records_without_composition_say_so(corpus: Path, samples: Path, read: Read) -> None:
    for path in (
        samples / "step_records/bare.jsonl",
        corpus / "own/vllm-everything-on/statlogger-plugin-steps-v2-eager-tiny.jsonl",
    ):
        reading = read(path)[1]
        (log,) = reading.logs
        assert not log.every_step and (log.steps.beside > 0).any() and not np.isfinite(log.steps.seconds).any()
        assert any("neither how long" in problem.detail for problem in reading.problems)


def test_forward_passes(corpus: Path, samples: Path, read: Read) -> None:
    path = next((corpus / "own/components").glob("fpm.*.jsonl.gz"))
    name, reading = read(path)
    (log,) = reading.logs
    passes = [json.loads(line)["event"]["fpm"] for line in gzip.decompress(path.read_bytes()).splitlines()]
    active = [one for one in passes if one["wall_time"]]
    assert name == "dynamo_fpm" and len(log.steps) == len(active) == 97 and log.every_step
    np.testing.assert_allclose(log.steps.seconds, [one["wall_time"] for one in active])
    assert log.steps.prefill_tokens.sum() == sum(one["scheduled_requests"]["sum_prefill_tokens"] for one in active)
    assert log.steps.decode_requests.max() == 8 and log.steps.waiting.max() == 12
    reading = read(samples / "dynamo_fpm/worker.jsonl")[1]
    (log,) = reading.logs
    assert len(log.steps) == 3 and not log.every_step and log.steps.waiting.tolist() == [4, 4, 4]
    assert [problem.count for problem in reading.problems] == [1, 2]


# --------------------------------------------------------------------------------------------------- metrics, logs
def test_metrics_of_other_engines(corpus: Path, samples: Path, read: Read) -> None:
    found = {one.engine: one.values for one in read(samples / "prometheus/other_engines.prom")[1].snapshots}
    assert found["trtllm"] == {
        "running_requests": 4,
        "kv_usage": 0.25,
        "generation_tokens": 90,
        "ttft_seconds_sum": 1.5,
        "ttft_seconds_count": 3,
    }
    assert found["lmdeploy"] == {
        "running_requests": 2,
        "kv_usage": 0.5,
        "cached_tokens": 7,
        "itl_seconds_sum": 2.0,
        "itl_seconds_count": 100,
    }
    (one,) = read(corpus / "own/llama.cpp-server/metrics-after-np8.txt")[1].snapshots
    assert one.engine == "llamacpp"
    assert (one.values["steps"], one.values["generation_tokens"], one.values["cached_tokens"]) == (533, 3584, 33)
    (one,) = read(corpus / "own/components/dynamo_worker_trtllm_mocker.metrics")[1].snapshots
    assert one.engine == "trtllm" and one.values["ttft_seconds_count"] == 20


def test_logs_of_other_engines(corpus: Path, samples: Path, read: Read) -> None:
    name, reading = read(samples / "server_log/ten_seconds.log")
    assert name == "server_log" and reading.logs[0].events == {"interval": 1, "error": 1}
    facts = {key: fact.value for key, fact in reading.facts.items()}
    assert facts["engine.name"] == "lmdeploy" and facts["setting.max_num_seqs"] == 128
    assert facts["setting.tensor_parallel"] == 2 and facts["setting.prefix_cache"] is False
    for path in (samples / "server_log/slots.log", corpus / "own/llama.cpp-server/server-np8.log.gz"):
        name, reading = read(path)
        facts = {key: fact.value for key, fact in reading.facts.items()}
        assert name == "server_log" and facts["engine.name"] == "llamacpp"
        assert facts["setting.max_num_seqs"] == 8 and facts["setting.kv_tokens"] == 8192


def test_queries(samples: Path, read: Read) -> None:
    name, reading = read(samples / "prometheus_query/range.json")
    first, second = reading.snapshots
    assert name == "prometheus_query" and (first.order, second.order) == (1796016600.0, 1796016615.0)
    assert first.values == {"running_requests": 4, "generation_tokens": 100}
    assert second.values == {"running_requests": 5, "generation_tokens": 250}
    assert first.settings["api_key"] == "[redacted]"
    assert [problem.count for problem in reading.problems] == [1, 2]  # no name; no number
    (one,) = read(samples / "prometheus_query/instant.json")[1].snapshots
    assert one.engine == "sglang" and one.values == {"kv_usage": 0.5}


# ---------------------------------------------------------------------------------------------------------- devices
def test_dcgm(corpus: Path, samples: Path, read: Read) -> None:
    name, reading = read(samples / "dcgm_exporter/1796016600.txt")
    (found,) = reading.counters
    assert name == "dcgm_exporter" and found.gpu.tolist() == [0, 1] and found.clock.tolist() == [1796016600.0] * 2
    np.testing.assert_array_equal(found.sm_clock, [1.98e9, 1.2e8])
    np.testing.assert_array_equal(found.power, [650.5, np.nan])
    np.testing.assert_array_equal(found.utilisation, [0.97, np.nan])
    assert found.throttled.tolist() == [1.0, 0.0]
    assert reading.facts["hardware.gpu"].value == "GPU X" and reading.problems[0].place == "line 9"
    name, reading = read(corpus / "metrics/dcgm/dcgm-gb200.txt")
    (found,) = reading.counters
    assert name == "dcgm_exporter" and found.sm_clock.tolist() == [120e6] * 4 and np.isfinite(found.power).all()
    assert np.isnan(found.clock).all() and reading.facts["hardware.gpu"].value == "NVIDIA GB200"
    name, reading = read(samples / "dcgm_dmon/dmon.txt")
    (found,) = reading.counters
    assert name == "dcgm_dmon" and found.gpu.tolist() == [0, 1, 0]
    np.testing.assert_array_equal(found.power, [67.5, 612.25, np.nan])
    np.testing.assert_array_equal(found.sm_clock, [345e6, 1980e6, 360e6])
    assert found.utilisation.tolist() == [0.0, 1.0, 0.05]


def test_aiperf_telemetry(corpus: Path, samples: Path, read: Read) -> None:
    name, reading = read(samples / "aiperf_telemetry/two.jsonl")
    (found,) = reading.counters
    assert name == "aiperf_telemetry" and found.gpu.tolist() == [0, 0, 0, 1]
    assert found.power.tolist() == [100.0, 200.0, 300.0, 300.0]
    np.testing.assert_array_equal(found.throttled, [np.nan, 0.0, 1.0, np.nan])
    assert [problem.count for problem in reading.problems] == [1, 1]
    path = corpus / "counters/aiperf/c1/gpu_telemetry_export.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [one for one in records if one["dcgm_url"] == records[0]["dcgm_url"]]
    (found,) = read(path)[1].counters
    assert found.power.tolist() == [one["telemetry_data"]["gpu_power_usage"] for one in kept]
    np.testing.assert_allclose(found.sm_clock, [one["telemetry_data"]["sm_clock_frequency"] * 1e6 for one in kept])
    np.testing.assert_allclose(found.clock, [one["timestamp_ns"] / 1e9 for one in kept])


def test_dynamo_requests(corpus: Path, samples: Path, read: Read) -> None:
    path = corpus / "own/components/reqtrace.jsonl"
    requests = [json.loads(line)["event"]["request"] for line in path.read_text().splitlines()]
    name, reading = read(path)
    (found,) = reading.components
    assert name == "dynamo_requests" and not reading.benches and not reading.problems
    assert found.values["requests"] == len(requests)
    assert found.values["output_tokens"] == sum(r["output_tokens"] for r in requests)
    assert found.values["ttft_seconds"] == pytest.approx(sum(r["ttft_ms"] for r in requests) / len(requests) / 1e3)
    found = read(samples / "dynamo_requests/good.jsonl")[1].components[0]
    assert found.values == pytest.approx(
        {"requests": 2, "output_tokens": 42, "ttft_seconds": 0.1, "e2e_seconds": 0.45, "hit_rate": 0.5, "itl_seconds": 0.0175})  # fmt: skip
    _, reading = read(samples / "dynamo_requests/truncated.jsonl")
    assert reading.components[0].values["requests"] == 1 and reading.problems[0].place == "line 2"
    _, reading = read(samples / "dynamo_requests/malformed.jsonl")
    assert reading.components[0].values == {"requests": 1} and reading.problems[0].count == 2
