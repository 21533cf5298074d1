"""CUDA graphs of a computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Tensor = Any
# A computation that fills its answer's tensor again at each call, the same way.
Replay = Callable[[], None]
Capture = Callable[[Callable[[], Tensor]], tuple[Replay, Tensor]]


def captured(compute: Callable[[], Tensor]) -> tuple[Replay, Tensor]:
    """A CUDA graph of a computation."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(aside):
        compute()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        answer = compute()
    return graph.replay, answer
