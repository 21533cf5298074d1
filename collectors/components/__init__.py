"""The programs beside the engines whose metrics are known (front ends, routers, caches), one file each."""

from __future__ import annotations

from typing import Final

from profiler.collectors.components import dynamo, gateway, kserve, llmd, lmcache, mooncake, stack_router, triton
from profiler.model.extension import Component

COMPONENTS: Final[tuple[Component, ...]] = (
    dynamo.COMPONENT,
    llmd.COMPONENT,
    mooncake.COMPONENT,
    lmcache.COMPONENT,
    triton.COMPONENT,
    kserve.COMPONENT,
    gateway.COMPONENT,
    stack_router.COMPONENT,
)
