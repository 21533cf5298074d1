"""What an engine's scheduler says about itself: metrics, logs, settings."""

from __future__ import annotations

from typing import Final

# Places, see profiler.store.formats.
FORMATS: Final = (
    "prometheus.FORMAT",
    "prometheus_query.FORMAT",
    "server_log.FORMAT",
    "server_info.FORMAT",
    "engine_load.FORMAT",
    "engine_config.FORMAT",
    "step_records.FORMAT",
    "forward_pass.FORMAT",
    "dynamo_requests.FORMAT",
)
