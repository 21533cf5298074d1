"""The model gateway (router) with metrics ``smg_…``. Read off a live scrape of 0.3.2 and its source.

Series appear only after first use; those of tokens exist only in gRPC mode. Over HTTP the duration of a streamed
request ends at its headers, so none is taken.
"""

from __future__ import annotations

import re
from typing import Final

from profiler.collectors.json_text import mapping, string
from profiler.model.extension import Answer, Component
from profiler.model.live import Ask, Identity

_RANK: Final = re.compile(r"@\d+$")


def identify(ask: Ask) -> Identity | None:
    """By ``/workers``, which lists every server with its address; with data parallelism it may list a server once for
    each of its ranks (``http://host:8000@1``)."""
    answer = ask("/workers").fields
    workers = answer.get("workers")
    if not isinstance(workers, list) or "stats" not in answer:
        return None
    urls = (string(mapping(one).get("url")) for one in workers)
    return Identity(workers=tuple(dict.fromkeys(_RANK.sub("", url) for url in urls if url)))


COMPONENT: Final = Component(
    name="gateway",
    title="a model gateway (router)",
    prefixes=("smg_",),
    answers=(
        Answer("running_requests", "smg_worker_requests_active"),
        Answer("running_requests", "smg_engine_running_requests"),
        Answer("waiting_requests", "smg_engine_waiting_requests"),
        Answer("kv_usage", "smg_engine_token_usage", average=True),
        Answer("hit_rate", "smg_engine_cache_hit_rate", average=True),
        Answer("requests", "smg_router_requests_total"),
        Answer("ttft_seconds", "smg_router_ttft_seconds_sum", per="smg_router_ttft_seconds_count"),
    ),
    identify=identify,
)
