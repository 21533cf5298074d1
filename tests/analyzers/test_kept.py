"""What is kept of traces is what would be made of them; a second diagnosis or inspection makes nothing of it again."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from profiler import open_run
from profiler.analyzers import device, device_view, joined_path, kept, traced_pair, typical_steps
from profiler.analyzers import kept_diagnosis as kept_diagnosis_module
from profiler.analyzers.device import accounts_of
from profiler.analyzers.device_view import DeviceView
from profiler.analyzers.diagnosis import diagnose
from profiler.analyzers.inspection import inspect
from profiler.analyzers.kept import kept_accounts, kept_checks, kept_lost_kernels
from profiler.analyzers.kept_diagnosis import kept_diagnosis
from profiler.analyzers.trust import checks_of, lost_kernels
from profiler.model.diagnosis import Diagnosis
from profiler.model.trace import Trace
from profiler.store import opening
from tests.conftest import Lab
from tests.store.test_opening import assert_same
from tests.strategies import KINETO, each_trace, reading_of

RANKS = [KINETO / f"lightllm-ep8-decode-h200-rank{rank}.pt.trace.json.gz" for rank in (0, 1)]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each trace's views were built, and by name what else was made."""
    monkeypatch.setattr(opening, "CACHED_FROM", 0)
    found: Counter[str] = Counter()

    def counting(trace: Trace) -> tuple[DeviceView, ...]:
        found[trace.path] += 1
        return views_of(trace)

    views_of = device_view.views_of
    for module in (device, device_view, joined_path, kept, traced_pair, typical_steps):
        monkeypatch.setattr(module, "views_of", counting)
    for name in ("accounts_of", "checks_of", "lost_kernels", "joined"):
        made = getattr(kept, name)
        monkeypatch.setattr(kept, name, lambda *args, made=made, name=name: (found.update([name]), made(*args))[1])
    return found


@pytest.mark.parametrize("path", each_trace())
def test_what_is_kept_of_a_real_trace_is_what_it_was(path: Path, tmp_path: Path) -> None:
    trace = replace(reading_of(path).traces[0], kept=tmp_path / "x")
    for keep, make in ((kept_accounts, accounts_of), (kept_checks, checks_of), (kept_lost_kernels, lost_kernels)):
        made = make(trace)
        assert_same(keep(trace), made)
        before = sorted(file.name for file in tmp_path.iterdir())
        assert_same(keep(trace), made)
        assert sorted(file.name for file in tmp_path.iterdir()) == before
    assert len(list(tmp_path.iterdir())) == 3


def test_a_second_diagnosis_looks_at_no_trace(lab: Lab, tmp_path: Path, built: Counter[str]) -> None:
    pair = lab("graphs-off")
    runs = [Path(shutil.copytree(run.path, tmp_path / name)) for run, name in ((pair.a, "run-A"), (pair.b, "run-B"))]
    first = diagnose(*map(open_run, map(str, runs)))
    traces = len({trace.path for trace in pair.a.traces})
    assert {name for name in built if name.startswith("trace/")} == {trace.path for trace in pair.a.traces}
    assert max(built[trace.path] for trace in pair.a.traces) == 2  # once in each run
    assert built["accounts_of"] == 2 * traces and built["lost_kernels"] == 2
    built.clear()
    assert diagnose(*map(open_run, map(str, runs))) == first
    assert not built
    for trace in runs[1].rglob("*.json.gz"):
        trace.touch()
    assert diagnose(*map(open_run, map(str, runs))) == first
    assert built["accounts_of"] == traces and built["lost_kernels"] == 1
    # The pair is another, so the steps that it shows are chosen anew: that looks at one device of each run.
    assert sorted(built[trace.path] for trace in pair.a.traces)[-1] == 2


def test_a_diagnosis_in_another_form_is_not_made_again(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "CACHED_FROM", 0)
    pair = lab("graphs-off")
    folders = [Path(shutil.copytree(run.path, tmp_path / name)) for run, name in ((pair.a, "run-A"), (pair.b, "run-B"))]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    for path in files:
        os.utime(path, ns=(0, path.stat().st_mtime_ns - 10**10))
    made: list[tuple[str, ...]] = []

    def counting(*args: Any) -> Diagnosis:
        made.append(args[2])
        return diagnose(*args)

    monkeypatch.setattr(kept_diagnosis_module, "diagnose", counting)

    def asked(*metrics: str, slo: dict[str, float] | None = None) -> Diagnosis:
        return kept_diagnosis(*map(open_run, folders), metrics, slo)

    first = asked("mean_tpot")
    assert asked("mean_tpot") == first == diagnose(*map(open_run, folders), ("mean_tpot",))
    assert made == [("mean_tpot",)]
    assert asked("mean_tpot", slo={"ttft": 0.1}) != first
    assert [gap.metric for gap in asked("mean_ttft").gaps] == ["mean_ttft"]
    assert len(made) == 3
    asked("mean_ttft")
    assert len(made) == 3
    os.utime(folders[1] / "bench.json", ns=(0, files[0].stat().st_mtime_ns - 10**9))
    asked("mean_ttft")
    assert len(made) == 4
    # A file of this moment can still change without a trace in its time and size.
    (folders[0] / "bench.json").touch()
    asked("mean_ttft")
    asked("mean_ttft")
    assert len(made) == 6


def test_a_second_inspection_of_ranks_looks_at_no_trace(tmp_path: Path, built: Counter[str]) -> None:
    if not all(file.is_file() for file in RANKS):
        pytest.skip("the corpus of real files is not on this machine")
    for file in RANKS:
        (tmp_path / file.name).symlink_to(file)
    first = inspect(open_run(tmp_path))
    assert {name: built[name] for name in built} == {
        **{file.name: 1 for file in RANKS},
        "accounts_of": 2,
        "checks_of": 2,
        "joined": 1,
    }
    assert any(figure.source == "all traces joined" for figure in first.figures)
    built.clear()
    assert inspect(open_run(tmp_path)) == first
    assert not built
