"""The built-in formats and engines, and those that other packages add through entry points."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from profiler.collectors import kubernetes, manifest, recognised
from profiler.collectors.engines import ENGINES
from profiler.collectors.gpu import FORMATS as GPU_FORMATS
from profiler.collectors.host import FORMATS as HOST_FORMATS
from profiler.collectors.load import FORMATS as LOAD_FORMATS
from profiler.collectors.nsys import FORMATS as NSYS_FORMATS
from profiler.collectors.perfetto import FORMATS as PERFETTO_FORMATS
from profiler.collectors.redacted_reading import redacted as redacted
from profiler.collectors.rocprof import FORMATS as ROCPROF_FORMATS
from profiler.collectors.scheduler import FORMATS as SCHEDULER_FORMATS
from profiler.collectors.torch_trace import FORMATS as TRACE_FORMATS
from profiler.collectors.trace_labels import label
from profiler.model.extension import Engine, Format
from profiler.model.run import Reading

FORMATS: Final[tuple[Format, ...]] = (
    *TRACE_FORMATS,
    *NSYS_FORMATS,
    *ROCPROF_FORMATS,
    *PERFETTO_FORMATS,
    *LOAD_FORMATS,
    *SCHEDULER_FORMATS,
    *GPU_FORMATS,
    *HOST_FORMATS,
    *manifest.FORMATS,
    *kubernetes.FORMATS,
    *recognised.FORMATS,
)


def formats() -> tuple[Format, ...]:
    """Built-in formats, then those of the entry-point group ``profiler.formats``."""
    return (*FORMATS, *_added("profiler.formats"))


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
