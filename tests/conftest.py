"""What all tests share: a cache folder of their own, the corpus, and pairs of runs whose causes are known."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from profiler import open_run
from profiler.analyzers.diagnosis import diagnose
from profiler.model.diagnosis import Diagnosis
from profiler.model.run import Run
from tests.strategies import CORPUS, LAB


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Runs that can't be written to are cached under the tests' own folder, never under the user's."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The real files."""
    if not CORPUS.is_dir():
        pytest.skip("the corpus of real files is not on this machine")
    return CORPUS


@dataclass(frozen=True)
class Pair:
    """Two opened runs of the lab."""

    a: Run
    b: Run

    @property
    def forward(self) -> Diagnosis:
        """B against A."""
        return _diagnosed(self.a.path, self.b.path)

    @property
    def backward(self) -> Diagnosis:
        """A against B."""
        return _diagnosed(self.b.path, self.a.path)


Lab = Callable[..., Pair]


@cache
def _opened(path: str) -> Run:
    return open_run(path)


@cache
def _diagnosed(a: str, b: str) -> Diagnosis:
    return diagnose(_opened(a), _opened(b))


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """``lab("graphs-off")`` or ``lab("null", seed=1)``: simulated once a session, opened once."""
    if not LAB.is_file():
        pytest.skip("the lab is not on this machine")
    folder = tmp_path_factory.mktemp("lab")

    @cache
    def pair(name: str, seed: int = 0) -> Pair:
        out = folder / f"{name}-{seed}"
        command = [sys.executable, str(LAB), "case", name, str(out), "--seed", str(seed)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        return Pair(_opened(str(out / "run-A")), _opened(str(out / "run-B")))

    return pair
