"""``profiler selftest``: what it concludes from a diagnosis, and, marked, the whole of it on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from profiler import registry
from profiler.analyzers.diagnosis import diagnose
from profiler.cli import selftest
from profiler.cli.main import cli
from profiler.cli.selftest import Case, cases_of, judged
from profiler.examples.miniature_engine import Settings
from profiler.model.diagnosis import CauseName, Diagnosis
from profiler.model.run import Run
from profiler.store.opening import open_run

RUNS = Path(__file__).parents[2] / "examples" / "runs" / "recorded-vllm-cpu"
VALUES = (1.0, 1.0), (0.6, 0.6)


def opened(name: str) -> Run:
    return open_run(RUNS / name, registry.formats(), registry.engines(), registry.relabelled, registry.redacted)


@pytest.fixture(scope="module")
def fewer_sequences() -> Diagnosis:
    return diagnose(opened("run-A"), opened("run-B"))


def case(cause: CauseName | None) -> Case:
    return Case("x", cause, Settings())


def test_the_injected_cause_has_to_be_the_largest(fewer_sequences: Diagnosis) -> None:
    found = judged(case("batching"), fewer_sequences, VALUES)
    assert (found.outcome, found.found, found.winner) == ("found", "batching", "a")
    assert found.measured == pytest.approx(-0.386, abs=0.001)
    assert found.attributed is not None
    assert found.passed
    missed = judged(case("kernel"), fewer_sequences, VALUES)
    assert (missed.outcome, missed.found, missed.passed) == ("missed", "batching", False)


def test_a_cause_of_the_wrong_size_is_told(fewer_sequences: Diagnosis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "SHARES", (2.0, 3.0))
    assert judged(case("batching"), fewer_sequences, VALUES).outcome == "wrong size"


def test_a_side_that_became_faster_is_a_miss() -> None:
    document = diagnose(opened("run-B"), opened("run-A"))
    assert judged(case("batching"), document, VALUES).outcome == "missed"


def test_nothing_changed_has_to_name_no_winner(fewer_sequences: Diagnosis) -> None:
    assert judged(case(None), fewer_sequences, VALUES).outcome == "named a winner"
    same = judged(case(None), diagnose(opened("run-A"), opened("run-A")), VALUES)
    assert (same.outcome, same.passed) == ("no difference", True)


def test_starts_whose_best_two_differ_are_called_unsteady(fewer_sequences: Diagnosis) -> None:
    assert judged(case("batching"), fewer_sequences, VALUES).steady
    assert judged(case("batching"), fewer_sequences, ((1.0, 0.5, 0.97), (0.6, 0.6))).steady
    assert not judged(case("batching"), fewer_sequences, ((1.0, 0.5, 0.9), (0.6, 0.6))).steady


def test_every_case_changes_one_switch_and_one_pair_none() -> None:
    for device in ("cpu", "cuda"):
        changed = [
            [name for name in Settings.__dataclass_fields__ if getattr(one.settings, name) != getattr(Settings(), name)]
            for one in cases_of(device)
        ]
        assert sorted(len(names) for names in changed) == [0, *[1] * (len(changed) - 1)]
        assert [one.cause is None for one in cases_of(device)] == [not names for names in changed]


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "find_spec", lambda _: None)
    result = CliRunner().invoke(cli, ["selftest"])
    assert "serving-profiler[torch]" in str(result.exception)


@pytest.mark.selftest
def test_planted_causes_are_found_on_this_machine(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    program = "from profiler.cli.main import main; main()"
    target = tmp_path / "results.json"
    command = [sys.executable, "-c", program, "selftest", "--json", str(target), "--keep", str(tmp_path / "runs")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert target.exists(), ended.stderr
    results = json.loads(target.read_text("utf-8"))["results"]
    assert {one["injected"]: one["outcome"] for one in results if one["outcome"] in ("missed", "named a winner")} == {}
    assert ended.returncode == 0
    starts = sum(len(side) for one in results for side in one["repeats"])
    assert len(list((tmp_path / "runs").rglob("bench.json"))) == starts
