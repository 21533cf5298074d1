"""The built-in formats and engines, and those that other packages add through entry points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import entry_points
from typing import Final

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
    return (*FORMATS, *(entry.load() for entry in entry_points(group="profiler.formats")))


def engines() -> tuple[Engine, ...]:
    """Built-in engines, then those of the entry-point group ``profiler.engines``."""
    return (*ENGINES, *(entry.load() for entry in entry_points(group="profiler.engines")))


def relabelled(reading: Reading, known: Sequence[Engine]) -> Reading:
    """A reading from the cache with the engines' reading of its names restored."""
    return replace(reading, traces=tuple(label(trace, known) for trace in reading.traces))
