"""A load balancer is told from a restart by what a process keeps, whatever the order and the number of scrapes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler import open_run
from profiler.analyzers.gap.measured import counters_of
from profiler.model.answering import STARTED, another, returned
from tests.strategies import CORPUS

NAMES = st.sampled_from(("sglang:startup_time_seconds", "vllm:cache_config_info", 'python_info{instance="a"}'))


def scraped(name: str, order: Sequence[int]) -> list[dict[str, str]]:
    """A scrape of each of these processes, which differ in one constant."""
    return [{name: f"{1.5 + at}", "python_info": "3.11"} for at in order]


@given(NAMES, st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_restarts_are_no_balancer(name: str, stays: list[int]) -> None:
    order = [process for process, scrapes in enumerate(stays) for _ in range(scrapes)]
    assert returned(scraped(name, order)) is None


@given(NAMES, st.lists(st.integers(0, 3), max_size=12))
def test_a_process_that_comes_back_is_seen_and_nothing_else_is(name: str, order: list[int]) -> None:
    """Come back: met again after another one."""
    changes = [one for at, one in enumerate(order) if at == 0 or order[at - 1] != one]
    assert returned(scraped(name, order)) == (name if len(set(changes)) < len(changes) else None)


@given(st.lists(st.integers(0, 3), min_size=2, max_size=12))
def test_a_start_that_lies_before_the_last_one_is_seen_at_once(order: list[int]) -> None:
    """By the time of the start one step back is enough: what replaces a process begins after it."""
    scrapes = [{STARTED: str(1.79e9 + 60.25 * at)} for at in order]
    falls = any(later < earlier for earlier, later in pairwise(order))
    assert returned(scrapes) == (STARTED if falls else None)


@given(st.lists(st.integers(-1, 1), min_size=2, max_size=12))
def test_a_clock_that_is_set_makes_no_other_process(order: list[int]) -> None:
    """Some clients add the boot time anew, which whole seconds come and go in."""
    scrapes = [{STARTED: str(1796013640.01 + one)} for one in order]
    assert returned(scrapes) is None and not another(scrapes[0], scrapes[-1])


@given(NAMES, st.lists(st.booleans(), min_size=3, max_size=12))
def test_a_scrape_that_says_nothing_changes_nothing(name: str, there: list[bool]) -> None:
    one = scraped(name, [0])[0]
    assert returned([one if here else {} for here in there]) is None


def metrics(tmp_path: Path, *pages: str) -> Path:
    (tmp_path / "metrics").mkdir()
    for at, page in enumerate(pages):
        (tmp_path / "metrics" / f"{at * 1000:07d}.prom").write_text(page)
    return tmp_path


def page(name: str, start: int) -> str:
    """A scrape of the corpus of each engine's own start."""
    return (CORPUS / "own/vllm-vs-sglang" / f"{name}-{start}" / "c16" / "after.prom").read_text()


@pytest.mark.usefixtures("corpus")
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize(("order", "known"), [((1, 2), True), ((1, 1, 2, 2), True), ((1, 2, 1), False)])
def test_a_recorded_run_is_read_with_its_restart_and_without_its_balancer(
    engine: str, order: tuple[int, ...], known: bool, tmp_path: Path
) -> None:
    run = open_run(metrics(tmp_path, *(page(engine, start) for start in order)))
    assert len(run.snapshots) == (len(order) if known else 0)
    assert bool(counters_of(run.snapshots, None)[0]) == known
    said = [problem for problem in run.problems if "several processes answer in turns" in problem.detail]
    assert [(one.file, one.severity, one.count) for one in said] == ([] if known else [("metrics", "error", 3)])
    assert all("--url" in one.detail for one in said)


@pytest.mark.usefixtures("corpus")
def test_one_worker_behind_a_balancer_spoils_no_other(tmp_path: Path) -> None:
    for folder, order in (("worker-0", (1, 2, 1)), ("worker-1", (1, 1, 1))):
        (tmp_path / folder).mkdir()
        metrics(tmp_path / folder, *(page("vllm", start) for start in order))
        for file in sorted((tmp_path / folder / "metrics").iterdir()):
            file.rename(tmp_path / folder / file.name)
    run = open_run(tmp_path)
    assert {Path(one.path).parent.name for one in run.snapshots} == {"worker-1"}
