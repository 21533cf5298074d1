"""Ranks that are there twice or not at all, and clocks that can't be joined: said with their count, no number changed."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from profiler import open_run
from profiler.analyzers.device import accounts_of
from profiler.analyzers.inspection import inspect
from profiler.model.problem import Problem
from profiler.model.run import Run
from tests.strategies import KINETO, Built, document, event_texts, expected, rows_of, small_trace

EPOCH = 1_750_000_000_000_000_000
EVENTS = small_trace(1, 1)


def rank(
    folder: Path, number: int, base: int | None = EPOCH, world: int = 2, events: tuple[Built, ...] = EVENTS
) -> Path:
    """A trace that states its rank, its job's size, and a time base or none."""
    text = document(event_texts(events), base).decode()
    old, new = '"rank": 3, "world_size": 8', f'"rank": {number}, "world_size": {world}'
    assert old in text
    path = folder / f"r{number}-{len(list(folder.glob('*')))}.pt.trace.json"
    path.write_text(text.replace(old, new))
    return path


def said(folder: Path) -> list[tuple[str, int, str]]:
    run = open_run(folder)
    for trace in run.traces:
        assert [row[2:] for row in rows_of(trace)] == [row[2:] for row in expected(EVENTS)]
    problems: list[Problem] = [p for p in run.problems if p.place in ("distributedInfo", "baseTimeNanoseconds")]
    return [(p.severity, p.count, p.detail) for p in problems]


def test_all_ranks_on_one_clock_are_no_problem(tmp_path: Path) -> None:
    rank(tmp_path, 0)
    rank(tmp_path, 1, EPOCH + 5_000)
    assert said(tmp_path) == []


def test_a_trace_without_a_rank_is_no_problem(tmp_path: Path) -> None:
    text = document(event_texts(EVENTS), EPOCH).decode()
    old = json.dumps({"backend": "nccl", "rank": 3, "world_size": 8})
    assert old in text
    for name in ("a", "b"):
        (tmp_path / f"{name}.pt.trace.json").write_text(text.replace(f'"distributedInfo": {old}', '"x": {}'))
    assert said(tmp_path) == []


def test_missing_ranks_are_counted_and_named(tmp_path: Path) -> None:
    rank(tmp_path, 1, world=4)
    ((severity, count, detail),) = said(tmp_path)
    assert (severity, count) == ("info", 3) and "3 of 4 ranks" in detail and "rank 0, 2, 3" in detail


def test_a_copied_trace_is_a_warning(tmp_path: Path) -> None:
    shutil.copy(rank(tmp_path, 0, world=1), tmp_path / "copy.pt.trace.json")
    ((severity, count, detail),) = said(tmp_path)
    assert (severity, count) == ("warning", 1) and "once more" in detail and "not compared" in detail


def test_one_rank_of_two_jobs_at_once_is_said(tmp_path: Path) -> None:
    rank(tmp_path, 0, world=1)
    rank(tmp_path, 0, EPOCH + 1_000, world=1)
    ((severity, _, detail),) = said(tmp_path)
    assert severity == "info" and "two jobs" in detail


def test_two_passes_of_one_rank_one_after_the_other_are_no_problem(tmp_path: Path) -> None:
    rank(tmp_path, 0, world=1)
    rank(tmp_path, 0, EPOCH + 10**10, world=1)
    assert said(tmp_path) == []


def test_jobs_of_different_sizes_are_said(tmp_path: Path) -> None:
    rank(tmp_path, 0, world=2)
    rank(tmp_path, 1, world=4)
    ((severity, count, detail),) = said(tmp_path)
    assert (severity, count) == ("warning", 2) and "2, 4 ranks" in detail


@pytest.mark.parametrize(
    ("base", "words"),
    [(None, "1 of 2 ranks' traces state no time base"), (EPOCH + 10**12, "2 of 2 ranks' traces share")],
)
def test_clocks_that_cannot_be_joined_withhold_the_comparison(base: int | None, words: str, tmp_path: Path) -> None:
    rank(tmp_path, 0)
    rank(tmp_path, 1, base)
    ((severity, count, detail),) = said(tmp_path)
    assert severity == "warning" and count == int(words[0])
    assert words in detail and "ranks are not compared with each other" in detail


def test_what_a_rank_did_does_not_depend_on_the_other_ranks_clock(tmp_path: Path) -> None:
    accounts = []
    for base in (EPOCH, EPOCH + 10**12, None):
        folder = tmp_path / str(base)
        folder.mkdir()
        rank(folder, 0)
        rank(folder, 1, base)
        accounts.append([(a.busy_ns, a.window_ns) for t in open_run(folder).traces for a in accounts_of(t)])
    assert accounts[0] == accounts[1] == accounts[2]


def test_two_real_ranks_of_eight_share_their_clock(tmp_path: Path) -> None:
    paths = sorted(KINETO.glob("lightllm-ep8-*.gz"))
    if len(paths) != 2:
        pytest.skip("the corpus of real files is not on this machine")
    for path in paths:
        shutil.copy(path, tmp_path)
    run = open_run(tmp_path)
    (problem,) = [p for p in run.problems if p.place in ("distributedInfo", "baseTimeNanoseconds")]
    assert problem.count == 6 and problem.severity == "info"
    windows = [(t.base + int(t.events.start.min()), t.base + int(t.events.end.max())) for t in run.traces]
    assert np.subtract(*windows).max() < 10**9


def test_claims_across_ranks_are_withheld_where_a_rank_is_a_copy_or_its_clock_is_another(tmp_path: Path) -> None:
    paths = sorted(KINETO.glob("lightllm-ep8-*.gz"))
    if len(paths) != 2:
        pytest.skip("the corpus of real files is not on this machine")

    def waiting(run: Run) -> list[str]:
        return [f.name for f in inspect(run).figures if f.name.startswith("waiting for other ranks")]

    for path in paths:
        shutil.copy(path, tmp_path)
    run = open_run(tmp_path)
    first, second = run.traces
    assert len(waiting(run)) == 2
    assert waiting(replace(run, traces=(first, replace(second, base=second.base + 10**12)))) == []
    assert waiting(replace(run, traces=(first, replace(first, path="copy")))) == []
