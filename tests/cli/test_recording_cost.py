"""What each collector cost stands in ``run.json``, and ``inspect`` and every form of the report name it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from profiler.reports.language import catalogue
from tests.cli.conftest import Invoke
from tests.strategies import ROOT

COSTS = [
    {"collector": "metrics", "cpu_seconds": 0.123, "requests": 31, "received": 9000, "written": 9000, "samples": 31},
    {"collector": "steps", "cpu_seconds": 0.01, "received": 7, "written": 7, "server_seconds": 0.456},
    {"collector": "host stacks", "cpu_seconds": 2.5, "written": 100, "toll": 1.0625},
    {"collector": "trace", "cpu_seconds": 0.02, "requests": 9, "written": 5, "server_seconds": None, "toll": None},
]
TOLD = (
    "metrics: 0.12 CPU s, 31 requests, 9000 bytes received, 9000 written",
    "steps: 0.01 CPU s, 0 requests, 7 bytes received, 7 written, 0.46 CPU s in the server's own process",
    "host stacks: 2.50 CPU s, 0 requests, 0 bytes received, 100 written, 1.06 times as many tokens a second before it "
    "as during it",
    "trace: 0.02 CPU s, 9 requests, 0 bytes received, 5 written",
)
SESSION = "2.50 times as many tokens a second before the profiler's session as during it"


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """The shipped pair, its first run with what recording it cost."""
    shipped = ROOT / "examples" / "runs" / "recorded-vllm-cpu"
    for name in ("run-A", "run-B"):
        shutil.copytree(shipped / name, tmp_path / name)
    stated = tmp_path / "run-A" / "run.json"
    document = json.loads(stated.read_text())
    document["recording"] = {"state": "done", "costs": COSTS, "trace": {"toll": 2.5}}
    stated.write_text(json.dumps(document))
    return tmp_path / "run-A", tmp_path / "run-B"


def test_inspect_names_the_cost_of_each_collector(invoke: Invoke, pair: tuple[Path, Path]) -> None:
    status, out, _ = invoke("inspect", pair[0], "--json")
    facts = json.loads(out)["facts"]
    assert status == 0 and facts["recording.toll"].startswith(SESSION)
    for told in TOLD:
        name, _, text = told.partition(": ")
        assert facts[f"recording.cost.{name}"] == f"{text} [run.json: recording.costs]"
    assert "recording.cost.host stacks" in invoke("inspect", pair[0])[1]


def test_the_report_says_with_how_it_was_measured_what_that_cost(
    invoke: Invoke, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    page, comment = tmp_path / "report.html", tmp_path / "comment.md"
    status, out, _ = invoke("diagnose", *pair, "--html", page, "--markdown", comment, "--json", "-")
    assert status in (0, 3)
    lines = [line for line in json.loads(out)["method"] if "cost of the collector" in line or "session" in line]
    assert lines == [*(f"run-A: cost of the collector {told}." for told in TOLD), f"run-A: {SESSION}."]
    html = page.read_text()
    assert html.count("cost of the collector") == len(TOLD) and "cost of the collector metrics" in comment.read_text()
    # It is no part of the configuration.
    assert "recording.cost" not in html[html.rindex("What differs in configuration") : html.rindex("The gap")]


def test_it_has_a_translation(invoke: Invoke, pair: tuple[Path, Path], tmp_path: Path) -> None:
    catalogue("zh").missed.clear()
    invoke("diagnose", *pair, "--html", tmp_path / "report.html", "--lang", "zh")
    assert not [text for text in catalogue("zh").missed if "cost" in text or "CPU s" in text or "session" in text]
    assert "采集器主机调用栈的开销：2.50 CPU 秒" in (tmp_path / "report.html").read_text()
