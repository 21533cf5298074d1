"""A run against a stored baseline: what the folders would say of the metrics, and no more than the document holds."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler import diagnose, open_run
from profiler.analyzers.baseline import NOT_STORED, NotStoredError, baseline_of, facts_of, run_of
from profiler.analyzers.checking import check
from profiler.analyzers.inspection import inspect
from profiler.analyzers.metrics import metrics_of
from profiler.analyzers.stored_pair import against
from profiler.errors import UsageError
from profiler.model.check import Check
from profiler.model.diagnosis import Diagnosis
from profiler.model.fact import Fact
from profiler.model.requests import BenchResult
from profiler.model.run import Run
from profiler.reports.json_document import to_json
from profiler.store.documents import StoredBaseline, stored_baseline
from tests.strategies import ROOT

EXAMPLES = ("recorded-vllm-cpu", "simulated-gpu")
METRICS = ("output_throughput", "request_throughput", "mean_ttft", "p99_ttft", "mean_tpot", "p99_itl", "mean_e2e")


@cache
def run_of_example(pair: str, name: str) -> Run:
    return open_run(ROOT / "examples/runs" / pair / name)


def kept(run: Run, folder: Path) -> StoredBaseline:
    """The run as its inspection keeps it, written and read."""
    path = folder / "baseline.json"
    path.write_text(to_json(inspect(run)))
    stored = stored_baseline(path)
    assert stored is not None
    return stored


def by_rule(document: Diagnosis | Check) -> dict[str, str]:
    return {rule.rule: rule.status for rule in document.fairness}


@pytest.mark.parametrize("pair", EXAMPLES)
def test_metrics_are_those_of_the_folders(pair: str, tmp_path: Path) -> None:
    a, b = run_of_example(pair, "run-A"), run_of_example(pair, "run-B")
    short = against(kept(a, tmp_path), b, METRICS)
    full = diagnose(a.path, b.path, metrics=METRICS)
    assert [gap.metric for gap in short.gaps] == list(METRICS)
    for one, two in zip(short.gaps, full.gaps, strict=True):
        assert (one.metric, one.a, one.b, one.relative, one.unit) == (two.metric, two.a, two.b, two.relative, two.unit)
    assert short.gaps[0].winner == full.gaps[0].winner
    assert short.gaps[0].seconds_per_output_token is not None and full.gaps[0].seconds_per_output_token is not None
    assert short.gaps[0].seconds_per_output_token.gap == pytest.approx(full.gaps[0].seconds_per_output_token.gap)
    assert short.runs[0].simulated == full.runs[0].simulated and short.runs[0].engine == full.runs[0].engine


@pytest.mark.parametrize("pair", EXAMPLES)
def test_no_cause_is_split_and_missing_says_why(pair: str, tmp_path: Path) -> None:
    document = against(kept(run_of_example(pair, "run-A"), tmp_path), run_of_example(pair, "run-B"))
    for gap in document.gaps:
        assert gap.causes == () and gap.unexplained.gap == gap.gap and gap.unexplained.share == 1.0
        assert gap.interval is not None and gap.interval[0] < gap.gap < gap.interval[1]
    assert document.recommendations == () and document.kernels == ()
    (line,) = document.missing
    assert "stored inspection" in line and "causes are not known" in line and "keep the run's folder" in line


@pytest.mark.parametrize("pair", EXAMPLES)
def test_no_rule_passes_that_does_not_pass_on_the_folders(pair: str, tmp_path: Path) -> None:
    a, b = run_of_example(pair, "run-A"), run_of_example(pair, "run-B")
    short, full = by_rule(against(kept(a, tmp_path), b)), by_rule(check(a, b))
    assert short.keys() == full.keys()
    differ = {rule: (short[rule], full[rule]) for rule in full if short[rule] != full[rule]}
    assert {one for one, _ in differ.values()} == {"unknown"}
    assert {"same_model", "same_load", "same_output_tokens"} <= {rule for rule in short if short[rule] == "pass"}


def test_a_stored_run_does_not_take_what_was_not_kept_for_nothing() -> None:
    run = run_of_example("recorded-vllm-cpu", "run-A")
    baseline = baseline_of(run)
    assert baseline is not None
    stored = run_of(baseline, "baseline.json", "run-A")
    for field, words in NOT_STORED.items():
        with pytest.raises(NotStoredError, match=words):
            getattr(stored, field)
    assert {field for field in Run.__dataclass_fields__ if field not in NOT_STORED} == {
        "name", "path", "facts", "benches", "state",
    }  # fmt: skip
    assert stored.benches[0].requests is None and metrics_of(stored.benches[0]) == metrics_of(run.benches[0])


def test_a_failed_blocking_rule_withholds_the_verdict(tmp_path: Path) -> None:
    a, b = run_of_example("recorded-vllm-cpu", "run-A"), run_of_example("recorded-vllm-cpu", "run-B")
    other = replace(b, facts={**b.facts, "model.name": Fact("another", "run.json")})
    document = against(kept(a, tmp_path), other)
    assert document.verdict.status == "not comparable" and document.verdict.winner is None
    assert document.gaps[0].relative == pytest.approx(-0.386, abs=0.001)


def test_what_the_run_breaks_alone_withholds_the_verdict_too(tmp_path: Path) -> None:
    a, b = run_of_example("recorded-vllm-cpu", "run-A"), run_of_example("recorded-vllm-cpu", "run-B")
    stored = kept(a, tmp_path)
    assert by_rule(against(stored, b))["same_speculation"] == "unknown"
    other = replace(b, facts={**b.facts, "setting.speculative": Fact("synthetic acceptance", "run.json")})
    document = against(stored, other)
    (rule,) = [rule for rule in document.fairness if rule.rule == "same_speculation"]
    assert (rule.status, rule.severity) == ("fail", "block") and document.verdict.status == "not comparable"
    assert next((item.a, item.b) for item in rule.evidence) == (None, "synthetic acceptance")


def test_two_tools_are_not_failed_for_records_that_were_there(tmp_path: Path) -> None:
    a, b = run_of_example("recorded-vllm-cpu", "run-A"), run_of_example("recorded-vllm-cpu", "run-B")
    other = replace(b, benches=tuple(replace(bench, tool="another") for bench in b.benches))
    stored = kept(a, tmp_path)
    assert by_rule(against(stored, other))["one_definition"] == "pass"
    summaries = replace(a, benches=tuple(replace(x, requests=None, summary=metrics_of(x)) for x in a.benches))
    assert by_rule(against(kept(summaries, tmp_path), other))["one_definition"] == "fail"


def test_a_run_against_itself_shows_no_difference(tmp_path: Path) -> None:
    run = run_of_example("recorded-vllm-cpu", "run-A")
    document = against(kept(run, tmp_path), run)
    assert [run.name for run in document.runs] == ["run-A (stored)", "run-A"]
    assert document.verdict.status == "no difference"
    assert {(gap.gap, gap.relative, gap.winner) for gap in document.gaps} == {(0.0, 0.0, None)}


def measured(*rates: float) -> tuple[BenchResult, ...]:
    """Repeats of one load, by their output tokens/s."""
    return tuple(
        BenchResult(
            path=f"bench-{i}.json",
            tool="t",
            duration=1000 / rate,
            completed=10,
            failed=0,
            total_input_tokens=100,
            total_output_tokens=1000,
            max_concurrency=4,
        )
        for i, rate in enumerate(rates)
    )


def plain(name: str, *rates: float) -> Run:
    return Run(name, name, (), {"hardware.device": Fact("gpu", "run.json")}, benches=measured(*rates))


def test_repeats_that_were_kept_give_the_interval(tmp_path: Path) -> None:
    alone = against(kept(plain("a", 100.0), tmp_path), plain("b", 103.0)).gaps[0]
    apart = against(kept(plain("a", 90.0, 100.0, 111.0), tmp_path), plain("b", 103.0))
    assert alone.winner == "b" and apart.gaps[0].winner is None
    assert apart.gaps[0].a == pytest.approx(100.0) and "measured on 3 and 1 repeats" in " ".join(apart.method)


def test_of_a_stored_diagnosis_the_newer_run_is_the_baseline(tmp_path: Path) -> None:
    a, b = run_of_example("recorded-vllm-cpu", "run-A"), run_of_example("recorded-vllm-cpu", "run-B")
    path = tmp_path / "old.json"
    path.write_text(to_json(diagnose(a.path, b.path)))
    document = diagnose(path, a.path)
    assert [run.name for run in document.runs] == ["run-B", "run-A"]
    assert document.missing[0].startswith(f"run-B is the newer run of the stored diagnosis {path}")
    path.write_text(to_json(document))
    again = stored_baseline(path)
    assert again is not None and again.baseline == baseline_of(a)


def test_an_objective_is_refused_for_want_of_requests(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    run = run_of_example("recorded-vllm-cpu", "run-A")
    path.write_text(to_json(inspect(run)))
    with pytest.raises(UsageError, match="single requests"):
        diagnose(path, run.path, slo={"ttft": 0.5})


def test_a_run_without_a_benchmark_is_compared_with_nothing(tmp_path: Path) -> None:
    run = run_of_example("recorded-vllm-cpu", "run-A")
    document = against(kept(run, tmp_path), replace(run, name="bare", benches=()))
    assert document.verdict.status == "insufficient evidence" and document.gaps == ()
    assert document.missing[1].startswith("bare holds no benchmark result")
    assert baseline_of(replace(run, benches=())) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=6,
)


@given(VALUES)
def test_facts_are_what_they_were_when_they_were_written(value: object) -> None:
    run = replace(plain("a", 1.0), facts={"setting.x": Fact(value, "run.json", inferred=False)})
    baseline = baseline_of(run)
    assert baseline is not None
    read = json.loads(to_json(inspect(run)))["baseline"]["facts"]["setting.x"]
    assert read == {"value": facts_of(baseline)["setting.x"].value, "source": "run.json", "inferred": False}
