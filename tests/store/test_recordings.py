"""Several recordings in one folder: repeats where their settings are the same, and said and left out where not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from profiler import diagnose, open_run
from profiler.cli.main import main


def recorded(folder: Path, rate: float, command: list[str], **more: object) -> None:
    """A recording: a server's command and the result of one load."""
    folder.mkdir(parents=True)
    manifest = {"engine": {"name": "vllm", "version": "0.32.0", "command": command}, **more}
    (folder / "run.json").write_text(json.dumps(manifest))
    bench = {
        "backend": "vllm", "model_id": "m", "num_prompts": 40, "completed": 40, "duration": 4000 / rate,
        "total_input_tokens": 400, "total_output_tokens": 4000, "max_concurrency": 4, "request_rate": "inf",
        "output_throughput": rate, "request_throughput": rate / 100, "mean_ttft_ms": 20.0, "mean_tpot_ms": 9.0,
        "mean_itl_ms": 9.0, "median_ttft_ms": 20.0, "p99_ttft_ms": 20.0, "median_tpot_ms": 9.0, "p99_tpot_ms": 9.0,
    }  # fmt: skip
    (folder / "bench.json").write_text(json.dumps(bench))


def served(*flags: str) -> list[str]:
    return ["vllm", "serve", "m", "--port", "8000", *flags]


def test_three_starts_in_one_folder_are_three_repeats(tmp_path: Path) -> None:
    for name, rates in (("A", (1000.0, 1010.0, 990.0)), ("B", (800.0, 805.0, 795.0))):
        for at, rate in enumerate(rates):
            # A port is no setting.
            recorded(tmp_path / name / f"start-{at}", rate, ["vllm", "serve", "m", "--port", str(8000 + at)])
    found = diagnose(tmp_path / "A", tmp_path / "B")
    assert [run.repeats for run in found.runs] == [3, 3] and "; 3 repeats each)" in found.verdict.headline
    assert {rule.rule: rule.status for rule in found.fairness}["repeats"] == "pass"
    assert not [problem for problem in found.problems if problem.severity == "error"]


@pytest.mark.parametrize(
    ("command", "more", "told"),
    [
        (served("--max-num-seqs", "8"), {}, "setting.max_num_seqs is 8 here (start-1/run.json"),
        (served("--max-num-seqs", "16"), {"model": {"name": "another"}}, "model.name is another here"),
    ],
)
def test_another_flag_is_another_run(command: list[str], more: dict[str, object], told: str, tmp_path: Path) -> None:
    recorded(tmp_path / "A" / "start-0", 1000.0, served("--max-num-seqs", "16"), model={"name": "m"})
    recorded(tmp_path / "A" / "start-1", 700.0, command, **({"model": {"name": "m"}} | more))
    recorded(tmp_path / "A" / "start-2", 1010.0, served("--max-num-seqs", "16"))
    run = open_run(tmp_path / "A")
    assert [bench.path for bench in run.benches] == ["start-0/bench.json", "start-2/bench.json"]
    assert run.fact("setting.max_num_seqs") == 16
    (problem,) = [problem for problem in run.problems if problem.severity == "error"]
    assert problem.file == "start-1/run.json" and told in problem.detail and "a run of its own" in problem.detail
    assert [file.path for file in run.files if not file.read] == ["start-1/bench.json", "start-1/run.json"]
    # That one is read where it is asked for.
    assert len(open_run(tmp_path / "A" / "start-1").benches) == 1


def test_a_left_out_recording_is_told_by_the_exit_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path / "A" / "start-0", 1000.0, served("--max-num-seqs", "16"))
    recorded(tmp_path / "A" / "start-1", 700.0, served("--max-num-seqs", "8"))
    recorded(tmp_path / "B", 800.0, served("--max-num-seqs", "16"))
    monkeypatch.setattr("sys.argv", ["profiler", "diagnose", str(tmp_path / "A"), str(tmp_path / "B")])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 3 and "a run of its own" in capsys.readouterr().out.replace("\n", " ")
