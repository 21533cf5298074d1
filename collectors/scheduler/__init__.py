"""What an engine's scheduler says about itself: metrics, logs, settings."""

from __future__ import annotations

from typing import Final

from profiler.collectors.scheduler import (
    dynamo_requests,
    engine_config,
    engine_load,
    forward_pass,
    prometheus,
    prometheus_query,
    server_info,
    server_log,
    step_records,
)
from profiler.model.extension import Format

FORMATS: Final[tuple[Format, ...]] = (
    prometheus.FORMAT,
    prometheus_query.FORMAT,
    server_log.FORMAT,
    server_info.FORMAT,
    engine_load.FORMAT,
    engine_config.FORMAT,
    step_records.FORMAT,
    forward_pass.FORMAT,
    dynamo_requests.FORMAT,
)
