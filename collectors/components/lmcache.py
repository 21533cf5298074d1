"""LMCache in the engine's process. Read off its source at 0.5.6.

``retrieve_hit_rate`` is of the time since the last log line; the counters of tokens are of the whole run, so these are
taken. Tokens that the engine's own prefix cache held are not asked for and count in neither.
"""

from __future__ import annotations

from typing import Final

from profiler.model.extension import Answer, Component

COMPONENT: Final = Component(
    name="lmcache",
    title="LMCache",
    prefixes=("lmcache:", "lmcache_"),
    answers=(
        Answer("hit_rate", "lmcache:num_hit_tokens_total", per="lmcache:num_requested_tokens_total"),
        Answer("hit_rate", "lmcache_mp_lookup_hit_total", per="lmcache_mp_lookup_requested_total"),
        Answer("requests", "lmcache:num_retrieve_requests_total"),
        Answer("requests", "lmcache_mp_lookups_total"),
    ),
)
