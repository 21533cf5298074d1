"""``recommend`` and ``whatif`` from outside: documents, statuses, and predictions that are compared with their outcome."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pytest

from tests.cli.conftest import Invoke
from tests.conftest import Lab


@pytest.fixture
def runs(lab: Lab, tmp_path: Path) -> tuple[Path, Path]:
    """Copies of the lab's pair with another sequence limit, which may be written to."""
    pair = lab("few-sequences")
    return Path(shutil.copytree(pair.a.path, tmp_path / "run-A")), Path(
        shutil.copytree(pair.b.path, tmp_path / "run-B")
    )


@pytest.mark.parametrize("kind", ["recommendation", "whatif"])
def test_documents_validate(kind: str, invoke: Invoke, runs: tuple[Path, Path]) -> None:
    words = ("recommend", runs[1]) if kind == "recommendation" else ("whatif", runs[1], "--set", "max_num_seqs=64")
    status, out, _ = invoke(*words, "--json", "-")
    assert status == 0
    _, schema, _ = invoke("schema", kind)
    jsonschema.validate(json.loads(out), json.loads(schema))


def test_the_page_names_the_flag_and_the_change(invoke: Invoke, runs: tuple[Path, Path]) -> None:
    status, out, _ = invoke("recommend", runs[1])
    assert status == 0
    assert out.startswith("--max-num-seqs")
    assert "Its price" in out and "Confidence" in out and "default " not in out
    _, out, _ = invoke("recommend", runs[1], "-v")
    assert "takes whole numbers from 1 on; needs a token budget that is not below it" in " ".join(out.split())


@pytest.mark.parametrize(
    ("setting", "text"),
    [("max_num_seqs=0", "whole numbers from 1 on, not 0"), ("cuda_graph=3", "one of on, off, not 3")],
)
def test_a_value_outside_the_range_is_refused(setting: str, text: str, invoke: Invoke, runs: tuple[Path, Path]) -> None:
    status, out, err = invoke("whatif", runs[0], "--set", setting)
    assert (status, out) == (2, "")
    assert text in err and err.count("\n") == 1


def test_an_engine_s_own_flag_is_understood(invoke: Invoke, runs: tuple[Path, Path]) -> None:
    shared = invoke("whatif", runs[0], "--set", "max_num_seqs=16", "--json", "-")
    spelled = invoke("whatif", runs[0], "--set", "--max-num-seqs=16", "--json", "-")
    assert shared[:2] == spelled[:2]
    assert json.loads(shared[1])["typed"] == {"max_num_seqs": "--max-num-seqs 16"}
    _, shown, _ = invoke("whatif", runs[0], "--set", "max_num_seqs=16")
    assert f"Confidence {json.loads(shared[1])['confidence']['mean_tpot']['word']} (" in shown


@pytest.mark.parametrize(("words", "text"), [
    (("--set", "max_num_seqs"), "KNOB=VALUE"), (("--set", "dtype=half"), "can't be predicted"),
    ((), "Missing option"),
])  # fmt: skip
def test_wrong_usage_is_told_in_one_line(
    words: tuple[str, ...], text: str, invoke: Invoke, runs: tuple[Path, Path]
) -> None:
    status, out, err = invoke("whatif", runs[0], *words)
    assert (status, out) == (2, "")
    assert text in err


def test_a_run_without_steps_is_refused_with_the_reason(invoke: Invoke, runs: tuple[Path, Path]) -> None:
    status, _, err = invoke("recommend", runs[0] / "bench.json")
    assert status == 2
    assert "no steps" in err


def test_predictions_are_compared_with_what_came_of_them(invoke: Invoke, runs: tuple[Path, Path]) -> None:
    """B is the held run; a rerun of it with the limit that was recommended is A, whose command is changed to say so."""
    after, before = runs
    status, out, _ = invoke("recommend", before, "--verify")
    assert status == 0
    assert "To check them" in out
    kept = json.loads((before / ".profiler" / "predictions.json").read_text())
    limit = next(row["value"] for row in kept if row["knob"] == "max_num_seqs")
    stated = json.loads((after / "run.json").read_text())
    command = stated["engine"]["command"]
    command[command.index("--max-num-seqs") + 1] = limit
    (after / "run.json").write_text(json.dumps(stated))
    status, out, _ = invoke("diagnose", before, after, "--json", "-")
    assert status == 0
    lines = [line for line in json.loads(out)["method"] if "was predicted to change" in line]
    assert any(line.startswith(f"max_num_seqs={limit}") and "output_throughput" in line for line in lines)
    assert (before / ".profiler" / "scores.txt").read_text().splitlines() == lines


def test_the_loop_closes_on_a_real_engine_too(invoke: Invoke, corpus: Path, tmp_path: Path) -> None:
    """vLLM on a CPU, eager and compiled: what was predicted of the compiler is compared with the run that has it."""
    before, after = (
        Path(shutil.copytree(corpus / "own/vllm-compile" / n, tmp_path / n)) for n in ("eager", "compiled")
    )
    status, out, _ = invoke("recommend", before, "--verify")
    assert status == 0 and "--no-enforce-eager" in out
    status, out, _ = invoke("diagnose", before, after, "--json", "-")
    assert status == 0
    lines = [line for line in json.loads(out)["method"] if line.startswith("compile=on was predicted to change")]
    assert {line.split()[5] for line in lines} >= {"output_throughput", "mean_ttft", "mean_tpot"}
