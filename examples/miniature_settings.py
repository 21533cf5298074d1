"""What the miniature engine is told: its switches, and requests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Each field is one switch. ``scheduler_work`` and ``frontend_delay`` are seconds, of a step and of a request;
    ``overlap`` schedules a step while the model computes the one before; ``last_rank_copies`` makes the last rank
    compute its attention so many times; ``graph_sizes`` are the decode batches that a graph is captured for, where
    there are graphs."""

    max_num_seqs: int = 16
    max_num_batched_tokens: int = 512
    kv_cache_tokens: int = 4096
    prefix_cache: bool = True
    scheduler_work: float = 0.0
    overlap: bool = False
    frontend_delay: float = 0.0
    attention_copies: int = 1
    rowwise_norm: bool = False
    math_attention: bool = False
    ranks: int = 1
    last_rank_copies: int = 1
    graphs: bool = True
    graph_sizes: tuple[int, ...] = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Request:
    """Token ids in, a number of tokens out. The first ``prefix`` tokens are those of every request of its ``group``."""

    prompt: tuple[int, ...]
    prefix: int
    group: int
    output: int
