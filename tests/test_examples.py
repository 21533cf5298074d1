"""The pairs that ship: they are what their generator writes, and their diagnosis says what is known to be true."""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from pathlib import Path

import pytest

from profiler import registry
from profiler.analyzers.diagnosis import diagnose
from profiler.examples import generate_gpu_pair
from profiler.model.diagnosis import Diagnosis
from profiler.store.opening import open_run

RUNS = Path(__file__).parent.parent / "examples" / "runs"
PAIRS = ("recorded-vllm-cpu", "simulated-gpu")
NUMBER = re.compile(r"-?\d+\.\d+(?:[eE][-+]?\d+)?")


def diagnosed_at(folder: Path) -> Diagnosis:
    a, b = (
        open_run(folder / name, registry.formats(), registry.engines(), registry.relabelled, registry.redacted)
        for name in ("run-A", "run-B")
    )
    return diagnose(a, b)


@cache
def diagnosed(pair: str) -> Diagnosis:
    return diagnosed_at(RUNS / pair)


def files_of(folder: Path) -> list[Path]:
    return sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file() and ".profiler" not in p.parts)


def text_of(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


def assert_equal_by_value(ours: str, shipped: str, where: Path) -> None:
    """Equal texts, but for the last digits of numbers with a decimal point."""
    if ours == shipped:
        return
    assert NUMBER.sub("#", ours) == NUMBER.sub("#", shipped), where
    numbers = [[float(n) for n in NUMBER.findall(text)] for text in (ours, shipped)]
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-6, abs=2e-3), where


def test_only_the_two_pairs_ship() -> None:
    assert tuple(sorted(p.name for p in RUNS.iterdir())) == PAIRS
    for pair in PAIRS:
        assert sorted(p.name for p in (RUNS / pair).iterdir()) == ["about.txt", "run-A", "run-B"]


def test_the_simulated_pair_is_what_its_generator_writes(tmp_path: Path) -> None:
    generate_gpu_pair.main(tmp_path)
    for name in ("run-A", "run-B"):
        shipped = RUNS / "simulated-gpu" / name
        assert files_of(tmp_path / name) == files_of(shipped)
        for file in files_of(shipped):
            assert_equal_by_value(text_of(tmp_path / name / file), text_of(shipped / file), file)


@pytest.mark.parametrize(("pair", "most"), [("recorded-vllm-cpu", 300_000), ("simulated-gpu", 700_000)])
def test_the_pairs_stay_small(pair: str, most: int) -> None:
    assert sum((RUNS / pair / file).stat().st_size for file in files_of(RUNS / pair)) <= most


@pytest.mark.parametrize(
    ("pair", "first"), [("recorded-vllm-cpu", "batching"), ("simulated-gpu", "cuda_graph")], ids=PAIRS
)
def test_the_planted_cause_comes_first_and_the_rows_add_up(pair: str, first: str) -> None:
    document = diagnosed(pair)
    assert (document.verdict.status, document.verdict.winner) == ("winner", "a")
    gap = next(g for g in document.gaps if g.metric == "output_throughput")
    assert gap.gap < 0
    assert gap.causes[0].cause == first
    assert gap.causes[0].interval is not None
    assert gap.causes[0].interval[1] < 0, "the interval of the first cause holds zero"
    for one in document.gaps:
        assert sum(c.gap for c in one.causes) + one.unexplained.gap == pytest.approx(one.gap, rel=1e-9, abs=1e-12)


def test_the_planted_cause_comes_first_where_launches_are_only_a_little_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 7 µs a launch instead of 11, and 4 µs until its kernel can start instead of 2.
    monkeypatch.setattr(generate_gpu_pair, "DISPATCH", 4.0)
    monkeypatch.setattr(generate_gpu_pair, "LATENCY", 4.0)
    generate_gpu_pair.main(tmp_path)
    gap = next(g for g in diagnosed_at(tmp_path).gaps if g.metric == "output_throughput")
    assert gap.causes[0].cause == "cuda_graph"


def test_only_the_simulated_pair_is_labelled_so() -> None:
    for pair in PAIRS:
        document = diagnosed(pair)
        assert all(run.simulated == (pair == "simulated-gpu") for run in document.runs)
        assert ("Simulated" in (RUNS / pair / "about.txt").read_text("utf-8")) == (pair == "simulated-gpu")
    assert "simulated" in diagnosed("simulated-gpu").verdict.text


@pytest.mark.parametrize("pair", PAIRS)
def test_the_pairs_are_read_without_an_error(pair: str) -> None:
    assert [p for p in diagnosed(pair).problems if p.severity == "error"] == []


def test_the_recording_holds_the_commands_that_differ_only_in_the_limit() -> None:
    words = []
    for name in ("run-A", "run-B"):
        line = (RUNS / "recorded-vllm-cpu" / name / "server-command.txt").read_text("utf-8").splitlines()[-1].split()
        # The port and the profiler's own settings (the profiler was off during the load) differ too.
        ignored = {line.index("--port") + 1, line.index("--profiler-config") + 1}
        words.append([word for position, word in enumerate(line) if position not in ignored])
    different = [pair for pair in zip(*words, strict=True) if pair[0] != pair[1]]
    assert different == [("16", "2")]


@pytest.mark.parametrize("pair", PAIRS)
def test_no_run_names_a_person_or_a_secret(pair: str) -> None:
    secret = re.compile(r"/home/(?!user/)\w+|/Users/\w|hf_[A-Za-z0-9]{20}|sk-[A-Za-z0-9]{20}|api[_-]?key\W+\w{8}", re.I)
    for file in files_of(RUNS / pair):
        assert secret.search(text_of(RUNS / pair / file)) is None, file


@pytest.mark.parametrize("name", ["run-A", "run-B"])
def test_a_graph_shares_one_correlation_and_eager_kernels_have_their_own(name: str) -> None:
    path = RUNS / "simulated-gpu" / name / "trace" / "rank0.pt.trace.json.gz"
    events = json.loads(text_of(path))["traceEvents"]
    kernels = [e["args"]["correlation"] for e in events if e["cat"] == "kernel"]
    graphs = {e["args"]["correlation"] for e in events if e["name"] == "cudaGraphLaunch"}
    assert bool(graphs) == (name == "run-A")
    for correlation in graphs:
        assert kernels.count(correlation) == len(generate_gpu_pair.BODY)
    eager = [c for c in kernels if c not in graphs]
    assert len(set(eager)) == len(eager)
