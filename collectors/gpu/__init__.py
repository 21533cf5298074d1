"""Device counters over time, one file a tool."""

from __future__ import annotations

from typing import Final

from profiler.collectors.gpu import nvidia_smi
from profiler.model.extension import Format

FORMATS: Final[tuple[Format, ...]] = (nvidia_smi.FORMAT,)
