"""Result files of other load generators: numbers equal the tool's own wherever the two mean the same."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

from profiler import open_run
from profiler.errors import BadInput
from profiler.model.requests import BenchResult
from profiler.model.run import Reading

Read = Callable[[Path], tuple[str, Reading]]


def only(reading: Reading) -> BenchResult:
    (bench,) = reading.benches
    return bench


def three(bench: BenchResult) -> None:
    """The load that most samples hold: 0.1 + 0.01 + 0.03 s and 0.2 + 0.02 + 0.04 s, 3 tokens each."""
    table = bench.requests
    assert table is not None
    np.testing.assert_allclose(table.ttft[table.ok], [0.1, 0.2], atol=1e-6)
    np.testing.assert_allclose(table.e2e[table.ok], [0.14, 0.26], atol=1e-6)
    assert table.output_tokens[table.ok].tolist() == [3, 3] and table.input_tokens[table.ok].tolist() == [11, 12]
    assert np.isnan(table.ttft[~table.ok]).all() and np.isnan(table.e2e[~table.ok]).all()
    assert (bench.completed, bench.failed) == (int(table.ok.sum()), int((~table.ok).sum()))
    assert bench.total_output_tokens == 6


# ------------------------------------------------------------------------------------------------------- AIPerf
@pytest.mark.parametrize("run", ["c1", "c2"])
def test_aiperf_records_give_the_tool_s_own_numbers(corpus: Path, read: Read, run: str) -> None:
    path = corpus / "bench/aiperf" / run / "profile_export.jsonl"
    name, reading = read(path)
    bench = only(reading)
    table = bench.requests
    printed = [json.loads(line) for line in path.read_text().splitlines()]
    printed.sort(key=lambda record: record["metadata"]["request_start_ns"])
    assert name == "aiperf_requests" and table is not None and table.ok.all()
    metrics = [record["metrics"] for record in printed]
    tpot = (table.e2e - table.ttft) / (table.output_tokens - 1)
    for values, key in (
        (table.ttft, "time_to_first_token"),
        (table.e2e, "request_latency"),
        (tpot, "inter_token_latency"),
    ):
        np.testing.assert_allclose(values * 1e3, [m[key]["value"] for m in metrics], rtol=1e-12)
    gaps = [m["inter_chunk_latency"]["value"] for m in metrics]
    np.testing.assert_allclose(table.itl * 1e3, [gap for own in gaps for gap in own], rtol=1e-12)
    assert np.diff(table.itl_offset).tolist() == [len(own) for own in gaps]
    assert bench.total_output_tokens == sum(m["output_sequence_length"]["value"] for m in metrics)
    spans = [r["metadata"]["request_end_ns"] for r in printed]
    whole = (max(spans) - printed[0]["metadata"]["request_start_ns"]) / 1e9
    assert bench.duration == pytest.approx(whole, abs=1e-3)


@pytest.mark.parametrize("run", ["c1", "c2"])
def test_aiperf_summary_in_seconds(corpus: Path, read: Read, run: str) -> None:
    path = corpus / "bench/aiperf" / run / "profile_export_aiperf.json"
    name, reading = read(path)
    bench, printed = only(reading), json.loads(path.read_text())
    assert name == "aiperf" and not reading.problems
    for key, ours in (("time_to_first_token", "ttft"), ("request_latency", "e2e"), ("inter_token_latency", "tpot"),
                      ("inter_chunk_latency", "itl")):  # fmt: skip
        for theirs, kind in (("avg", "mean"), ("p50", "median"), ("p99", "p99"), ("std", "std"), ("min", "min")):
            assert bench.summary[f"{kind}_{ours}"] == printed[key][theirs] / 1e3
    assert bench.total_output_tokens == printed["total_osl"]["avg"] == 12799 or run == "c2"
    assert bench.total_output_tokens / bench.duration == pytest.approx(
        printed["output_token_throughput"]["avg"], rel=1e-12
    )
    assert bench.completed / bench.duration == pytest.approx(printed["request_throughput"]["avg"], rel=1e-12)
    assert bench.max_concurrency == int(run[1]) and bench.model == "Qwen/Qwen3-0.6B"
    assert bench.ended == printed["end_time"][:19].replace("-", "").replace(":", "").replace("T", "-")


def test_aiperf_phases_and_failures(samples: Path, read: Read) -> None:
    bench = only(read(samples / "aiperf_requests/both/profile_export.jsonl")[1])
    three(bench)
    assert bench.failed == 2 and bench.requests is not None
    np.testing.assert_allclose(bench.requests.itl, [0.01, 0.03, 0.02, 0.04])
    assert bench.duration == pytest.approx(0.76)
    name, reading = read(samples / "aiperf_requests/malformed.jsonl")
    assert name == "aiperf_requests" and only(reading).completed == 2
    assert [(p.severity, p.place, p.count) for p in reading.problems] == [("error", "line 3", 3)]


def test_later_aiperf_divides_by_other_tokens(samples: Path, read: Read) -> None:
    bench = only(read(samples / "aiperf/versioned.json")[1])
    assert "mean_tpot" not in bench.summary and bench.summary["aiperf.inter_token_latency.mean"] == 0.025
    name, reading = read(samples / "aiperf/truncated.json")
    assert name == "aiperf" and reading.problems[0].severity == "error"
    assert only(reading).summary["mean_e2e"] == 0.2


def test_aiperf_csv(samples: Path, read: Read) -> None:
    name, reading = read(samples / "aiperf_csv/profile_export_aiperf.csv")
    bench = only(reading)
    assert name == "aiperf_csv" and (bench.completed, bench.duration) == (1002, 380.99)
    assert bench.summary["mean_ttft"] == 0.15 and bench.summary["median_tpot"] == 0.025
    assert bench.summary["output_throughput"] == 7.89 and bench.total_output_tokens == 3006
    assert reading.problems[0].place == "row 6"


# --------------------------------------------------------------------------------------------- one load, two files
@pytest.mark.parametrize(
    ("folder", "path", "failed"),
    [
        ("aiperf_requests/both", "profile_export.jsonl", 2),
        ("genai_perf/both", "profile_export.json", 1),
        ("trtllm_bench/both", "requests.json", 0),
        ("llmperf/both", "t_individual_responses.json", 1),
    ],
)
def test_summary_and_records_are_one_result(samples: Path, tmp_path: Path, folder: str, path: str, failed: int) -> None:
    shutil.copytree(samples / folder, tmp_path / "run")
    run = open_run(tmp_path / "run")
    (bench,) = run.benches
    table = bench.requests
    assert bench.path == path and table is not None and bench.failed == failed
    np.testing.assert_allclose(table.ttft[table.ok], [0.1, 0.2], atol=1e-6)
    np.testing.assert_allclose(table.e2e[table.ok], [0.14, 0.26], atol=1e-6)
    assert bench.summary["mean_ttft"] == pytest.approx(np.nanmean(table.ttft), rel=1e-6)
    assert bench.summary["mean_e2e"] == pytest.approx(np.nanmean(table.e2e), rel=1e-6)
    assert bench.duration == pytest.approx(0.76, rel=1e-6) and bench.total_output_tokens == 6
    assert any("one result" in problem.detail for problem in run.problems)


def test_a_part_of_the_records_does_not_replace_the_summary(corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(corpus / "bench/aiperf/c1", tmp_path / "run")
    run = open_run(tmp_path / "run")
    (bench,) = run.benches
    assert bench.completed == 64 and bench.requests is None
    assert any("10 requests of the 64" in problem.detail for problem in run.problems)


# ------------------------------------------------------------------------------------------------------ genai-perf
def test_genai_perf_counts_no_empty_chunk(samples: Path, read: Read) -> None:
    name, reading = read(samples / "genai_perf/both/profile_export.json")
    bench = only(reading)
    assert name == "genai_perf" and bench.max_concurrency == 2 and bench.requests is not None
    np.testing.assert_allclose(bench.requests.ttft, [0.1, 0.2, np.nan], atol=1e-6)
    np.testing.assert_allclose(bench.requests.itl, [0.01, 0.03, 0.02, 0.04])
    assert any("no token count" in problem.detail and problem.count == 2 for problem in reading.problems)
    bench = only(read(samples / "genai_perf/usage.json")[1])
    assert (bench.total_input_tokens, bench.total_output_tokens, bench.request_rate) == (7, 4, 2.5)
    bench = only(read(samples / "genai_perf/both/profile_export_genai_perf.json")[1])
    assert bench.tool == "genai-perf" and bench.summary["mean_tpot"] == 0.025 and bench.max_concurrency == 2


def test_several_experiments_stay_apart_from_each_other_and_from_the_summary_beside_them(
    samples: Path, tmp_path: Path
) -> None:
    """A sweep in one file: no summary can be told to belong to one of its loads, so nothing is merged or dropped."""
    shutil.copytree(samples / "genai_perf/both", tmp_path / "run")
    path = tmp_path / "run/profile_export.json"
    document = json.loads(path.read_text())
    first = document["experiments"][0]
    second = first | {"experiment": {"mode": "concurrency", "value": 8}, "requests": first["requests"][:1]}
    path.write_text(json.dumps(document | {"experiments": [first, second]}))
    run = open_run(tmp_path / "run")
    tables = [bench for bench in run.benches if bench.requests is not None]
    (summary,) = [bench for bench in run.benches if bench.requests is None]
    assert [(b.max_concurrency, b.completed, b.failed) for b in tables] == [(2, 2, 1), (8, 1, 0)]
    assert summary.path == "profile_export_genai_perf.json" and summary.summary["mean_ttft"] == 0.15
    assert all("load" not in bench.metadata for bench in tables)
    assert not any("one result" in problem.detail for problem in run.problems)


# -------------------------------------------------------------------------------------------------------- guidellm
def test_guidellm(corpus: Path, samples: Path, read: Read) -> None:
    name, reading = read(samples / "guidellm/two.json")
    first, second = reading.benches
    assert name == "guidellm" and (first.request_rate, second.request_rate) == (2.0, math.inf)
    table = first.requests
    assert table is not None and (first.completed, first.failed, first.duration) == (2, 1, 0.8)
    np.testing.assert_allclose(table.ttft, [0.1, 0.2, np.nan])
    np.testing.assert_allclose(table.e2e, [0.14, 0.26, np.nan])
    assert first.summary["mean_ttft"] == pytest.approx(np.nanmean(table.ttft))
    assert "mean_tpot" not in first.summary and first.summary["guidellm.time_per_output_token.mean"] == 0.06
    assert second.requests is None and second.total_output_tokens == 6
    old = only(read(samples / "guidellm/first_version.json")[1])
    assert old.max_concurrency == 4 and old.requests is not None
    np.testing.assert_allclose(old.requests.ttft, [0.1])
    printed = json.loads((corpus / "bench/llm-d/guidellm_report_v2.json").read_text())["benchmarks"]
    for bench, own in zip(read(corpus / "bench/llm-d/guidellm_report_v2.json")[1].benches, printed, strict=True):
        assert bench.summary["mean_ttft"] == own["metrics"]["time_to_first_token_ms"]["successful"]["mean"] / 1e3
        latency = own["metrics"]["request_latency"]["successful"]
        assert bench.summary["guidellm.e2e.p99"] == latency["percentiles"]["p99"]
        # Of two requests the tool's median is the quicker one, which is no median of ours.
        assert bench.summary["guidellm.e2e.median"] == latency["median"] == latency["min"] < latency["mean"]
        assert not {"median_e2e", "p50_e2e", "p99_e2e", "median_ttft", "p99_ttft"} & bench.summary.keys()
        assert bench.total_output_tokens == own["metrics"]["output_token_count"]["successful"]["total_sum"]
        assert bench.duration == own["duration"] and bench.completed == 2


# -------------------------------------------------------------------------------------------------- inference-perf
def test_inference_perf_of_the_corpus(corpus: Path, read: Read) -> None:
    paths = sorted((corpus / "bench/inference-perf").rglob("*_lifecycle_metrics.json"))
    assert len(paths) == 18
    for path in paths:
        name, reading = read(path)
        bench, printed = only(reading), json.loads(path.read_text())
        served = printed["successes"]
        assert name == "inference_perf" and bench.completed == served["count"]
        assert bench.request_rate == printed["load_summary"].get("requested_rate")
        assert bench.summary["mean_e2e"] == served["latency"]["request_latency"]["mean"]
        assert bench.summary["p99_ttft"] == served["latency"]["time_to_first_token"]["p99"]
        rates = served["throughput"]
        assert bench.total_output_tokens / bench.duration == pytest.approx(rates["output_tokens_per_sec"], rel=1e-6)
        assert bench.total_input_tokens / bench.duration == pytest.approx(rates["input_tokens_per_sec"], rel=1e-6)
        # In these files a token came as two chunks: neither gap compares with another tool's.
        assert "mean_tpot" not in bench.summary and "mean_itl" not in bench.summary
        assert any("a chunk is no token" in problem.detail for problem in reading.problems)


def test_stages_stand_for_the_summary(samples: Path, tmp_path: Path) -> None:
    shutil.copytree(samples / "inference_perf", tmp_path / "run")
    run = open_run(tmp_path / "run")
    assert [bench.path for bench in run.benches] == [
        "stages/stage_0_lifecycle_metrics.json",
        "stages/stage_1_lifecycle_metrics.json",
        "summary/summary_lifecycle_metrics.json",
    ]
    assert [bench.request_rate for bench in run.benches] == [2.0, 4.0, None]
    assert run.benches[0].summary["mean_itl"] == 0.01 and "mean_itl" not in run.benches[1].summary
    assert any("sums up 2 stages" in problem.detail for problem in run.problems)
    assert any("2 of 4 requests/s" in problem.detail for problem in run.problems)


def test_inference_perf_requests(samples: Path, read: Read) -> None:
    name, reading = read(samples / "inference_perf_requests/old.json")
    assert name == "inference_perf_requests"
    three(only(reading))
    table = only(reading).requests
    assert table is not None
    np.testing.assert_allclose(table.itl, [0.01, 0.03, 0.02, 0.04])
    assert [b.completed for b in read(samples / "inference_perf_requests/stages.json")[1].benches] == [2, 1]
    name, reading = read(samples / "inference_perf_requests/truncated.json")
    assert only(reading).completed == 1 and reading.problems[0].severity == "error"


# ----------------------------------------------------------------------------------------------------------- others
def test_llmd_reports(samples: Path, read: Read) -> None:
    name, reading = read(samples / "llmd_report/v0_2.json")
    bench = only(reading)
    assert (name, bench.tool, bench.duration) == ("llmd_report", "inference-perf", 80.5)
    assert (bench.completed, bench.failed, bench.request_rate, bench.max_concurrency) == (98, 2, 10.0, None)
    assert (
        bench.summary["mean_ttft"] == 0.04 and bench.summary["p99.9_ttft"] == 0.09 and bench.summary["mean_e2e"] == 0.5
    )
    assert bench.summary["llmd_report.time_per_output_token.mean"] == 0.009
    assert bench.summary["llmd_report.inter_token_latency.mean"] == 0.008
    assert reading.facts["hardware.gpu"].value == "GPU-X"
    bench = only(read(samples / "llmd_report/v0_1.json")[1])
    assert (bench.duration, bench.completed, bench.total_output_tokens) == (16.0, 32, 256)
    assert bench.summary["mean_ttft"] == pytest.approx(0.0008) and bench.summary["output_throughput"] == 16.0


def test_yaml_holds_what_json_holds(corpus: Path, tmp_path: Path, read: Read) -> None:
    """Every report that is published as YAML gives the same result as its values written as JSON."""
    for path in sorted((corpus / "bench/llm-d").glob("*.yaml")):
        beside = tmp_path / f"{path.stem}.json"
        beside.write_text(json.dumps(yaml.safe_load(path.read_text()), default=str))
        (name, reading), (other, same) = read(path), read(beside)
        assert name == other and name in ("llmd_report", "inference_perf")
        bench, converted = only(reading), only(same)
        assert bench.completed > 0 and bench.summary == converted.summary
        assert (bench.duration, bench.model) == pytest.approx((converted.duration, converted.model))


def test_yaml_that_breaks_off_or_would_expand_without_end(samples: Path, tmp_path: Path, read: Read) -> None:
    name, reading = read(samples / "llmd_report/truncated.yaml")
    bench = only(reading)
    assert name == "llmd_report" and bench.completed == 32 and bench.summary["mean_ttft"] == pytest.approx(0.0008)
    assert [(p.severity, p.place) for p in reading.problems] == [("error", "line 35")]
    assert (
        only(read(samples / "llmd_report/v0_1.yaml")[1]).summary
        == only(read(samples / "llmd_report/v0_1.json")[1]).summary
    )
    path = tmp_path / "r.yaml"
    path.write_text("version: '0.2'\na: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 10)}]\n" for i in range(9)))  # fmt: skip
    with pytest.raises(BadInput, match="no count of requests"):
        read(path)
    path.write_text("version: '0.2'\nresults: &a\n  request_performance: *a\n  b: !!python/object/apply:os.abort []\n")
    with pytest.raises(BadInput, match="no count of requests"):
        read(path)


def test_trtllm_bench(samples: Path, read: Read) -> None:
    name, reading = read(samples / "trtllm_bench/both/requests.json")
    assert name == "trtllm_bench"
    three(only(reading))
    name, reading = read(samples / "trtllm_bench/both/report.json")
    bench = only(reading)
    assert bench.summary["mean_ttft"] == 0.15 and bench.summary["trtllm_bench.tpot.mean"] == 0.025
    assert bench.total_output_tokens / bench.duration == pytest.approx(bench.summary["output_throughput"])
    assert bench.summary["trtllm_bench.e2e.median"] == 0.26  # by index, so under the tool's name
    assert bench.summary["trtllm_bench.acceptance_length.mean"] == 2.25
    assert bench.request_rate == math.inf  # its "issue_rate" is a measured gap in another unit
    assert reading.facts["engine.name"].value == "trtllm" and reading.facts["setting.max_num_seqs"].value == 64
    assert bench.request_rate == math.inf


def test_inferencex(samples: Path, read: Read) -> None:
    name, reading = read(samples / "inferencex/agg.json")
    bench = only(reading)
    assert name == "inferencex" and math.isnan(bench.duration) and bench.max_concurrency == 16
    assert bench.summary["mean_ttft"] == 0.2 and bench.summary["mean_e2e"] == 20.0
    assert bench.summary["inferencex.tput_per_gpu"] == 838.0 and "output_throughput" not in bench.summary
    assert reading.facts["engine.name"].value == "vllm" and reading.facts["engine.name"].inferred


def test_lmdeploy_bench(samples: Path, read: Read) -> None:
    name, reading = read(samples / "lmdeploy_bench/old.csv")
    assert name == "lmdeploy_bench" and reading.problems[0].place == "row 4"
    first, second = reading.benches
    assert (first.duration, first.total_output_tokens, first.total_input_tokens) == (50.0, 100_000, 125_000)
    assert first.summary["mean_ttft"] == 0.15 and "mean_ttft" not in second.summary
    name, reading = read(samples / "lmdeploy_bench/new.jsonl")
    bench = only(reading)
    assert name == "lmdeploy_bench" and bench.request_rate == math.inf and bench.total_output_tokens == 80
    assert (
        bench.summary["mean_ttft"] == 0.21 and bench.summary["mean_e2e"] == 0.6 and bench.summary["mean_itl"] == 0.0195
    )


def test_llama_bench(corpus: Path, samples: Path, read: Read) -> None:
    name, reading = read(samples / "llama_bench/two.json")
    prompt, generated = reading.benches
    assert name == "llama_bench" and (prompt.total_input_tokens, prompt.total_output_tokens) == (128, 0)
    assert generated.total_output_tokens / generated.duration == pytest.approx(1600.0)
    assert reading.facts["engine.version"].value == "b4321-abc1234"
    name, reading = read(samples / "llama_bench/lines.jsonl")
    assert only(reading).duration == 0.004 and reading.problems[0].place == "line 2"
    path = corpus / "own/llama.cpp-server/llama-bench.json"
    for bench, own in zip(read(path)[1].benches, json.loads(path.read_text()), strict=True):
        tokens = bench.total_input_tokens + bench.total_output_tokens
        mean = np.mean([tokens / bench.completed / ns * 1e9 for ns in own["samples_ns"]])
        assert mean == pytest.approx(own["avg_ts"], rel=1e-6)
        assert bench.duration == pytest.approx(sum(own["samples_ns"]) / 1e9)


def test_llmperf(corpus: Path, tmp_path: Path, samples: Path, read: Read) -> None:
    shutil.copytree(corpus / "bench/llmperf", tmp_path / "run")
    (bench,) = open_run(tmp_path / "run").benches
    printed = json.loads((corpus / "bench/llmperf/summary_groq_70b.json").read_text())
    table = bench.requests
    assert table is not None and len(table) == 150
    for values, key in ((table.ttft, "ttft_s"), (table.e2e, "end_to_end_latency_s")):
        assert values.mean() == pytest.approx(printed[f"results_{key}_mean"], rel=1e-12)
        assert np.percentile(values, 99) == pytest.approx(printed[f"results_{key}_quantiles_p99"], rel=1e-12)
    overall = printed["results_mean_output_throughput_token_per_s"]
    assert bench.total_output_tokens / bench.duration == pytest.approx(overall, rel=1e-3)
    assert "mean_itl" not in bench.summary and bench.max_concurrency == 5
    alone = only(read(samples / "llmperf/both/t_individual_responses.json")[1])
    assert math.isnan(alone.duration) and alone.failed == 1


def test_mlperf(samples: Path, read: Read) -> None:
    name, reading = read(samples / "mlperf/mlperf_log_summary.txt")
    bench = only(reading)
    assert name == "mlperf" and bench.request_rate == 8.0
    assert bench.summary == {
        "mlperf.request_throughput": 8.0,
        "mlperf.output_throughput": 1600.0,
        "mlperf.scheduled_samples_per_second": 8.1,
        "min_e2e": 1.0,
        "mean_e2e": 2.0,
        "median_e2e": 1.9,
        "p99.9_e2e": 4.0,
        "mean_ttft": 0.3,
        "p99_ttft": 0.9,
        "mlperf.time_to_output_token.mean": 0.02,
    }
    name, reading = read(samples / "mlperf/detail/mlperf_log_detail.txt")
    bench = only(reading)
    assert (bench.duration, bench.completed, bench.total_output_tokens) == (40.0, 100, 20_000)
    assert bench.summary["p99_e2e"] == 3.0 and bench.request_rate == math.inf
    assert {p.severity for p in reading.problems} == {"error", "warning"}


def test_an_offline_run_of_mlperf_is_one_query_of_all_requests(samples: Path, read: Read) -> None:
    name, reading = read(samples / "mlperf/offline/mlperf_log_summary.txt")
    bench = only(reading)
    assert name == "mlperf" and (bench.completed, bench.duration, bench.total_output_tokens) == (100, 40.0, 20_000)
    assert bench.summary == {
        "request_throughput": 2.5,
        "output_throughput": 500.0,
        "max_e2e": 40.0,
        "mlperf.time_to_output_token.mean": 0.02,
        "mlperf.time_to_output_token.p99": 0.03,
    }
    assert bench.request_rate == math.inf and not reading.problems


def test_two_summaries_of_one_load(samples: Path, tmp_path: Path) -> None:
    for path in (samples / "mlperf/mlperf_log_summary.txt", samples / "mlperf/detail/mlperf_log_detail.txt"):
        shutil.copy(path, tmp_path)
    (bench,) = open_run(tmp_path).benches
    assert (bench.path, bench.completed, bench.duration) == ("mlperf_log_detail.txt", 100, 40.0)
    assert bench.summary["p99_e2e"] == 3.0 and bench.summary["p99_ttft"] == 0.9


# ------------------------------------------------------------------------------------- recordings of LLMServingSim
def test_a_recording_of_an_engine_is_timed_by_its_own_clock(samples: Path, read: Read) -> None:
    name, reading = read(samples / "simulator_requests/requests.jsonl")
    bench = only(reading)
    assert name == "simulator_requests" and bench.requests is not None and bench.metadata["clock"] == "engine"
    np.testing.assert_allclose(bench.requests.ttft, [0.25, 0.5, np.nan])
    np.testing.assert_allclose(bench.requests.e2e, [1.25, 1.5, np.nan])
    assert bench.requests.output_tokens.tolist() == [11, 6, 0] and (bench.completed, bench.failed) == (2, 1)
    assert bench.duration == pytest.approx(2.5) and bench.total_output_tokens == 17
    facts = {key: fact.value for key, fact in read(samples / "simulator_meta/meta.json")[1].facts.items()}
    assert (facts["engine.name"], facts["engine.version"], facts["setting.kv_blocks"]) == ("vllm", "0.19.0", 100)
    assert (facts["hardware.gpu"], facts["hardware.count"], facts["setting.tensor_parallel"]) == ("RTX 4090", 2, 2)
    assert facts["workload.dataset_sha256"] == "05e4"


def test_the_recorded_run_on_one_gpu_is_whole(corpus: Path) -> None:
    folder = corpus / "bench/llmservingsim/RTX4090_Llama-3.1-8B"
    run = open_run(folder)
    (bench,) = run.benches
    lines = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
    assert bench.completed == len(lines) == run.fact("workload.requests") == 300
    assert bench.total_output_tokens == sum(line["output_toks"] for line in lines)
    waits = [line["first_token_ts"] - line["queued_ts"] for line in lines]
    assert bench.requests is not None and float(np.mean(bench.requests.ttft)) == pytest.approx(float(np.mean(waits)))
    assert run.fact("hardware.gpu") == "NVIDIA GeForce RTX 4090" and not any(
        p.severity == "error" for p in run.problems
    )
