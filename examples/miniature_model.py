"""The miniature engine's model: a small decoder with random weights over a slotted KV cache, in plain torch.

On CUDA the decode of a whole batch is captured as a graph at each size of ``Settings.graph_sizes`` and replayed, padded
up to the next size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)
from torch.nn.attention import SDPBackend, sdpa_kernel

from profiler.examples.miniature_graphs import Capture, Replay, captured
from profiler.examples.miniature_settings import Settings

HEAD: Final = 64
Tensor = Any


@dataclass(frozen=True)
class Shape:
    """Sizes of the decoder."""

    layers: int
    hidden: int
    vocabulary: int
    longest: int


@dataclass(frozen=True)
class Share:
    """What one of several ranks computes: its heads and its columns of the MLP. ``total`` adds up what all have."""

    rank: int = 0
    ranks: int = 1
    total: Callable[[Tensor], Tensor] = lambda part: part


WHOLE: Final = Share()


class Decoder:
    """See ``profiler.examples.miniature_engine.Model``. One seed gives the same weights every time. ``capture`` makes
    a graph of a computation; None: there are no graphs here."""

    def __init__(
        self,
        shape: Shape,
        settings: Settings,
        device: str,
        capture: Capture | None = None,
        share: Share = WHOLE,
    ) -> None:
        self.shape, self.settings, self.device, self.share = shape, settings, device, share
        self.dtype = torch.float16 if device == "cuda" else torch.float32
        made = torch.Generator().manual_seed(1)

        def weight(rows: int, columns: int) -> Tensor:
            return (torch.randn(rows, columns, generator=made) * rows**-0.5).to(device, self.dtype)

        hidden = shape.hidden
        self.embedding = weight(hidden, shape.vocabulary).T.contiguous()

        def mine(full: Tensor, axis: int) -> Tensor:
            return full.chunk(share.ranks, axis)[share.rank].contiguous()

        self.layers = [
            (
                mine(weight(hidden, 3 * hidden).view(hidden, 3, hidden), 2).view(hidden, -1),
                mine(weight(hidden, hidden), 0),
                mine(weight(hidden, 4 * hidden), 1),
                mine(weight(4 * hidden, hidden), 0),
            )
            for _ in range(shape.layers)
        ]
        # The last slot takes what a graph's padding writes.
        slots = (2, shape.layers, settings.max_num_seqs + 1, shape.longest, hidden // HEAD // share.ranks, HEAD)
        self.cache = torch.zeros(slots, device=device, dtype=self.dtype)
        self.prefixes: dict[int, Tensor] = {}
        self.graphs: dict[int, tuple[Replay, Tensor, Tensor]] = {}
        graph_of = capture or (captured if device == "cuda" else None)
        if graph_of is not None and settings.graphs:
            for size in settings.graph_sizes:
                given = torch.tensor([(settings.max_num_seqs, 0, 0)] * size).to(device)
                replay, answer = graph_of(partial(self._forward, given, size, [], [], shape.longest))
                self.graphs[size] = replay, given, answer

    def run(
        self, decodes: Sequence[tuple[int, int, int]], chunks: Sequence[tuple[int, int, Sequence[int]]]
    ) -> list[int]:
        """See ``Model.run``."""
        size = next((n for n in sorted(self.graphs) if n >= len(decodes)), None)
        if decodes and not chunks and size is not None:
            replay, given, answer = self.graphs[size]
            padded = [*decodes, *[(self.settings.max_num_seqs, 0, 0)] * (size - len(decodes))]
            given.copy_(torch.tensor(padded))
            replay()
            return [int(token) for token in answer.tolist()[: len(decodes)]]
        rows = [*decodes]
        for slot, start, tokens in chunks:
            rows += [(slot, start + at, token) for at, token in enumerate(tokens)]
        given = torch.tensor(rows).to(self.device)
        spans = [(start, start + len(tokens)) for _, start, tokens in chunks]
        longest = max((position for _, position, _ in decodes), default=0) + 1
        slots = [slot for slot, _, _ in chunks]
        with torch.no_grad():
            answer = self._forward(given, len(decodes), spans, slots, longest)
        return [int(token) for token in answer.tolist()]

    def keep(self, group: int, slot: int, length: int) -> None:
        """See ``Model.keep``."""
        self.prefixes[group] = self.cache[:, :, slot, :length].clone()

    def restore(self, group: int, slot: int) -> None:
        """See ``Model.restore``."""
        kept = self.prefixes[group]
        self.cache[:, :, slot, : kept.shape[2]] = kept

    def forget(self) -> None:
        """See ``Model.forget``."""
        self.prefixes.clear()

    def _forward(
        self,
        given: Tensor,
        decodes: int,
        spans: Sequence[tuple[int, int]],
        slots: Sequence[int],
        longest: int,
    ) -> Tensor:
        """Next tokens. ``given`` is (rows, 3): slot, position, token; the first ``decodes`` rows decode in contexts of
        up to ``longest`` tokens, the rest are the prompts': ``spans`` are their (start, end), ``slots`` theirs."""
        slot, position, token = given.unbind(1)
        x = self.embedding[token]
        masks = [torch.arange(longest, device=self.device) <= position[:decodes, None]]
        for start, end in spans:
            every = torch.arange(end, device=self.device)
            masks.append(every <= every[start:, None])
        for layer, (to_qkv, to_out, up, down) in enumerate(self.layers):
            qkv = (self._norm(x) @ to_qkv).view(len(x), 3, -1, HEAD)
            for half in (0, 1):
                self.cache[half, layer].index_put_((slot, position), qkv[:, 1 + half])
            with sdpa_kernel(SDPBackend.MATH) if self.settings.math_attention else nullcontext():
                for _ in range(self.settings.attention_copies):
                    mixed = self._attention(layer, qkv[:, 0], slot, decodes, spans, slots, masks)
            x = x + self.share.total(mixed.reshape(len(x), -1) @ to_out)
            x = x + self.share.total(F.silu(self._norm(x) @ up) @ down)
        last = list(range(decodes))
        at = decodes
        for start, end in spans:
            at += end - start
            last.append(at - 1)
        rows = x if len(last) == len(x) else x[torch.tensor(last, device=self.device)]
        return (self._norm(rows) @ self.embedding.T).argmax(-1)

    def _attention(
        self,
        layer: int,
        query: Tensor,
        slot: Tensor,
        decodes: int,
        spans: Sequence[tuple[int, int]],
        slots: Sequence[int],
        masks: Sequence[Tensor],
    ) -> Tensor:
        """Each row over its own sequence; rows are (heads, head size)."""
        outputs = []
        keys, values = self.cache[0, layer], self.cache[1, layer]
        if decodes:
            # Copied out of the cache, so that a step costs by its sequences, wherever their slots are.
            key, value = (part[slot[:decodes], : masks[0].shape[1]].transpose(1, 2) for part in (keys, values))
            seen = F.scaled_dot_product_attention(query[:decodes, :, None], key, value, masks[0][:, None, None])
            outputs.append(seen[:, :, 0])
        at = decodes
        for (start, end), one, mask in zip(spans, slots, masks[1:], strict=True):
            key, value = (part[one, :end].transpose(0, 1)[None] for part in (keys, values))
            asked = query[at : at + end - start].transpose(0, 1)[None]
            outputs.append(F.scaled_dot_product_attention(asked, key, value, mask)[0].transpose(0, 1))
            at += end - start
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    def _norm(self, x: Tensor) -> Tensor:
        if not self.settings.rowwise_norm:
            return F.layer_norm(x, (self.shape.hidden,))
        rows = []
        for row in x.unbind(0):
            centred = row - row.mean()
            rows.append(centred * (centred.square().mean() + 1e-5).rsqrt())
        return torch.stack(rows)
