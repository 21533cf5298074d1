"""The built-in formats and engines, and those that other packages add through entry points."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from profiler.collectors import gpu, host, load, nsys, perfetto, rocprof, scheduler, torch_trace
from profiler.collectors.engines import ENGINES
from profiler.collectors.redacted_reading import redacted as redacted
from profiler.collectors.trace_labels import label
from profiler.model.extension import Engine
from profiler.model.run import Reading
from profiler.store.code import code_of
from profiler.store.formats import Formats

# In this order: of formats that are equally sure of a file the first reads it.
_ROOMS: Final = (torch_trace, nsys, rocprof, perfetto, load, scheduler, gpu, host)
PLACES: Final[tuple[str, ...]] = (
    *(f"{room.__name__}.{place}" for room in _ROOMS for place in room.FORMATS),
    "profiler.collectors.manifest.FORMATS",
    "profiler.collectors.kubernetes.FORMATS",
    "profiler.collectors.recognised.FORMATS",
)
# All that decides what a file is taken for.
_DECIDING: Final = ("profiler.registry", "profiler.collectors", "profiler.store", "profiler.model")


def formats() -> Formats:
    """Built-in formats, then those of the entry-point group ``profiler.formats``."""
    return Formats(PLACES, _added("profiler.formats"), partial(code_of, *_DECIDING))


def engines() -> tuple[Engine, ...]:
    """Built-in engines, then those of the entry-point group ``profiler.engines``."""
    return (*ENGINES, *_added("profiler.engines"))


def relabelled(reading: Reading, known: Sequence[Engine]) -> Reading:
    """A reading from the cache with the engines' reading of its names restored."""
    return replace(reading, traces=tuple(label(trace, known) for trace in reading.traces))


def _added(group: str) -> list[Any]:
    """What other packages registered. The import system's own reader of entry points takes longer to load than a cached
    trace takes to read, so it is asked only where a file on the path names the group (or the path holds an archive).
    """
    if not any(_may_name(Path(place or "."), group.encode()) for place in sys.path):
        return []
    from importlib.metadata import entry_points

    return [entry.load() for entry in entry_points(group=group)]


def _may_name(place: Path, group: bytes) -> bool:
    try:
        if not place.is_dir():
            return place.is_file()
        packages = [entry for entry in place.iterdir() if entry.name.endswith((".dist-info", ".egg-info"))]
        declared = [entry / "entry_points.txt" for entry in packages]
        return any(group in file.read_bytes() for file in declared if file.is_file())
    except OSError:
        return True
