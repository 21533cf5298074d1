"""The layers of a model and the role of every kernel, from the order of the kernels alone.

No Python stack is needed, so it works on replayed graphs, where kernels carry nothing but a name. Attention is the
anchor: every group of attention kernels is one layer. What stands between two of them is told apart by the norms: the
projection of the attention's output comes before the first norm, the router and MLP between that and the next norm
that follows some of their work, and the projections to Q, K and V after it. The order is that of pre-norm decoders
(Llama, Qwen, DeepSeek, gpt-oss, Gemma's doubled norms); a kernel that it does not explain has the role "not known".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profiler.analyzers.kernels import family_of
from profiler.model.requests import Ints

ROLES: Final = (
    "not known", "prepare", "embedding", "norm", "qkv", "qk_norm", "rope", "kv_write", "attention", "out",
    "router", "experts", "mlp", "communication", "head", "sampling", "lora",
)  # fmt: skip
_ROLE: Final = {role: code for code, role in enumerate(ROLES)}
UNKNOWN_ROLE: Final = 0
_PENDING: Final = 255
_OPEN_AFTER: Final = 254


class Part(IntEnum):
    """What a kernel's name says of its place, before its neighbours are looked at."""

    GLUE = 0  # copies, casts, adds, quantisation: takes the role of what follows
    AFTER = 1  # finishes the kernel before it (split-K reduction)
    PREPARE = 2
    EMBEDDING = 3
    NORM = 4
    QK_NORM = 5
    GEMM = 6
    ROPE = 7
    KV_WRITE = 8
    ATTENTION = 9
    COMMUNICATION = 10
    COMMUNICATION_NORM = 11  # an all-reduce that holds the norm
    DISPATCH = 12
    COMBINE = 13
    ROUTER = 14
    EXPERTS = 15
    ACTIVATION = 16
    SAMPLING = 17
    LORA = 18


_BY_CATEGORY: Final = {
    "attention": Part.ATTENTION, "linear_attn": Part.ATTENTION, "norm": Part.NORM, "gemm": Part.GEMM,
    "rope": Part.ROPE, "kv_cache": Part.KV_WRITE, "comm": Part.COMMUNICATION, "moe": Part.EXPERTS,
    "activation": Part.ACTIVATION, "sampling": Part.SAMPLING, "embedding": Part.EMBEDDING, "gather": Part.EMBEDDING,
    "lora": Part.LORA, "input_prep": Part.PREPARE, "spec_decode": Part.PREPARE,
}  # fmt: skip
# Roles of the families that differ from their category's part.
_BY_FAMILY: Final = {
    ("attention", "metadata"): Part.PREPARE,
    ("norm", "qk_norm"): Part.QK_NORM,
    ("gemm", "splitk_reduce"): Part.AFTER,
    ("kv_cache", "block_copy_zero"): Part.PREPARE,
    ("kv_cache", "offload_transfer"): Part.PREPARE,
    ("comm", "ep_dispatch"): Part.DISPATCH,
    ("comm", "ep_combine"): Part.COMBINE,
    ("moe", "align_sort"): Part.ROUTER,
    ("moe", "inductor_pad"): Part.GLUE,
    ("moe", "pad_memset"): Part.GLUE,
}


def parts_of(names: Sequence[str], used: Ints, table: str = "kernel_families") -> NDArray[np.uint8]:
    """The part of every name that ``used`` lists (indices into ``names``); glue for the rest and for unknown names."""
    parts = np.zeros(len(names), np.uint8)
    for index in used.tolist():
        family = family_of(names[index], table)
        if family is not None:
            parts[index] = _part(family.category, family.role)
    return parts


def _part(category: str, role: str) -> Part:
    found = _BY_FAMILY.get((category, role))
    if found is not None:
        return found
    if category == "comm" and "norm" in role and "qknorm" not in role:
        return Part.COMMUNICATION_NORM
    if category == "moe" and role.startswith("rout"):
        return Part.ROUTER
    return _BY_CATEGORY.get(category, Part.GLUE)


@dataclass(frozen=True)
class Layers:
    """For each kernel given: ``role`` (index into ROLES) and ``layer`` (from 0; -1 outside the layers). ``counts`` are
    the layers of every step that has any, of its largest pass; what belongs to no step may hold parts of several."""

    role: NDArray[np.uint8]
    layer: NDArray[np.int32]
    counts: Ints

    @cached_property
    def found(self) -> bool:
        """Whether attention was recognised: without it the place of the other kernels can't be told."""
        return bool((self.layer >= 0).any())

    @property
    def usual(self) -> int | None:
        """The number of layers that most steps have; None where there is none, or where the steps disagree."""
        if not len(self.counts):
            return None
        values, often = np.unique(self.counts, return_counts=True)
        usual, others = int(values[often == often.max()].max()), len(self.counts) - int(often.max())
        # The recording's begin and end cut a step short.
        cut = usual == values.max() and bool((self.counts[1:-1] == usual).all())
        return usual if cut or others < often.max() else None


def layers_of(parts: NDArray[np.uint8], step: Ints) -> Layers:
    """Roles and layers of kernels in the order of their start; ``step`` is each kernel's step (-1: none).

    Steps of one sequence of parts (replays of one graph) are looked at once.
    """
    n = len(parts)
    role, layer = np.zeros(n, np.uint8), np.full(n, -1, np.int32)
    counts: list[int] = []
    seen: dict[bytes, tuple[NDArray[np.uint8], NDArray[np.int32], int]] = {}
    order = np.argsort(step, kind="stable")
    bounds = np.flatnonzero(np.diff(step[order], prepend=-2, append=-2)) if n else np.zeros(0, np.int64)
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        rows = order[begin:end]
        key = parts[rows].tobytes()
        if key not in seen:
            seen[key] = _one_step(parts[rows].tolist())
        found_role, found_layer, layers = seen[key]
        role[rows], layer[rows] = found_role, found_layer
        if layers and step[rows[0]] >= 0:
            counts.append(layers)
    return Layers(role, layer, np.array(counts, np.int64))


class _State(IntEnum):
    PREPARE = 0
    QKV = 1
    OUT = 2
    MLP = 3
    HEAD = 4


def _one_step(parts: list[int]) -> tuple[NDArray[np.uint8], NDArray[np.int32], int]:
    """Walk over one step's parts; glue is filled in afterwards."""
    last_attention = max((i for i, part in enumerate(parts) if part == Part.ATTENTION), default=-1)
    walk = _Walk(len(parts), last_attention)
    for i, part in enumerate(parts):
        walk.take(i, part)
    walk.done()
    role = np.array(walk.role, np.uint8)
    _fill(role)
    return role, np.array(walk.layer, np.int32), max(walk.passes)


class _Walk:
    """The place in the step: which block of which layer the next kernel belongs to."""

    def __init__(self, n: int, last_attention: int) -> None:
        self.role = [_PENDING] * n
        self.layer = [-1] * n
        self.layers = 0
        self.passes = [0]  # the layers of each pass: a step may hold a target's and a draft's
        self._last_attention = last_attention
        self._state = _State.PREPARE
        self._content = False  # whether the block has done some of its own work
        self._dispatched = False  # between the dispatch to the experts and the combine
        self._sampled = False
        self._gemm = -1  # the last GEMM, as long as nothing but glue followed it
        self._block_from = 0  # where the block began

    def take(self, i: int, part: int) -> None:
        role = self._role(i, part)
        self.role[i] = role
        inside = self._state in (_State.QKV, _State.OUT, _State.MLP)
        # The block in front of the attention belongs to the layer that it opens.
        self.layer[i] = (self.layers if self._state is _State.QKV else self.layers - 1) if inside else -1
        if part == Part.GEMM:
            self._gemm = i
        elif part not in (Part.GLUE, Part.AFTER):
            self._gemm = -1

    def _role(self, i: int, part: int) -> int:
        state = self._state
        if part == Part.GLUE:
            return _PENDING
        if part == Part.AFTER:
            return _OPEN_AFTER
        if part == Part.ATTENTION:
            if state is not _State.OUT or self._content:
                self.layers += 1
                self.passes[-1] += 1
                self._no_norm(i)
                self._enter(_State.OUT, i)
            return _ROLE["attention"]
        if part in (Part.NORM, Part.COMMUNICATION_NORM):
            return self._norm(i, part)
        if part in (Part.DISPATCH, Part.COMBINE, Part.COMMUNICATION):
            if part != Part.COMMUNICATION:
                self._dispatched = part == Part.DISPATCH
                self._content = True
            return _ROLE["communication"]
        if part in _FIXED:
            return _FIXED[part]
        if part == Part.PREPARE:
            return _ROLE["prepare"]
        if part in (Part.ROUTER, Part.EXPERTS):
            return self._experts(part)
        if part == Part.SAMPLING:
            self._to_head(i)
            self._sampled = True
            return _ROLE["sampling"]
        if part == Part.EMBEDDING:
            if state is _State.HEAD and self._sampled and i < self._last_attention:
                self._enter(_State.PREPARE)
                self.passes.append(0)
            if self._state is _State.PREPARE:
                return _ROLE["embedding"]
            if i < self._last_attention:
                # Inside the layers a gather serves what follows it, such as the cached keys of the next sequence where
                # attention is called for each.
                return _PENDING
            # Behind the last layer it picks the tokens whose logits are wanted.
            self._to_head(i)
            return _ROLE["head"]
        return self._work(i, part)

    def _norm(self, i: int, part: int) -> int:
        state = self._state
        ahead = i < self._last_attention
        if state is _State.OUT:
            self._enter(_State.MLP)
        elif state is _State.MLP and self._content:
            self._enter(_State.QKV if ahead else _State.HEAD, i)
        elif state in (_State.PREPARE, _State.HEAD) and ahead:
            self._enter(_State.QKV, i)
        elif state is _State.QKV and self._content and part == Part.NORM:
            return _ROLE["qk_norm"]
        return _ROLE["norm" if part == Part.NORM else "communication"]

    def _experts(self, part: int) -> int:
        if self._state is not _State.MLP:
            self._enter(_State.MLP)
        if part == Part.ROUTER and self._gemm >= 0:
            self.role[self._gemm] = _ROLE["router"]
        self._content = True
        return _ROLE["router" if part == Part.ROUTER else "experts"]

    def _work(self, i: int, part: int) -> int:
        """A GEMM or an activation."""
        state = self._state
        if state is _State.OUT and part == Part.ACTIVATION:
            # No norm stands between: attention and MLP run in parallel, and the GEMM before was the MLP's.
            self._enter(_State.MLP)
            self._content = True
            if self._gemm >= 0:
                self.role[self._gemm] = _ROLE["mlp"]
            return _ROLE["mlp"]
        self._content = True
        if self._dispatched:
            return _ROLE["experts"]
        if state is _State.PREPARE:
            return UNKNOWN_ROLE
        return _WORK[state]

    def _no_norm(self, until: int) -> None:
        """Where no norm came after the attention, its output projection can't be told from the MLP."""
        if self._state is _State.OUT:
            self._relabel("out", UNKNOWN_ROLE, until)

    def _relabel(self, old: str, new: int, until: int) -> None:
        for j in range(self._block_from, until):
            if self.role[j] == _ROLE[old]:
                self.role[j] = new

    def done(self) -> None:
        """The step ended."""
        self._no_norm(len(self.role))

    def _to_head(self, i: int) -> None:
        self._no_norm(i)
        if self._state is _State.QKV:
            # What looked like the next layer's projections was the head.
            self._relabel("qkv", _ROLE["head"], i)
            self.layer[self._block_from : i] = [-1] * (i - self._block_from)
        if self._state is not _State.PREPARE:
            self._enter(_State.HEAD)

    def _enter(self, state: _State, at: int = 0) -> None:
        self._state, self._block_from = state, at
        self._content = self._dispatched = self._sampled = False


_FIXED: Final = {
    int(Part.QK_NORM): _ROLE["qk_norm"],
    int(Part.ROPE): _ROLE["rope"],
    int(Part.KV_WRITE): _ROLE["kv_write"],
    int(Part.LORA): _ROLE["lora"],
}
_WORK: Final = {
    _State.QKV: _ROLE["qkv"],
    _State.OUT: _ROLE["out"],
    _State.MLP: _ROLE["mlp"],
    _State.HEAD: _ROLE["head"],
}


def _fill(role: NDArray[np.uint8]) -> None:
    """Give glue the role of what follows it, and where nothing does, of what came before."""
    n = len(role)
    if not n:
        return
    known = role < _OPEN_AFTER
    if not known.any():
        role[:] = UNKNOWN_ROLE
        return
    at = np.arange(n)
    before = np.maximum.accumulate(np.where(known, at, -1))
    after = np.minimum.accumulate(np.where(known, at, n)[::-1])[::-1]
    source = np.where((role == _OPEN_AFTER) | (after >= n), before, after)
    source = np.where(source < 0, after, source)
    role[:] = role[np.minimum(source, n - 1)]
