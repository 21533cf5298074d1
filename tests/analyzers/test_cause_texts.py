"""What a row's text claims, and that it claims no more than the row's figures show."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from profiler import open_run
from profiler.analyzers.diagnosis import diagnose
from profiler.analyzers.gap.view import time_text
from profiler.analyzers.verdict import verdict_of
from profiler.model.diagnosis import Cause, Diagnosis
from profiler.reports import numbers
from tests.conftest import Lab
from tests.strategies import CORPUS

CASES = ("null", "tp-slow-comm", "slow-attention", "few-sequences", "graphs-off")


def row(document: Diagnosis, cause: str) -> Cause:
    return next(one for one in document.gaps[0].causes if one.cause == cause)


@pytest.mark.parametrize("case", CASES)
def test_no_run_s_kernels_take_longer_where_the_row_shows_nothing(case: str, lab: Lab) -> None:
    for document in (lab(case).forward, lab(case).backward):
        gap, kernel = document.gaps[0], row(document, "kernel")
        assert kernel.interval is not None
        written = numbers.gap_scale(gap).signed(kernel.gap)
        chance = kernel.interval[0] <= 0 <= kernel.interval[1]
        names_one = "longer" in kernel.summary
        assert names_one == (not chance and any(digit in "123456789" for digit in written)), (written, kernel)


def test_slower_kernels_are_named(lab: Lab) -> None:
    slower = row(lab("slow-attention").forward, "kernel").summary
    found = re.search(r"at an equal batch, run-B's kernels take ([0-9.]+)% longer than run-A's", slower)
    assert found is not None and 5.0 < float(found[1]) < 15.0, slower
    assert "equal kernel time" in row(lab("null").forward, "kernel").summary


def test_a_full_cache_is_named_where_it_makes_most_of_memory(lab: Lab) -> None:
    document = lab("small-kv").forward
    assert re.match(
        r"the KV cache is full in 0% of run-A's steps and in \d\d% of run-B's", row(document, "memory").summary
    )
    assert "prompt token asked for" in row(lab("prefix-cache-off").forward, "memory").summary


def test_metrics_that_go_the_other_way_are_named_in_the_verdict(lab: Lab) -> None:
    text = lab("small-kv").forward.verdict.text
    assert re.search(r"run-B is better in mean TPOT \(-\d\d\.\d%\)\.$", text), text
    assert "is better in" not in lab("graphs-off").forward.verdict.text


def test_late_launches_are_said_to_matter_where_the_row_is_not_zero(lab: Lab) -> None:
    assert "waits for launches" in row(lab("graphs-off").forward, "cuda_graph").summary
    assert "waits for launches" not in row(lab("slow-attention").forward, "cuda_graph").summary


def test_equal_collectives_are_not_said_to_be_hidden(lab: Lab) -> None:
    pair = lab("tp-slow-comm")
    same = [one for one in pair.forward.gaps[0].causes if one.cause == "communication"]
    assert same and "no collective" not in same[0].summary


def test_no_wait_is_told_finer_than_a_fit_can_tell() -> None:
    assert time_text(0.0) == time_text(3.6e-7) == "under 1 µs"
    assert time_text(3.64e-6) == "3.64 µs"


def test_idle_time_below_a_fit_s_resolution_is_words_in_the_evidence_too(lab: Lab) -> None:
    (found,) = (e for e in row(lab("graphs-off").forward, "scheduling").evidence if "between steps" in e.name)
    assert found.a == "under 1 µs" and isinstance(found.b, float) and found.b > 1e-6


def test_a_row_of_one_timed_side_says_what_it_rests_on() -> None:
    runs = CORPUS / "own/vllm-vs-sglang"
    if not runs.is_dir():
        pytest.skip("the corpus of real files is not on this machine")
    found = row(diagnose(open_run(runs / "vllm-1"), open_run(runs / "sglang-1")), "scheduling")
    assert found.gap > 0.0
    assert re.match(r"\d+% of vllm-1's time lies outside its timed steps; how much of sglang-1's does", found.summary)


@pytest.mark.parametrize("case", ["opposing", "three-at-once"])
def test_a_row_of_zero_has_no_interval_in_any_metric(case: str, lab: Lab) -> None:
    every = [cause for gap in lab(case).forward.gaps for cause in gap.causes]
    none = {cause.cause for cause in every if cause.gap == 0.0}
    assert none and all((cause.interval is None) == (cause.gap == 0.0) for cause in every if cause.cause in none)


def test_idle_time_that_counts_as_another_cause_says_so(lab: Lab) -> None:
    document = lab("capture-too-small").forward
    assert "as launches hold the host: counted as CUDA Graph" in row(document, "scheduling").summary
    document = lab("no-overlap").forward
    assert "run-A schedules while the device computes, run-B in turns with it" in row(document, "scheduling").summary


def test_a_metric_without_a_split_claims_nothing_of_causes(lab: Lab) -> None:
    pair = lab("opposing")
    (gap,) = diagnose(pair.a, pair.b, ("mean_itl",)).gaps
    assert {cause.summary for cause in gap.causes} == {"this metric is not broken down"}
    verdict = diagnose(pair.a, pair.b, ("mean_ttft",)).verdict
    assert "output throughput was not asked for" in verdict.text


def test_what_a_cause_takes_back_is_in_the_verdict(lab: Lab) -> None:
    assert "Against it, " in lab("opposing").forward.verdict.text


@pytest.mark.parametrize("case", ["opposing", "slow-attention"])
def test_intervals_do_not_depend_on_which_run_is_called_a(case: str, lab: Lab) -> None:
    for one, two in zip(lab(case).forward.gaps, lab(case).backward.gaps, strict=True):
        assert one.interval is not None and two.interval is not None
        assert one.interval == pytest.approx((-two.interval[1], -two.interval[0]))


def test_a_verdict_tells_large_shares_and_changes_as_factors(lab: Lab) -> None:
    document = lab("opposing").forward
    gap = document.gaps[0]
    rows = tuple(replace(one, share=16.43 if one.cause == "kernel" else one.share) for one in gap.causes)
    three = replace(gap, b=3.2 * gap.a, gap=2.2 * gap.a, relative=2.2, interval=(2.1 * gap.a, 2.3 * gap.a), causes=rows)
    a, b = document.runs
    text = verdict_of((three,), (), (a, b), (), ()).text
    assert ": 3.2 times as many (95%: 3.1 to 3.3)." in text and "16.4 times the gap is kernel: " in text
