"""How near each role's kernels are to what the device could do: bytes and operations from the model's shape and the
batch, against the peaks of the data sheet.

The bytes are the least that must move (every weight once, every cached key and value once), the operations those of
the mathematics; so a share of 1 can't be exceeded by honest kernels, and a share far below 1 is headroom. Peaks come
from ``devices.tsv``; nothing is claimed for a device that is not in it, or a model whose shape is not known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from profiler.model.fact import Fact
from profiler.model.steps import StepLabel

# Bytes of one weight or cached value by the name of its type, as engines spell them.
_BYTES: Final = {
    "float32": 4.0, "float": 4.0, "bfloat16": 2.0, "float16": 2.0, "half": 2.0, "fp8": 1.0, "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0, "int8": 1.0, "awq": 0.5, "gptq": 0.5, "int4": 0.5, "nvfp4": 0.5625, "mxfp4": 0.53125,
}  # fmt: skip
# Real kernels rarely pass nine tenths of a data sheet's peak: from here on little is left to gain.
AT_LIMIT: Final = 0.85


@dataclass(frozen=True)
class Device:
    """Peaks of one device: bytes/s of its memory, dense operations/s by the width of the operands."""

    name: str
    memory: float
    bf16: float
    fp8: float | None
    fp4: float | None
    source: str

    def operations(self, weight_bytes: float) -> float:
        """Peak operations/s for weights of this many bytes each; weight-only formats compute in bf16."""
        return self.fp8 if weight_bytes == 1.0 and self.fp8 is not None else self.bf16


@dataclass(frozen=True)
class Shape:
    """A decoder's dimensions. ``experts`` 0 for a dense model; ``intermediate`` is that of one expert there.
    ``weight_bytes`` and ``cache_bytes`` are bytes a value."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    experts: int
    experts_per_token: int
    weight_bytes: float
    cache_bytes: float


@dataclass(frozen=True)
class Demand:
    """What one step asks of one role, for one rank: bytes to move and operations to do."""

    bytes: float
    operations: float


@dataclass(frozen=True)
class Roof:
    """One role in the steps of a trace. ``share`` is the least time that the device could take over the time taken;
    ``bound`` what that least time is made of."""

    role: str
    seconds: float
    floor: float
    bound: str

    @property
    def share(self) -> float | None:
        """0 to 1; None where no time was taken."""
        return self.floor / self.seconds if self.seconds > 0 else None

    @property
    def at_limit(self) -> bool:
        """Whether little is left to gain on this device."""
        return self.share is not None and self.share >= AT_LIMIT


@cache
def _devices() -> tuple[tuple[re.Pattern[str], Device], ...]:
    lines = (files(__package__) / "devices.tsv").read_text("utf-8").splitlines()[1:]
    found = []
    for line in lines:
        pattern, name, memory, bf16, fp8, fp4, source = line.split("\t")
        peaks = (float(fp8) if fp8 else None, float(fp4) if fp4 else None)
        found.append((re.compile(pattern, re.I), Device(name, float(memory), float(bf16), *peaks, source)))
    return tuple(found)


def device_of(name: str | None) -> Device | None:
    """The device that a trace or a tool calls ``name``, or None."""
    return next((device for pattern, device in _devices() if name and pattern.search(name)), None)


def shape_of(facts: Mapping[str, Fact[object]]) -> Shape | None:
    """The model's shape from the ``model.…`` facts of a run; None where one of its dimensions is not stated."""

    def whole(key: str) -> int | None:
        fact = facts.get(f"model.{key}")
        value = None if fact is None else fact.value
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

    hidden, head_dim, heads = whole("hidden_size"), whole("head_dim"), whole("num_heads")
    if hidden is None or (head_dim is None and heads is None):
        return None
    # The head dimension is the hidden size over the heads unless the configuration says otherwise.
    head_dim = head_dim or hidden // (heads or 1)
    heads = heads or hidden // head_dim
    experts = whole("num_experts") or 0
    intermediate = whole("moe_intermediate_size") if experts else None
    intermediate = intermediate or whole("intermediate_size")
    layers, vocabulary = whole("num_layers"), whole("vocab_size")
    if layers is None or vocabulary is None or intermediate is None or not heads:
        return None
    weight = (
        _bytes(facts, "setting.quantization") or _bytes(facts, "model.quantization") or _bytes(facts, "model.dtype")
    )
    weight = weight or _bytes(facts, "setting.dtype")
    if weight is None:
        return None
    compute = _bytes(facts, "model.dtype") or 2.0
    return Shape(
        layers, hidden, heads, whole("num_kv_heads") or heads, head_dim, intermediate, vocabulary,
        experts, whole("experts_per_token") or 0, weight, _bytes(facts, "setting.kv_cache_dtype") or compute,
    )  # fmt: skip


def _bytes(facts: Mapping[str, Fact[object]], key: str) -> float | None:
    fact = facts.get(key)
    return None if fact is None else _BYTES.get(str(fact.value).removeprefix("torch.").lower())


def demands(shape: Shape, label: StepLabel, ranks: int) -> dict[str, Demand]:
    """What a step of this composition asks of each role on one of ``ranks`` tensor-parallel ranks.

    Attention is left out where the annotation does not state the summed context. Per layer and token a projection of
    n weights costs 2 n operations; a cached token costs 4 * heads * head_dim of them (scores and values).
    """
    prefill, decode = label.prefill_tokens or 0, label.decode_tokens or label.decode_requests or 0
    tokens, rows = prefill + decode, (label.prefill_requests or 0) + (label.decode_requests or 0)
    if not tokens and label.tokens:
        tokens, rows = label.tokens, label.requests or label.tokens
    if not tokens:
        return {}
    s = shape
    width = s.heads * s.head_dim
    found = {
        "qkv": _product(s, s.hidden * (width + 2 * s.kv_heads * s.head_dim), tokens, ranks, s.layers),
        "out": _product(s, s.hidden * width, tokens, ranks, s.layers),
        "head": _product(s, s.hidden * s.vocabulary, rows, ranks, 1),
    }
    expert = 3 * s.hidden * s.intermediate
    if s.experts:
        # Tokens choose their experts as if at random: those that at least one chose must be read.
        touched = s.experts * (1 - (1 - s.experts_per_token / s.experts) ** tokens)
        moved = touched * expert * s.weight_bytes * s.layers / ranks
        found["experts"] = Demand(moved, 2.0 * tokens * s.experts_per_token * expert * s.layers / ranks)
    else:
        found["mlp"] = _product(s, expert, tokens, ranks, s.layers)
    attention = _attention(s, label, ranks)
    return found if attention is None else {**found, "attention": attention}


def _product(shape: Shape, weights: int, rows: int, ranks: int, layers: int) -> Demand:
    return Demand(weights * shape.weight_bytes * layers / ranks, 2.0 * rows * weights * layers / ranks)


def _attention(shape: Shape, label: StepLabel, ranks: int) -> Demand | None:
    if label.decode_requests and label.decode_context is None:
        return None
    if label.prefill_requests and label.prefill_context is None:
        return None
    decode, prefill = label.decode_context or 0, label.prefill_context or 0
    if not decode and not prefill:
        return None
    cached = 2.0 * shape.kv_heads * shape.head_dim * shape.cache_bytes * (decode + prefill)
    each = label.prefill_tokens / label.prefill_requests if label.prefill_tokens and label.prefill_requests else 0.0
    # Causal: a prefill of n tokens over a context of c looks at c - n/2 tokens on average.
    pairs = decode + each * max(prefill - each * (label.prefill_requests or 0) / 2, 0.0)
    operations = 4.0 * shape.heads * shape.head_dim * pairs
    return Demand(cached * shape.layers / ranks, operations * shape.layers / ranks)


def roofs(
    device: Device,
    shape: Shape,
    steps: Sequence[tuple[StepLabel, Mapping[str, float]]],
    ranks: int,
) -> tuple[Roof, ...]:
    """Each role's floor against its seconds, over steps given as (composition, seconds by role); the longest first.

    Only steps whose composition asks for a role count in that role's time.
    """
    seconds: dict[str, float] = {}
    moving: dict[str, float] = {}
    computing: dict[str, float] = {}
    floors: dict[str, float] = {}
    for label, spent in steps:
        for role, demand in demands(shape, label, ranks).items():
            if role not in spent:
                continue
            move = demand.bytes / device.memory
            compute = demand.operations / device.operations(shape.weight_bytes)
            seconds[role] = seconds.get(role, 0.0) + spent[role]
            moving[role] = moving.get(role, 0.0) + move
            computing[role] = computing.get(role, 0.0) + compute
            floors[role] = floors.get(role, 0.0) + max(move, compute)
    found = [
        Roof(role, taken, floors[role], "memory" if moving[role] >= computing[role] else "compute")
        for role, taken in seconds.items()
    ]
    return tuple(sorted(found, key=lambda roof: (-roof.seconds, roof.role)))
