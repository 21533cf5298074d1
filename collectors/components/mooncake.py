"""Mooncake's master. Read off a live scrape of 0.3.13; the underscores at the ends of names are real.

The store holds KV blocks for several engines: its use is of its own memory, not of a GPU's.
"""

from __future__ import annotations

from typing import Final

from profiler.model.extension import Answer, Component

COMPONENT: Final = Component(
    name="mooncake",
    title="a Mooncake master",
    prefixes=("master_", "mem_cache_", "file_cache_", "ha_oplog_", "valid_get_nums_", "total_get_nums_"),
    answers=(
        Answer("kv_usage", "master_allocated_bytes", per="master_total_capacity_bytes"),
        Answer("hit_rate", "valid_get_nums_", per="total_get_nums_"),
        Answer("requests", "total_get_nums_"),
    ),
)
