"""The engineer's summary: values of both runs with their files, "not known" where a file is silent, and what is missing."""

from __future__ import annotations

from dataclasses import replace

from profiler.analyzers.diagnosis import diagnose
from profiler.model.diagnosis import Diagnosis, SummaryLine
from tests.analyzers.test_goodput import SLO, bench, run
from tests.conftest import Lab


def lines(document: Diagnosis) -> dict[str, SummaryLine]:
    return {line.name: line for line in document.summary}


def test_every_value_names_the_file_that_it_was_read_from(lab: Lab) -> None:
    document = lab("graphs-off").forward
    found = lines(document)
    assert (found["model"].a, found["model"].b) == ("sim/llama-8b", "sim/llama-8b")
    assert found["model"].a_source == "run.json: model.name"
    assert (found["CUDA Graph"].b, found["CUDA Graph"].b_source) == ("off", "run.json: engine.command")
    replayed = found["kernels that a graph replays"]
    assert isinstance(replayed.a, float) and replayed.a > 0.5 and replayed.b == 0.0
    for line in document.summary:
        for value, source in ((line.a, line.a_source), (line.b, line.b_source)):
            said = value is not None and not (line.topic == "operability" and value == 0.0)
            assert bool(source) == (said and line.topic != "not measured"), line


def test_what_was_not_measured_is_said_for_each_run(lab: Lab) -> None:
    pair = lab("graphs-off")
    document = diagnose(pair.a, replace(pair.b, traces=(), counters=()))
    found = lines(document)["not measured"]
    assert "traces" not in str(found.a) and "traces, device counters" in str(found.b)
    assert (lines(document)["traces"].a, lines(document)["traces"].b) == (1.0, 0.0)


def test_goodput_with_an_slo_and_its_absence_without() -> None:
    pair = run("a", bench(0.05, 0.01)), run("b", bench(0.2, 0.01))
    assert (lines(diagnose(*pair, slo=SLO))["goodput"].a, lines(diagnose(*pair, slo=SLO))["goodput"].b) == (2.0, 0.0)
    without = lines(diagnose(*pair))
    assert "goodput" not in without
    assert "goodput (no SLO given)" in str(without["not measured"].a)


def test_a_run_without_a_benchmark_lacks_it() -> None:
    document = diagnose(run("a", model__name="m"), run("b", bench(0.05, 0.01)))
    assert str(lines(document)["not measured"].a).startswith("benchmark result")
    assert lines(document)["model"].b is None
