"""Advice on real runs: what each engine's own tuning guide says of a knob is not contradicted."""

from __future__ import annotations

from functools import cache

import pytest

from profiler import open_run
from profiler.analyzers.recommend import WORTH, recommend
from profiler.cli.settings import engine_in
from profiler.model.recommendation import RecommendationDocument
from tests.strategies import OWN

RUNS = (
    "vllm-sequences/max-num-seqs-2", "vllm-sequences/max-num-seqs-16", "vllm-budget/max-num-batched-tokens-64",
    "vllm-budget/max-num-batched-tokens-2048", "vllm-prefix-cache-70m/off", "vllm-prefix-cache-70m/on",
    "vllm-compile/eager", "vllm-compile/compiled", "vllm-vs-sglang/vllm-1/c16", "vllm-vs-sglang/vllm-seqs4",
    "vllm-vs-sglang/sglang-1/c16",
)  # fmt: skip
# For throughput: more sequences and larger token budgets, prefix caching on, eager mode and chunking apart off.
RAISED = ("max_num_seqs", "token_budget")


@cache
def advice(name: str) -> RecommendationDocument:
    if not OWN.is_dir():
        pytest.skip("the corpus of real files is not on this machine")
    run = open_run(OWN / name)
    return recommend(run, engine_in(run))


@pytest.mark.parametrize("name", RUNS)
def test_what_is_recommended_gains_and_follows_the_guide(name: str) -> None:
    for row in advice(name).recommendations:
        assert row.predicted["output_throughput"].change >= WORTH, row
        if row.knob in RAISED and row.current is not None:
            assert int(row.to or 0) > int(row.current), row
        assert row.flag not in ("--enforce-eager", "--no-enable-prefix-caching", "--no-enable-chunked-prefill"), row


@pytest.mark.parametrize(
    ("name", "knob"),
    [
        ("vllm-sequences/max-num-seqs-2", "max_num_seqs"), ("vllm-vs-sglang/vllm-seqs4", "max_num_seqs"),
        ("vllm-budget/max-num-batched-tokens-64", "token_budget"), ("vllm-compile/eager", "compile"),
    ],
)  # fmt: skip
def test_the_knob_that_held_a_run_back_comes_first(name: str, knob: str) -> None:
    assert advice(name).recommendations[0].knob == knob


def test_a_cache_that_is_off_is_named_where_nothing_can_be_predicted() -> None:
    document = advice("vllm-prefix-cache-70m/off")
    assert "--enable-prefix-caching" in {one.flag for one in document.advice}
