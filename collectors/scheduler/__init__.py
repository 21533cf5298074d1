"""What an engine's scheduler says about itself: metrics, logs, settings."""

from __future__ import annotations

from typing import Final

from profiler.collectors.scheduler import prometheus, server_info, server_log
from profiler.model.extension import Format

FORMATS: Final[tuple[Format, ...]] = (prometheus.FORMAT, server_log.FORMAT, server_info.FORMAT)
