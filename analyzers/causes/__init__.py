"""The causes of a gap, one file each: what it is, the evidence it needs, what its row says."""

from __future__ import annotations

from typing import Final

from profiler.analyzers.causes import (
    batching,
    communication,
    cuda_graph,
    frontend,
    hardware,
    kernel,
    memory,
    scheduling,
    speculation,
    workload,
)
from profiler.analyzers.causes.kind import CauseKind

CAUSES: Final[tuple[CauseKind, ...]] = (
    kernel.CAUSE,
    cuda_graph.CAUSE,
    scheduling.CAUSE,
    batching.CAUSE,
    communication.CAUSE,
    memory.CAUSE,
    speculation.CAUSE,
    frontend.CAUSE,
    hardware.CAUSE,
    workload.CAUSE,
)
