"""What the ranges that were open at a capture say of replayed kernels: where their time went, and their role."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profiler.model.requests import Floats
from profiler.model.trace import EventTable, Trace

# Words in a module's name -> the role of kernels right under it. The first that matches counts, so what is part of
# another stands before it.
_ROLES: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), role)
    for pattern, role in (
        (r"rotary|rope", "rope"),
        (r"\b[qk]_?(layer)?norm", "qk_norm"),
        (r"norm", "norm"),
        (r"qkv|\b[qkv]_proj|query_key_value", "qkv"),
        (r"\bo_proj|\bout_proj", "out"),
        (r"router|\bgate\b", "router"),
        (r"experts|moe", "experts"),
        (r"mlp|ffn|feed_forward|gate_up|up_proj|down_proj", "mlp"),
        (r"lm_head|logits", "head"),
        (r"sampler|sampling", "sampling"),
        (r"embed", "embedding"),
        (r"attn|attention", "attention"),
    )
)
_NUMBER: Final = re.compile(r"(?<![A-Za-z\d])\d+(?![A-Za-z\d])")
BETWEEN: Final = " > "


def seconds_by_range(trace: Trace, events: EventTable, share: Floats) -> dict[str, float]:
    """Seconds of device time (of ``share`` ns) by the path of ranges that it was captured in, most first; layers of one
    spelling are taken together. Replayed work without a range is in none."""
    nodes, position = _nodes(trace, events)
    titles = [_NUMBER.sub("*", BETWEEN.join(trace.names[i] for i in trace.captured[node])) for node in nodes]
    amounts = np.bincount(position[position >= 0], share[position >= 0], minlength=len(nodes)) / 1e9
    found: dict[str, float] = {}
    for title, seconds in zip(titles, amounts.tolist(), strict=True):
        if seconds > 0:
            found[title] = found.get(title, 0.0) + seconds
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def roles_by_range(trace: Trace, events: EventTable, roles: Sequence[str]) -> NDArray[np.int64]:
    """For every event the index in ``roles`` that its capture's innermost telling range gives, -1 where none does."""
    nodes, position = _nodes(trace, events)
    codes = np.array([*(_role(trace, node, roles) for node in nodes), -1], np.int64)
    return codes[position]


def _nodes(trace: Trace, events: EventTable) -> tuple[list[int], NDArray[np.int64]]:
    """The nodes with ranges, and for every event its place among them, -1 for none."""
    nodes = np.array(sorted(trace.captured), np.int64)
    if not len(nodes):
        return [], np.full(len(events), -1, np.int64)
    at = np.minimum(np.searchsorted(nodes, events.graph_node), len(nodes) - 1)
    return nodes.tolist(), np.where(nodes[at] == events.graph_node, at, -1)


def _role(trace: Trace, node: int, roles: Sequence[str]) -> int:
    for index in reversed(trace.captured[node]):
        # A path like model.layers.3.self_attn.qkv_proj is told by its last part first.
        for part in reversed(re.split(r"[./:]", trace.names[index])):
            for pattern, role in _ROLES:
                if pattern.search(part):
                    return roles.index(role)
    return -1
