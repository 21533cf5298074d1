"""The miniature engine's model: a small decoder with random weights over a slotted KV cache, in plain torch.

On CUDA the decode of a whole batch is captured as a graph at each size of ``GRAPH_SIZES`` and replayed, padded up to
the next size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)

from profiler.examples.miniature_engine import Settings

GRAPH_SIZES: Final = (1, 2, 4, 8, 16)
HEAD: Final = 64
Tensor = Any


@dataclass(frozen=True)
class Shape:
    """Sizes of the decoder."""

    layers: int
    hidden: int
    vocabulary: int
    longest: int


class Decoder:
    """See ``profiler.examples.miniature_engine.Model``. One seed gives the same weights every time."""

    def __init__(self, shape: Shape, settings: Settings, device: str) -> None:
        self.shape, self.settings, self.device = shape, settings, device
        self.dtype = torch.float16 if device == "cuda" else torch.float32
        made = torch.Generator().manual_seed(1)

        def weight(rows: int, columns: int) -> Tensor:
            return (torch.randn(rows, columns, generator=made) * rows**-0.5).to(device, self.dtype)

        hidden = shape.hidden
        self.embedding = weight(hidden, shape.vocabulary).T.contiguous()
        self.layers = [
            (weight(hidden, 3 * hidden), weight(hidden, hidden), weight(hidden, 4 * hidden), weight(4 * hidden, hidden))
            for _ in range(shape.layers)
        ]
        # The last slot takes what a graph's padding writes.
        slots = (2, shape.layers, settings.max_num_seqs + 1, shape.longest, hidden // HEAD, HEAD)
        self.cache = torch.zeros(slots, device=device, dtype=self.dtype)
        self.prefixes: dict[int, Tensor] = {}
        self.graphs: dict[int, tuple[Any, Tensor, Tensor]] = {}
        if device == "cuda" and settings.graphs:
            for size in GRAPH_SIZES:
                self._capture(size)

    def run(
        self, decodes: Sequence[tuple[int, int, int]], chunks: Sequence[tuple[int, int, Sequence[int]]]
    ) -> list[int]:
        """See ``Model.run``."""
        size = next((n for n in GRAPH_SIZES if n >= len(decodes)), None)
        if decodes and not chunks and size in self.graphs:
            graph, given, answer = self.graphs[size]
            padded = [*decodes, *[(self.settings.max_num_seqs, 0, 0)] * (size - len(decodes))]
            given.copy_(torch.tensor(padded))
            graph.replay()
            return [int(token) for token in answer.tolist()[: len(decodes)]]
        rows = [*decodes]
        for slot, start, tokens in chunks:
            rows += [(slot, start + at, token) for at, token in enumerate(tokens)]
        given = torch.tensor(rows).to(self.device)
        spans = [(start, start + len(tokens)) for _, start, tokens in chunks]
        top, longest = (max((row[at] for row in decodes), default=0) + 1 for at in (0, 1))
        slots = [slot for slot, _, _ in chunks]
        with torch.no_grad():
            answer = self._forward(given, len(decodes), spans, slots, (top, longest))
        return [int(token) for token in answer.tolist()]

    def keep(self, group: int, slot: int, length: int) -> None:
        """See ``Model.keep``."""
        self.prefixes[group] = self.cache[:, :, slot, :length].clone()

    def restore(self, group: int, slot: int) -> None:
        """See ``Model.restore``."""
        kept = self.prefixes[group]
        self.cache[:, :, slot, : kept.shape[2]] = kept

    def _capture(self, size: int) -> None:
        given = torch.tensor([(self.settings.max_num_seqs, 0, 0)] * size).to(self.device)
        reach = self.settings.max_num_seqs + 1, self.shape.longest
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(aside):
            self._forward(given, size, [], [], reach)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            answer = self._forward(given, size, [], [], reach)
        self.graphs[size] = graph, given, answer

    def _forward(
        self,
        given: Tensor,
        decodes: int,
        spans: Sequence[tuple[int, int]],
        slots: Sequence[int],
        reach: tuple[int, int],
    ) -> Tensor:
        """Next tokens. ``given`` is (rows, 3): slot, position, token; the first ``decodes`` rows decode in slots and
        contexts below ``reach``, the rest are the prompts' rows: ``spans`` are their (start, end), ``slots`` theirs."""
        top, longest = reach
        slot, position, token = given.unbind(1)
        x = self.embedding[token]
        context = position.new_zeros(top).index_copy_(0, slot[:decodes], position[:decodes])
        masks = [torch.arange(longest, device=self.device) <= context[:, None]]
        for start, end in spans:
            every = torch.arange(end, device=self.device)
            masks.append(every <= every[start:, None])
        for layer, (to_qkv, to_out, up, down) in enumerate(self.layers):
            qkv = (self._norm(x) @ to_qkv).view(len(x), 3, -1, HEAD)
            for half in (0, 1):
                self.cache[half, layer].index_put_((slot, position), qkv[:, 1 + half])
            for _ in range(self.settings.attention_copies):
                mixed = self._attention(layer, qkv[:, 0], slot, decodes, spans, slots, masks)
            x = x + mixed.reshape(len(x), -1) @ to_out
            x = x + F.silu(self._norm(x) @ up) @ down
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
            # Over all slots that are in use, so that the cache is read where it lies; a copy would cost more.
            top, longest = masks[0].shape
            key, value = (part[:top, :longest].transpose(1, 2) for part in (keys, values))
            asked = query.new_zeros(top, *query.shape[1:]).index_copy_(0, slot[:decodes], query[:decodes])
            seen = F.scaled_dot_product_attention(asked[:, :, None], key, value, masks[0][:, None, None])
            outputs.append(seen[slot[:decodes], :, 0])
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
