"""The command line from outside: statuses, one-line errors, documents, and nothing a pipe could choke on."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import jsonschema
import numpy as np
import pytest

from profiler import __version__
from profiler.cli import start
from profiler.cli.main import COMMANDS, cli, main
from profiler.cli.quantities import GateType, Slo, duration
from tests.cli.conftest import Invoke
from tests.strategies import ROOT, small_trace, written

ESCAPE = "\x1b"


def bench(path: Path, seconds: float, requests: int = 40, tokens: int = 50) -> Path:
    """A result file of `vllm bench serve --save-detailed`."""
    rng = np.random.default_rng(3)
    ttft = 0.05 + 0.01 * rng.random(requests)
    itl = [(seconds / 20 / tokens * (0.9 + 0.2 * rng.random(tokens - 1))).tolist() for _ in range(requests)]
    written_file = {
        "date": "20260501-120000", "endpoint_type": "vllm", "backend": "vllm", "label": None, "model_id": "m",
        "tokenizer_id": "m", "num_prompts": requests, "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 8,
        "duration": seconds, "completed": requests, "failed": 0, "total_input_tokens": 100 * requests,
        "total_output_tokens": tokens * requests, "request_throughput": requests / seconds,
        "output_throughput": tokens * requests / seconds,
        "total_token_throughput": (100 + tokens) * requests / seconds, "input_lens": [100] * requests,
        "output_lens": [tokens] * requests, "ttfts": ttft.tolist(), "itls": itl,
        "generated_texts": ["x"] * requests, "errors": [""] * requests,
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(written_file))
    return path


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """Two small runs with a benchmark and a trace each; B is half as fast."""
    for name, seconds in (("run-A", 2.0), ("run-B", 4.0)):
        bench(tmp_path / name / "bench.json", seconds)
        written(small_trace(12), tmp_path / name / "trace" / "rank0.pt.trace.json.gz")
    return tmp_path / "run-A", tmp_path / "run-B"


# ------------------------------------------------------------------------------------------------------------- statuses
def test_a_diagnosis_that_is_done_exits_with_0(invoke: Invoke, runs: tuple[Path, Path]) -> None:
    status, out, err = invoke("diagnose", *runs)
    assert status == 0 and "run-A" in out and "run-B" in out and "Traceback" not in err


@pytest.mark.parametrize(
    ("gate", "status"),
    [
        ("output_throughput < -3%", 1),
        ("output_throughput < -60%", 0),
        ("output_throughput > 3%", 0),
        ("output_throughput <= -50%", 1),
        ("output_throughput < -100", 1),
        ("mean_tpot > 1ms", 1),
        ("mean_tpot > 1s", 0),
        ("p99_ttft > 50%", 0),
    ],
)
def test_a_gate_fails_exactly_where_its_condition_holds(
    gate: str, status: int, invoke: Invoke, runs: tuple[Path, Path]
) -> None:
    code, _, err = invoke("diagnose", *runs, "--fail-if", gate)
    assert code == status
    assert (f"gate failed: {gate}" in err) == bool(status)


def test_a_benchmark_that_states_no_tpot_leaves_its_latency_whole(
    invoke: Invoke, runs: tuple[Path, Path], tmp_path: Path
) -> None:
    for run in runs:
        told = json.loads((run / "bench.json").read_text())
        for key in ("input_lens", "output_lens", "ttfts", "itls", "generated_texts", "errors"):
            del told[key]
        (run / "bench.json").write_text(
            json.dumps(told | {"mean_ttft_ms": 50.0, "mean_e2el_ms": 500 * told["duration"]})
        )
    status, _, err = invoke("diagnose", *runs, "--json", tmp_path / "d.json")
    assert status == 0, err
    gaps = {gap["metric"]: gap for gap in json.loads((tmp_path / "d.json").read_text())["gaps"]}
    assert "mean_tpot" not in gaps
    assert gaps["mean_e2e"]["gap"] == gaps["mean_e2e"]["unexplained"]["gap"] == 1.0


def test_one_failed_gate_of_several_is_enough(invoke: Invoke, runs: tuple[Path, Path]) -> None:
    gates = ("--fail-if", "output_throughput > 3%", "--fail-if", "output_throughput < -3%")
    assert invoke("diagnose", *runs, *gates)[0] == 1


def test_part_of_the_input_left_out_exits_with_3(invoke: Invoke, runs: tuple[Path, Path]) -> None:
    trace = next(runs[1].rglob("*.json.gz"))
    trace.write_bytes(trace.read_bytes()[:-400])
    status, out, _ = invoke("diagnose", *runs)
    assert status == 3 and "breaks off" in re.sub(r"\s+", " ", out)
    assert invoke("inspect", runs[1])[0] == 3
    assert invoke("diagnose", *runs, "--fail-if", "output_throughput < -3%")[0] == 1


WRONG = {
    "a missing folder": (("diagnose", "{a}", "nowhere"), "nowhere"),
    "a missing run to inspect": (("inspect", "nowhere"), "nowhere"),
    "one run alone": (("diagnose", "{a}"), "two runs"),
    "no run": (("diagnose",), "RUN_A"),
    "an unknown metric": (("diagnose", "{a}", "{b}", "--metric", "mean_tfft"), "mean_tfft"),
    "an unknown metric in a gate": (("diagnose", "{a}", "{b}", "--fail-if", "thruput < -3%"), "thruput"),
    "a gate without a sign": (("diagnose", "{a}", "{b}", "--fail-if", "output_throughput 3%"), "METRIC < NUMBER%"),
    "a bound without a unit": (("diagnose", "{a}", "{b}", "--slo", "ttft=500"), "500ms"),
    "an unknown objective": (("diagnose", "{a}", "{b}", "--slo", "speed=5ms"), "speed"),
    "an unknown option": (("diagnose", "{a}", "{b}", "--faster"), "--faster"),
    "an unknown command": (("explain",), "explain"),
    "an unknown document": (("schema", "nothing"), "nothing"),
    "a report in no folder": (("diagnose", "{a}", "{b}", "--html", "no/such/folder/r.html"), "no/such/folder"),
    "a report where a folder is": (("diagnose", "{a}", "{b}", "--json", "{a}"), "run-A"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_usage_is_told_in_one_line_and_exits_with_2(
    what: str, invoke: Invoke, runs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words, named = WRONG[what]
    status, out, err = invoke(*(w.format(a=runs[0], b=runs[1]) for w in words))
    assert status == 2
    assert named in err and "Traceback" not in out + err
    lines = [line for line in err.splitlines() if line.strip() and not line.startswith(("Usage:", "Try "))]
    assert len(lines) == 1 or what == "an unknown document", err


def test_a_file_that_no_reader_can_use_is_no_traceback(invoke: Invoke, tmp_path: Path) -> None:
    for name, data in (("x.pt.trace.json", b"garbage"), ("y.json.gz", b"\x1f\x8b\x08"), ("z", b""), ("w.json", b"{")):
        (tmp_path / name).write_bytes(data)
        status, out, err = invoke("inspect", tmp_path / name)
        assert status in (0, 2, 3) and "Traceback" not in out + err
    assert invoke("diagnose", tmp_path / "z", tmp_path / "w.json")[0] in (0, 2, 3)


def test_an_error_of_our_own_is_one_line_and_no_failed_gate(
    invoke: Invoke, runs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> object:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr("profiler.analyzers.inspection.inspect", broken)
    status, out, err = invoke("inspect", runs[0])
    assert (status, out) == (2, "") and len(err.splitlines()) == 1 and "--debug" in err


def test_an_interrupt_exits_with_130(invoke: Invoke, runs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr("profiler.analyzers.inspection.inspect", interrupted)
    status, _, err = invoke("inspect", runs[0])
    # Nothing was written, and nothing is said of it.
    assert status == 130 and err.split() == ["interrupted"]


def test_an_interrupt_while_it_is_loaded_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def load(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("profiler.cli.main.main", load)
    with pytest.raises(SystemExit) as left:
        start.main()
    assert left.value.code == 130 and capfd.readouterr().err.split() == ["interrupted"]


def test_runs_of_one_name_are_told_apart_in_every_document(
    invoke: Invoke, runs: tuple[Path, Path], tmp_path: Path
) -> None:
    again = tmp_path / "later" / "run-B"
    bench(again / "bench.json", 3.0)
    status, _, err = invoke("diagnose", *runs, again, "--json", tmp_path / "d.json")
    assert status == 0, err
    second = [json.loads((tmp_path / name).read_text())["runs"][1]["name"] for name in ("d.json", "d-2.json")]
    assert second == [f"{tmp_path.name}/run-B", "later/run-B"]


def test_a_folder_that_is_not_there_is_told_before_anything_is_read(
    invoke: Invoke, runs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("profiler.cli.reading.open_run", pytest.fail)
    for words in (
        ("diagnose", *runs, "--html", tmp_path / "no" / "r.html"),
        ("flamegraph", runs[0], "--out", tmp_path / "no" / "f.html"),
        ("timeline", runs[0], "--out", tmp_path / "no" / "t.json.gz"),
    ):
        status, out, err = invoke(*words)
        assert (status, out) == (2, "") and f"there is no folder {tmp_path / 'no'}" in err


def test_an_empty_result_is_a_part_that_could_not_be_read(invoke: Invoke, runs: tuple[Path, Path]) -> None:
    lost, silent = runs[0] / "lost.json", runs[1] / "server.log"
    for file in (lost, silent):
        file.write_bytes(b"")
    status, out, _ = invoke("inspect", runs[0])
    assert status == 3 and "lost.json: the file is empty" in out
    status, out, err = invoke("inspect", lost)
    assert (status, out) == (2, "") and "the file is empty" in err
    status, out, _ = invoke("inspect", runs[1])
    assert status == 0 and "notes on the files: 2 (-v shows them)" in out and "more" not in out


def test_a_difference_is_called_after_the_run_that_was_named_first(
    invoke: Invoke, runs: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "f.html"
    assert invoke("flamegraph", runs[1], "--against", runs[0], "--gpu", "--out", out)[0] == 0
    assert "run-B against run-A" in out.read_text()


def test_a_single_file_that_cannot_be_read_is_an_error_and_part_of_a_folder_is_not(
    invoke: Invoke, runs: tuple[Path, Path]
) -> None:
    bad = runs[0] / "bad.pt.trace.json"
    bad.write_text('{"schemaVersion": 1, "deviceProperties": [], "ph": 1')
    for words in (("inspect", bad), ("diagnose", runs[1], bad)):
        status, out, err = invoke(*words)
        assert (status, out) == (2, "") and len(err.splitlines()) == 1
        assert str(bad) in err and "traceEvents" in err
    assert invoke("inspect", runs[0])[0] == 3


def test_debug_shows_where_it_went_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["profiler", "--debug", "inspect", str(tmp_path / "nowhere")])
    with pytest.raises(Exception, match="no such file or folder"):
        main()


# ------------------------------------------------------------------------------------------------------------ documents
def test_json_on_standard_output_is_the_document_alone(invoke: Invoke, runs: tuple[Path, Path]) -> None:
    status, out, _ = invoke("diagnose", *runs, "--json", "-")
    document = json.loads(out)
    assert status == 0 and document["schema"] == "profiler.diagnosis/1"
    schema = json.loads(invoke("schema", "diagnosis")[1])
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    gap = document["gaps"][0]
    assert gap["metric"] == "output_throughput" and (gap["a"], gap["b"]) == (1000.0, 500.0)
    assert gap["relative"] == -0.5 and document["verdict"]["winner"] == "a"
    assert sum(c["gap"] for c in gap["causes"]) + gap["unexplained"]["gap"] == pytest.approx(gap["gap"])


def test_an_inspection_validates_too(invoke: Invoke, runs: tuple[Path, Path]) -> None:
    status, out, _ = invoke("inspect", runs[0], "--json")
    document = json.loads(out)
    assert status == 0
    jsonschema.validate(document, json.loads(invoke("schema", "inspection")[1]))
    assert {f["path"] for f in document["files"]} == {"bench.json", "trace/rank0.pt.trace.json.gz"}


def test_every_kind_of_report_is_written(invoke: Invoke, runs: tuple[Path, Path], tmp_path: Path) -> None:
    targets = {kind: tmp_path / f"report.{kind}" for kind in ("html", "json", "markdown")}
    words = [word for kind, path in targets.items() for word in (f"--{kind}", path)]
    status, out, err = invoke("diagnose", *runs, *words)
    assert status == 0 and "run-B" in out
    assert targets["html"].read_text("utf-8").lstrip().lower().startswith("<!doctype html>")
    assert json.loads(targets["json"].read_text("utf-8"))["schema"] == "profiler.diagnosis/1"
    assert "run-B" in targets["markdown"].read_text("utf-8")
    assert all(str(path) in err for path in targets.values())


def test_more_than_two_runs_are_each_compared_to_the_first(
    invoke: Invoke, runs: tuple[Path, Path], tmp_path: Path
) -> None:
    bench(tmp_path / "run-C/bench.json", 2.5)
    status, _, _ = invoke("diagnose", *runs, tmp_path / "run-C", "--json", tmp_path / "d.json")
    assert status == 0
    documents = [json.loads((tmp_path / name).read_text()) for name in ("d.json", "d-2.json")]
    assert [[r["name"] for r in d["runs"]] for d in documents] == [["run-A", "run-B"], ["run-A", "run-C"]]


def test_an_objective_adds_goodput(invoke: Invoke, runs: tuple[Path, Path]) -> None:
    out = invoke("diagnose", *runs, "--slo", "ttft=500ms,tpot=3ms", "--json", "-")[1]
    gaps = {g["metric"]: g for g in json.loads(out)["gaps"]}
    gap = gaps["goodput"]
    assert gap["a"] == 20.0 and gap["b"] < 10.0 and gap["winner"] == "a"
    assert gap["interval"][0] < gap["gap"] < gap["interval"][1] < 0.0


def test_a_metric_is_explained_alone(invoke: Invoke, runs: tuple[Path, Path]) -> None:
    out = invoke("diagnose", *runs, "--metric", "p99_tpot", "--metric", "mean_ttft", "--json", "-")[1]
    assert [g["metric"] for g in json.loads(out)["gaps"]] == ["p99_tpot", "mean_ttft"]


# --------------------------------------------------------------------------------------------------------------- output
def test_quiet_prints_results_and_no_notes(invoke: Invoke, runs: tuple[Path, Path], tmp_path: Path) -> None:
    status, out, err = invoke("-q", "diagnose", *runs, "--json", tmp_path / "d.json")
    assert status == 0 and err == "" and "run-A" in out


def test_verbose_says_more(invoke: Invoke, runs: tuple[Path, Path]) -> None:
    assert len(invoke("-v", "diagnose", *runs)[1]) >= len(invoke("diagnose", *runs)[1])


@pytest.mark.parametrize("name", [None, *sorted(COMMANDS)])
def test_every_command_has_help_with_an_example_that_parses(name: str | None, invoke: Invoke) -> None:
    for option in ("--help", "-h"):
        status, out, _ = invoke(*([name] if name else []), option)
        assert status == 0 and "Example:" in out
    examples = re.findall(r"^\s+profiler (.+)$", out, re.M)
    assert examples
    for example in examples:
        command = example.split()[0]
        assert command in COMMANDS and name in (None, command)


def test_the_commands_that_the_contract_names_for_reading_are_there() -> None:
    assert {"demo", "inspect", "diagnose", "doctor", "schema"} <= set(COMMANDS)


def test_the_version_is_printed(invoke: Invoke) -> None:
    status, out, _ = invoke("--version")
    assert status == 0 and __version__ in out


def test_doctor_changes_nothing_and_says_what_is_there(invoke: Invoke) -> None:
    status, out, _ = invoke("doctor", "--json")
    checks = json.loads(out)
    assert status == 0 and checks and all({"name", "ready", "found", "advice"} <= c.keys() for c in checks)
    assert all(c["ready"] or c["advice"] for c in checks)
    assert invoke("doctor")[0] == 0


# ----------------------------------------------------------------------------------------------------------- processes
PROGRAM = [sys.executable, "-c", "from profiler.cli.main import main; main()"]


def process(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *map(str, words)], capture_output=True, text=True, cwd=ROOT, timeout=120,
        env=os.environ | environment, check=False,
    )  # fmt: skip


def test_a_pipe_gets_no_escape_codes(runs: tuple[Path, Path]) -> None:
    done = process("diagnose", *runs)
    assert done.returncode == 0 and ESCAPE not in done.stdout + done.stderr


def test_colours_can_be_asked_for_and_refused(runs: tuple[Path, Path]) -> None:
    colour = re.compile(r"\x1b\[[0-9;]*3[0-9]")
    assert ESCAPE in process("inspect", runs[0], FORCE_COLOR="1", TERM="xterm-256color").stdout
    for words, variables in ((("--no-color",), {}), ((), {"NO_COLOR": "1"})):
        done = process(*words, "inspect", runs[0], FORCE_COLOR="1", TERM="xterm-256color", **variables)
        assert done.returncode == 0 and not colour.search(done.stdout)


@pytest.mark.parametrize("words", [(), ("--json", "-"), ("--markdown", "-"), ("--html", "-")])
def test_a_terminal_without_unicode_gets_a_page_and_documents_stay_utf8(
    words: tuple[str, ...], runs: tuple[Path, Path]
) -> None:
    done = subprocess.run(
        [*PROGRAM, "diagnose", *map(str, runs), *words], capture_output=True, cwd=ROOT, timeout=120,
        env=os.environ | {"PYTHONIOENCODING": "ascii"}, check=False,
    )  # fmt: skip
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert "run-B" in done.stdout.decode("utf-8")


def test_a_failed_process_says_one_line_and_no_traceback(tmp_path: Path) -> None:
    done = process("inspect", tmp_path / "nowhere")
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1 and "Traceback" not in done.stderr


def test_a_reader_that_closes_the_pipe_is_no_error(runs: tuple[Path, Path]) -> None:
    command = " ".join(f"'{word}'" for word in (*PROGRAM, "diagnose", *runs, "--json", "-"))
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -c 10"], capture_output=True, text=True, cwd=ROOT, timeout=120, check=False
    )
    assert done.stdout == '{\n  "schem' and done.stderr == ""


# ----------------------------------------------------------------------------------------------------------- quantities
@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("2s", 2.0), ("1.5 min", 90.0), ("10us", 1e-5), (" 10 µs ", 1e-5)]
)
def test_durations_have_units(text: str, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["500", "ms", "-1s", "1h", "1e3ms", ""])
def test_durations_without_a_known_unit_are_refused(text: str) -> None:
    with pytest.raises(Exception, match="no duration"):
        duration(text)


def test_objectives_and_gates_are_parsed() -> None:
    assert Slo().convert(" ttft = 500ms, tpot=50ms", None, None) == {"ttft": 0.5, "tpot": 0.05}
    gate = GateType().convert("p99_ttft>=+50 ms", None, None)
    assert (gate.metric, gate.sign, gate.relative) == ("p99_ttft", ">=", False)
    assert gate.bound == pytest.approx(0.05)


# ---------------------------------------------------------------------------------------------------- check and goodput
def test_check_says_what_failed_first_and_leaves_the_status_alone(invoke: Invoke, runs: tuple[Path, Path]) -> None:
    status, out, _ = invoke("check", *runs)
    assert status == 0 and "60 rules" in out
    marks = re.findall(r"^(fail|unknown|pass)\b", out, re.M)
    assert marks == sorted(marks, key=("fail", "unknown", "pass").index) and "pass" not in marks
    everything = invoke("check", *runs, "-v")[1]
    assert len(re.findall(r"^(?:fail|unknown|pass|not applicable) ", everything, re.M)) == 60


def test_check_writes_a_document_of_its_schema(invoke: Invoke, runs: tuple[Path, Path]) -> None:
    status, out, _ = invoke("check", *runs, "--json", "-")
    document = json.loads(out)
    jsonschema.validate(document, json.loads(invoke("schema", "check")[1]))
    assert status == 0 and document["schema"] == "profiler.check/1" and len(document["fairness"]) == 60
    assert document["comparable"] is None and [run["name"] for run in document["runs"]] == ["run-A", "run-B"]
    assert invoke("check", *runs, "--markdown", "-")[1].startswith("### Is it fair?")


def test_check_exits_with_3_where_a_part_could_not_be_read(invoke: Invoke, runs: tuple[Path, Path]) -> None:
    trace = next(runs[1].rglob("*.json.gz"))
    trace.write_bytes(trace.read_bytes()[:-400])
    assert invoke("check", *runs)[0] == invoke("goodput", *runs)[0] == 3


def test_a_rule_that_fails_makes_the_pair_not_comparable(invoke: Invoke, runs: tuple[Path, Path]) -> None:
    told = json.loads((runs[1] / "bench.json").read_text())
    (runs[1] / "bench.json").write_text(json.dumps(told | {"max_concurrency": 9}))
    document = json.loads(invoke("check", *runs, "--json", "-")[1])
    assert document["comparable"] is False and "same_load failed" in document["headline"]
    assert json.loads(invoke("diagnose", *runs, "--json", "-")[1])["verdict"]["status"] == "not comparable"


def test_goodput_writes_every_kind_of_document(invoke: Invoke, runs: tuple[Path, Path], tmp_path: Path) -> None:
    bench(runs[0] / "c16" / "bench.json", 3.0)
    page = tmp_path / "curves.html"
    status, out, _ = invoke("goodput", *runs, "--slo", "ttft=500ms,tpot=3ms", "--html", page, "--json", "-")
    document = json.loads(out)
    jsonschema.validate(document, json.loads(invoke("schema", "goodput")[1]))
    assert status == 0 and document["slo"] == {"ttft": 0.5, "tpot": 0.003}
    assert document["runs"][0]["points"][0]["repeats"] == 2
    text = page.read_text("utf-8")
    assert text.count('data-figure="load-') >= 4 and "default-src 'none'" in text
    assert "#### At equal load" in invoke("goodput", *runs, "--markdown", "-")[1]
    printed = re.sub(r"\s+", " ", invoke("goodput", *runs)[1])
    assert "No SLO was given" in printed and "At equal load" in printed


def test_goodput_of_a_run_that_is_not_there_is_wrong_usage(invoke: Invoke) -> None:
    status, out, err = invoke("goodput", "nowhere")
    assert (status, out) == (2, "") and len(err.splitlines()) == 1
    assert invoke("goodput")[0] == 2


def test_a_diagnosis_in_chinese(invoke: Invoke, tmp_path: Path) -> None:
    runs = ROOT / "examples/runs/recorded-vllm-cpu"
    page, comment, document = tmp_path / "r.html", tmp_path / "r.md", tmp_path / "r.json"
    status, out, _ = invoke("diagnose", runs / "run-A", runs / "run-B", "--lang", "zh", "--html", page, "--markdown",
                            comment, "--json", document)  # fmt: skip
    assert status == 0
    assert "输出吞吐" in out and "实测差距" in out
    assert 'lang="zh-CN"' in page.read_text("utf-8")
    assert "#### 公平性" in comment.read_text("utf-8")
    assert "实测" not in document.read_text("utf-8")
    assert invoke("diagnose", runs / "run-A", runs / "run-B", "--lang", "fr")[0] == 2


REPORTING = {
    "bench", "check", "diagnose", "doctor", "flamegraph", "goodput", "inspect", "recommend", "record", "timeline", "watch",
    "whatif",
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_the_commands_that_report_on_runs_offer_a_language(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    offered = {option for parameter in command.params for option in parameter.opts}
    assert ("--lang" in offered) == (name in REPORTING)
