"""Where the real files lie, and how one is read the way the product reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from profiler import registry
from profiler.collectors.engines import ENGINES
from profiler.collectors.torch_trace.reader import FORMAT as TRACE
from profiler.model.extension import Format
from profiler.model.run import Reading
from profiler.store.source import FileSource

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "tests" / "samples"
# The rooms with files of their own tests; traces of the torch profiler have theirs elsewhere.
ALL: tuple[Format, ...] = tuple(one for one in registry.formats() if one.name != TRACE.name)
Read = Callable[[Path], tuple[str, Reading]]


def read_file(path: Path) -> tuple[str, Reading]:
    """The winning format's name and its reading."""
    source = FileSource(path)
    head = source.head()
    best = max(ALL, key=lambda one: one.sniff(head, source.name))
    return best.name, best.read(source, ENGINES)


@pytest.fixture
def read() -> Read:
    return read_file


@pytest.fixture
def formats() -> tuple[Format, ...]:
    return ALL


@pytest.fixture
def samples() -> Path:
    return SAMPLES


@pytest.fixture
def corpus() -> Path:
    found = ROOT.parent / "shared" / "corpus"
    if not found.is_dir():
        pytest.skip("the corpus of real files is not on this machine")
    return found
