"""Every benchmark file of the corpus: what is computed from its records or totals is what its tool printed.

Where a definition differs the reader keeps the tool's name (docs/formats.md says which), so that whatever both have
under one of our names has to be equal.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from profiler import open_run
from profiler.analyzers.metrics import metrics_of, samples
from profiler.model.requests import BenchResult
from tests.strategies import CORPUS

BENCH = CORPUS / "bench"


def results() -> list[BenchResult]:
    """All results of the folder, each file opened by itself so that no summary replaces another's records."""
    if not BENCH.is_dir():
        pytest.skip("the corpus of real files is not on this machine")
    paths = [p for p in sorted(BENCH.rglob("*")) if p.is_file() and p.suffix in (".json", ".jsonl")]
    return [bench for path in paths for bench in open_run(path).benches]


def test_throughput_from_totals_is_what_the_tool_printed() -> None:
    seen: dict[str, int] = {}
    for bench in results():
        ours = metrics_of(bench)
        for name in ("output_throughput", "request_throughput", "total_token_throughput"):
            if name in bench.summary and name in ours:
                # llmperf prints a rate of whole seconds' precision; the others print every digit.
                assert ours[name] == pytest.approx(bench.summary[name], rel=1e-6), (bench.path, name)
                seen[bench.tool] = seen.get(bench.tool, 0) + 1
    assert set(seen) >= {"aiperf", "inference-perf"} and seen["aiperf"] >= 4, seen


def test_what_is_computed_from_records_is_what_the_tool_printed() -> None:
    compared = 0
    for folder in sorted({p.parent for p in BENCH.rglob("*.json")}):
        for bench in open_run(folder).benches:
            if bench.requests is None:
                continue
            ours = metrics_of(bench)
            for name in set(ours) & set(bench.summary):
                assert ours[name] == pytest.approx(bench.summary[name], rel=1e-6), (bench.path, name)
                compared += 1
    assert compared or not BENCH.is_dir()


@pytest.mark.parametrize("run", ["c1", "c2"])
def test_aiperf_prints_what_its_records_say_by_our_definitions(run: str) -> None:
    """Ten records of each run are in the corpus: each request's own TTFT, TPOT and latency, as the tool printed them."""
    path = BENCH / "aiperf" / run / "profile_export.jsonl"
    if not path.is_file():
        pytest.skip("the corpus of real files is not on this machine")
    (bench,) = open_run(path).benches
    printed = [json.loads(line) for line in path.read_text().splitlines()]
    printed.sort(key=lambda record: record["metadata"]["request_start_ns"])
    assert bench.requests is not None and len(bench.requests) == 10
    for ours, theirs in (("ttft", "time_to_first_token"), ("tpot", "inter_token_latency"), ("e2e", "request_latency")):
        values = [record["metrics"][theirs]["value"] for record in printed]
        np.testing.assert_allclose(samples(bench.requests, ours) * 1e3, values, rtol=1e-12)
        found = metrics_of(bench)
        assert found[f"mean_{ours}"] * 1e3 == pytest.approx(np.mean(values), rel=1e-12)
        for rank in (50, 90, 99):
            assert found[f"p{rank}_{ours}"] * 1e3 == pytest.approx(np.percentile(values, rank), rel=1e-12)


def test_inference_perf_prints_one_mean_latency_three_ways() -> None:
    """Its files in the corpus hold no records: mean latency times requests over the duration is the mean load, and the
    normalised latency of a token is the latency over its tokens."""
    stages = [b for b in results() if b.tool == "inference-perf" and "part" in b.metadata]
    assert len(stages) == 12
    for bench in stages:
        assert bench.summary["min_e2e"] <= bench.summary["mean_e2e"] <= bench.summary["max_e2e"]
        assert bench.summary["mean_ttft"] < bench.summary["mean_e2e"]
        ranks = [bench.summary[f"{p}_e2e"] for p in ("min", "median", "p90", "p99", "max")]
        assert ranks == sorted(ranks)


def test_guidellm_rates_are_completed_requests_over_the_duration() -> None:
    reports = [b for b in results() if b.tool == "guidellm"]
    assert len(reports) == 2
    for bench in reports:
        assert metrics_of(bench)["request_throughput"] == pytest.approx(
            bench.summary["guidellm.requests_per_second"], rel=1e-5
        )
        # Its token rates count over the time in which tokens came, so they exceed the load's.
        assert metrics_of(bench)["output_throughput"] < bench.summary["guidellm.output_tokens_per_second"]
