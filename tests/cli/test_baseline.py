"""``profiler diagnose BASELINE.json RUN``: the commands of a pipeline that keeps one small file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest

from profiler.reports.html import to_html
from profiler.reports.json_document import schema
from profiler.reports.language import catalogue
from tests.cli.conftest import Invoke
from tests.reports.test_html import Outline
from tests.strategies import ROOT

RUNS = ROOT / "examples/runs/recorded-vllm-cpu"
A, B = RUNS / "run-A", RUNS / "run-B"


@pytest.fixture
def baseline(invoke: Invoke, tmp_path: Path) -> Path:
    """Run A as the command keeps it."""
    status, out, _ = invoke("inspect", A, "--json")
    path = tmp_path / "baseline.json"
    path.write_text(out)
    assert status == 0
    jsonschema.validate(json.loads(out), json.loads(schema("inspection")))
    return path


@pytest.mark.parametrize(
    ("gate", "status"),
    [
        ("output_throughput < -3%", 1),
        ("output_throughput < -50%", 0),
        ("mean_ttft > 500ms", 1),
        ("p99_itl > 100s", 0),
        ("goodput < 0%", 2),
    ],
)
def test_a_gate_decides_the_status(invoke: Invoke, baseline: Path, gate: str, status: int) -> None:
    code, _, err = invoke("diagnose", baseline, B, "--fail-if", gate)
    assert code == status and ("gate failed" in err) == (status == 1)


def test_every_output_is_written(invoke: Invoke, baseline: Path, tmp_path: Path) -> None:
    files = {kind: tmp_path / f"out.{kind}" for kind in ("html", "json", "markdown")}
    status, out, _ = invoke("diagnose", baseline, B, *(word for kind in files for word in (f"--{kind}", files[kind])))
    assert status == 0
    shown = " ".join(out.split())
    assert "a stored document holds no steps or traces" in shown and "keep the run's folder" in shown
    document = json.loads(files["json"].read_text("utf-8"))
    jsonschema.validate(document, json.loads(schema("diagnosis")))
    assert document["gaps"][0]["relative"] == pytest.approx(-0.386, abs=0.001)
    assert document["runs"][0]["path"] == str(baseline)
    for kind in ("html", "markdown"):
        text = files[kind].read_text("utf-8")
        plain = Outline(text).text if kind == "html" else text
        assert "38.6% less" in plain and "stored inspection" in plain


def test_every_message_has_a_translation(invoke: Invoke, baseline: Path, tmp_path: Path) -> None:
    catalogue("zh").missed.clear()
    targets = ("--html", tmp_path / "zh.html", "--markdown", tmp_path / "zh.md")
    assert invoke("diagnose", baseline, B, "--lang", "zh", "-v", *targets)[0] == 0
    assert invoke("diagnose", baseline, B, "--lang", "zh", "-v", "--json", tmp_path / "next.json")[0] == 0
    status, out, _ = invoke("diagnose", tmp_path / "next.json", A, "--lang", "zh", "-v")
    assert status == 0 and "原因未知" in out and catalogue("zh").missed == set()


def test_the_document_of_one_comparison_is_the_baseline_of_the_next(
    invoke: Invoke, baseline: Path, tmp_path: Path
) -> None:
    following = tmp_path / "next.json"
    assert invoke("diagnose", baseline, B, "--json", following)[0] == 0
    status, out, _ = invoke("diagnose", following, A, B)
    # A long path is broken over lines.
    told = "".join(out.split())
    assert status == 0 and f"run-B is the newer run of the stored diagnosis {following}".replace(" ", "") in told
    assert "run-B(stored)" in told and "63.0%more" in told
    assert invoke("diagnose", baseline, B, "--json", following, "--anonymize")[0] == 0
    status, _, err = invoke("diagnose", following, A)
    assert status == 2 and "it was made anonymous" in err


def lines(err: str) -> list[str]:
    return [line for line in err.splitlines() if line.strip()]


def test_bad_input_is_one_line_and_exits_with_2(invoke: Invoke, baseline: Path, tmp_path: Path) -> None:
    whole = baseline.read_text()
    other, cut, old = (tmp_path / f"{name}.json" for name in ("other", "cut", "old"))
    other.write_text('{"commit": "abc", "tests": 3}')
    cut.write_text(whole[: len(whole) // 2])
    old.write_text(json.dumps({key: value for key, value in json.loads(whole).items() if key != "baseline"}))
    said = {
        (other, B): "profiler inspect RUN --json",
        (cut, B): r"cut off or damaged \(at byte \d+\)",
        (old, B): "before documents held a baseline",
        (A, baseline): "can only be named first",
        (baseline, baseline): "can only be named first",
        (baseline, B, "--slo", "ttft=1s"): "single requests",
        (baseline,): "needs two runs",
        (baseline, tmp_path / "absent"): "absent",
    }
    for words, reason in said.items():
        status, out, err = invoke("diagnose", *words)
        assert (status, out, len(lines(err))) == (2, "", 1), words
        assert re.search(reason, err), err


def test_a_page_is_drawn_of_the_api_too(baseline: Path) -> None:
    from profiler import diagnose

    assert "100.0%" in to_html(diagnose(baseline, B))
