"""Benchmark files: what the arrays give equals what the tool printed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from profiler.model.run import Reading

Read = Callable[[Path], tuple[str, Reading]]


def test_arrays_reproduce_the_summary_of_every_file(corpus: Path, read: Read) -> None:
    """TTFT, TPOT, ITL, end-to-end and throughput from the table, against the tool's own printed numbers."""
    paths = [path for path in sorted((corpus / "own").rglob("bench*.json")) if "llama" not in str(path)]
    assert len(paths) >= 18
    for path in paths:
        name, reading = read(path)
        assert name == "vllm_bench", path
        (bench,) = reading.benches
        printed = json.loads(path.read_text())
        table = bench.requests
        assert table is not None and table.ok.all() and not reading.problems
        decoded = table.output_tokens > 1
        tpot = (table.e2e - table.ttft)[decoded] / (table.output_tokens[decoded] - 1)
        for values, metric in ((table.ttft, "ttft"), (tpot, "tpot"), (table.itl, "itl"), (table.e2e, "e2el")):
            assert values.mean() * 1e3 == pytest.approx(printed[f"mean_{metric}_ms"], rel=1e-9), (path, metric)
            assert np.median(values) * 1e3 == pytest.approx(printed[f"median_{metric}_ms"], rel=1e-9)
            assert np.percentile(values, 99) * 1e3 == pytest.approx(printed[f"p99_{metric}_ms"], rel=1e-9)
        assert table.output_tokens.sum() / bench.duration == pytest.approx(printed["output_throughput"], rel=1e-12)
        assert len(table) / bench.duration == pytest.approx(printed["request_throughput"], rel=1e-12)
        assert bench.summary["mean_ttft"] == printed["mean_ttft_ms"] / 1e3
        assert bench.summary["mean_e2e"] == printed["mean_e2el_ms"] / 1e3
        assert bench.summary["output_throughput"] == printed["output_throughput"]
        assert np.isfinite(table.start).all()
        # Without latencies the sum of first token and gaps gives the same time.
        rest = np.add.reduceat(np.append(table.itl, 0.0), table.itl_offset[:-1])
        np.testing.assert_allclose(table.ttft + rest, table.e2e, atol=1e-9)


def test_the_protocol_is_not_the_engine(corpus: Path, read: Read) -> None:
    _, reading = read(corpus / "own/vllm-vs-sglang/sglang-1/c16/bench.json")
    (bench,) = reading.benches
    assert bench.client_protocol == "openai"
    assert "engine.name" not in reading.facts
    assert bench.request_rate == math.inf and bench.max_concurrency == 16
    assert bench.ended == "20261130-061030"


def test_files_without_arrays(corpus: Path, read: Read) -> None:
    paths = sorted((corpus / "bench/dstack-pd").glob("*.json"))
    assert len(paths) == 9
    for path in paths:
        (bench,) = read(path)[1].benches
        assert bench.requests is None and bench.completed == 500 and bench.failed == 0
        assert bench.summary["output_throughput"] == pytest.approx(bench.total_output_tokens / bench.duration)


def test_offline_files(corpus: Path, read: Read) -> None:
    folder = corpus / "bench/dstack-405b"
    tools = {path.name: read(path)[1].benches[0] for path in folder.glob("*.json")}
    assert sorted(bench.tool for bench in tools.values()) == ["vllm bench latency"] + ["vllm bench throughput"] * 3
    spelled = next(bench for bench in tools.values() if bench.total_output_tokens)
    assert spelled.total_output_tokens == 64 * 2048
    assert spelled.summary["output_throughput"] == pytest.approx(64 * 2048 / 136.93882655107882)


def test_failed_requests_stay_and_are_not_averaged(samples: Path, read: Read) -> None:
    for name in ("vllm_bench/good.json", "sglang_bench/good.jsonl"):
        bench = read(samples / name)[1].benches[0]
        table = bench.requests
        assert table is not None and (bench.completed, bench.failed, len(table)) == (2, 1, 3)
        assert table.ok.tolist() == [True, True, False]
        np.testing.assert_allclose(table.e2e, [0.22, 0.23, np.nan])
        np.testing.assert_allclose(table.ttft, [0.1, 0.2, np.nan])
        assert table.itl_offset.tolist() == [0, 2, 4, 4]
        assert bench.summary["mean_ttft"] == 0.15
        assert bench.request_rate == math.inf
    assert read(samples / "vllm_bench/good.json")[1].benches[0].summary["request_goodput"] == 0.5


def test_appended_lines(samples: Path, read: Read) -> None:
    assert [b.duration for b in read(samples / "vllm_bench/appended.jsonl")[1].benches] == [2.0, 4.0]
    name, reading = read(samples / "sglang_bench/good.jsonl")
    assert name == "sglang_bench"
    assert [b.duration for b in reading.benches] == [2.0, 4.0]  # the repeated line counts once
    assert reading.benches[1].request_rate is None  # "trace"
    assert reading.benches[0].summary["total_token_throughput"] == 18.5
    assert reading.benches[0].summary["mean_e2e"] == 0.225
    assert reading.facts["engine.name"].value == "sglang"
    assert reading.facts["setting.max_num_seqs"].value == 8


def test_cut_files_keep_what_stands_before_the_cut(samples: Path, read: Read) -> None:
    name, reading = read(samples / "vllm_bench/truncated.json")
    assert name == "vllm_bench" and reading.benches[0].summary["output_throughput"] == 3.5
    assert reading.problems[0].severity == "error"
    name, reading = read(samples / "sglang_bench/truncated.jsonl")
    assert name == "sglang_bench" and [b.duration for b in reading.benches] == [2.0, 9.0]
    assert any(problem.place == "line 2" for problem in reading.problems)
