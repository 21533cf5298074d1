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
from profiler.cli.selftest import Case, Planted, cases_of, judged
from profiler.cli.served_start import counters
from profiler.examples.miniature_settings import Settings
from profiler.model.diagnosis import Diagnosis
from profiler.model.run import Run
from profiler.store.opening import open_run
from tests.collectors.test_live_collectors import nvml_module

RUNS = Path(__file__).parents[2] / "examples" / "runs" / "recorded-vllm-cpu"
VALUES = (1.0, 1.0), (0.6, 0.6)


def opened(name: str) -> Run:
    return open_run(RUNS / name, registry.formats(), registry.engines(), registry.relabelled, registry.redacted)


@pytest.fixture(scope="module")
def fewer_sequences() -> Diagnosis:
    return diagnose(opened("run-A"), opened("run-B"))


REPEATS = {"A": VALUES[0], "B": VALUES[1]}
BUDGET, ATTENTION = (Planted(name, cause, {}) for name, cause in (("few", "batching"), ("slow", "kernel")))


def case(*planted: Planted) -> Case:
    return Case(planted)


def test_the_injected_cause_has_to_be_the_largest(fewer_sequences: Diagnosis) -> None:
    (found,) = judged(case(BUDGET), fewer_sequences, REPEATS)
    assert (found.outcome, found.found, found.winner) == ("found", ("batching",), "a")
    assert found.measured == pytest.approx(-0.386, abs=0.001)
    assert found.attributed is not None
    assert found.share == pytest.approx(found.attributed / found.measured)
    assert found.passed
    (missed,) = judged(case(ATTENTION), fewer_sequences, REPEATS)
    assert (missed.outcome, missed.found, missed.passed) == ("missed", ("batching",), False)


def test_a_cause_of_the_wrong_size_is_told(fewer_sequences: Diagnosis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "SIZES", (2.0, 3.0))
    assert judged(case(BUDGET), fewer_sequences, REPEATS)[0].outcome == "wrong size"


def test_of_two_causes_both_have_to_be_the_largest(fewer_sequences: Diagnosis) -> None:
    ranked = sorted(fewer_sequences.gaps[0].causes, key=lambda row: row.gap)
    two, three = ranked[1], ranked[2]
    repeats = REPEATS | {"B-1": (0.7, 0.7), "B-2": (0.9, 0.9)}
    for second, outcome in ((two, ("found", "wrong size")), (three, ("missed",))):
        results = judged(case(BUDGET, Planted("slow", second.cause, {})), fewer_sequences, repeats)
        assert [one.cause for one in results] == ["batching", second.cause]
        assert results[0].found == ("batching", two.cause)
        assert results[1].outcome in outcome


def test_what_is_expected_of_two_switches_comes_from_each_alone() -> None:
    # Seconds per token: 1 for A, 3 with both switches, 1.5 and 2 with one.
    best = {"A": 1.0, "B": 1 / 3, "B-1": 1 / 1.5, "B-2": 1 / 2}
    assert selftest.expected(case(BUDGET, ATTENTION), best) == [
        pytest.approx((0.25, 0.5)),
        pytest.approx((0.5, 0.75)),
    ]
    assert selftest.expected(case(BUDGET), {}) == [(1.0, 1.0)]


def test_a_side_that_became_faster_is_a_miss() -> None:
    document = diagnose(opened("run-B"), opened("run-A"))
    assert judged(case(BUDGET), document, REPEATS)[0].outcome == "missed"


def test_nothing_changed_has_to_name_no_winner(fewer_sequences: Diagnosis) -> None:
    assert judged(case(), fewer_sequences, REPEATS)[0].outcome == "named a winner"
    (same,) = judged(case(), diagnose(opened("run-A"), opened("run-A")), REPEATS)
    assert (same.outcome, same.passed) == ("no difference", True)


def test_starts_whose_best_two_differ_are_called_unsteady(fewer_sequences: Diagnosis) -> None:
    assert judged(case(BUDGET), fewer_sequences, REPEATS)[0].steady
    assert judged(case(BUDGET), fewer_sequences, REPEATS | {"A": (1.0, 0.5, 0.97)})[0].steady
    assert not judged(case(BUDGET), fewer_sequences, REPEATS | {"A": (1.0, 0.5, 0.9)})[0].steady


def changed(base: Settings, other: Settings) -> list[str]:
    return [name for name in Settings.__dataclass_fields__ if getattr(base, name) != getattr(other, name)]


def test_a_side_changes_the_switches_of_its_case_and_no_other() -> None:
    for device in ("cpu", "cuda"):
        for one in cases_of(device):
            sides = one.sides
            names = [name for planted in one.planted for name in planted.changes]
            assert sorted(changed(sides["A"], sides["B"])) == sorted(names)
            assert len(sides) == (2 if len(one.planted) < 2 else 4)
            for side, planted in zip(list(sides.values())[2:], one.planted, strict=False):
                assert changed(sides["A"], side) == list(planted.changes)
        assert [one.name for one in cases_of(device) if not one.planted] == [selftest.NULL]
        folders = [one.folder for one in cases_of(device)]
        assert len(set(folders)) == len(folders)
        assert "token-budget-6-attention-4-times" in folders


def test_what_a_device_cannot_do_is_skipped_with_the_reason() -> None:
    cases = [case for case in cases_of("cpu") if case.needs]
    told, stopped = selftest.all_of(cases, lambda case: pytest.fail(f"{case.name} is carried out"))
    assert not stopped
    assert {one.cause for one in told} == {"cuda_graph"}
    assert all(one.outcome == "skipped" and one.why == "there are no graphs without a GPU" for one in told)
    assert [case for case in cases_of("cuda", gpus=2) if case.needs] == []
    (one,) = [case for case in cases_of("cuda", gpus=1) if case.needs]
    assert one.needs == "two ranks need two GPUs, and there is 1"


def test_what_was_found_before_an_interrupt_is_kept(fewer_sequences: Diagnosis) -> None:
    def carried_out(one: Case) -> list[selftest.Result]:
        if one.planted == (ATTENTION,):
            raise KeyboardInterrupt
        return judged(one, fewer_sequences, REPEATS)

    cases = [case(BUDGET), case(ATTENTION), case(), cases_of("cpu")[-1]]
    results, stopped = selftest.all_of(cases, carried_out)
    assert stopped
    assert [one.outcome for one in results] == ["found", "skipped", "skipped", "skipped"]
    assert [one.why for one in results[1:]] == ["the self-test was stopped"] * 2 + [cases[-1].needs]


def test_a_gpu_is_sampled_beside_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml_module())
    with counters(tmp_path / "A1", "cuda"):
        pass
    (sampled,) = open_run(
        tmp_path / "A1", registry.formats(), registry.engines(), registry.relabelled, registry.redacted
    ).counters
    assert set(sampled.gpu.tolist()) == {0, 1} and sampled.sm_clock[0] == 1.5e9
    with counters(tmp_path / "A2", "cpu"):
        pass
    assert not (tmp_path / "A2").exists()


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
    starts = sum(
        sum(map(len, repeats.values())) for repeats in {one["injected"]: one["repeats"] for one in results}.values()
    )
    assert len(list((tmp_path / "runs").rglob("run.json"))) == starts
