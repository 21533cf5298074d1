"""Scheduler metrics in words that every engine shares.

An engine's file in ``collectors/engines`` maps its own metric names to these concepts; nothing past the reader knows
an engine's spelling. A histogram ``x`` becomes ``x_sum`` and ``x_count``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

GAUGES: Final = frozenset(
    {
        "running_requests",
        "waiting_requests",
        "kv_usage",
        "accepted_length",  # tokens that a verification brings a sequence with its own; below 1: nothing drafted
        "prompt_store_usage",  # 0..1, of the host memory that finished prompts are kept in
    }
)
# In logs: +1 where a request is taken up, -1 where it ends.
RUNNING_CHANGE: Final = "running_change"
COUNTERS: Final = frozenset(
    {
        "prompt_tokens",  # prompt tokens of admitted requests, cached ones included
        "cached_tokens",  # of these, those found in the prefix cache
        "prefix_queries",  # prompt tokens looked up in the prefix cache
        "prefix_hits",  # of these, those found
        "computed_prompt_tokens",  # prompt tokens that the model ran over
        "generation_tokens",
        "preemptions",
        "requests",
        "graph_steps",  # steps replayed from a CUDA graph
        "eager_steps",  # steps run without one
        "steps",  # engine steps (iterations, forward passes)
        "executor_seconds",  # wall seconds inside the executor (forward and sampling)
        "scheduler_seconds",  # wall seconds of the scheduler's loop outside the executor, idle excluded
        "idle_seconds",  # wall seconds in which the scheduler had nothing to run
        "drafts",  # a sequence each
        "draft_tokens",
        "accepted_tokens",
    }
)
HISTOGRAMS: Final = frozenset(
    {
        "queue_seconds",  # from arrival at the engine to the first scheduling
        "prefill_seconds",  # from the first scheduling to the first token
        "decode_seconds",  # from the first token to the last
        "ttft_seconds",
        "itl_seconds",
        "e2e_seconds",
        "step_tokens",  # tokens of one engine step: its count is the number of steps
        "gc_seconds",  # of one garbage collection of the interpreter
    }
)
# What components beside the engines are asked, in the order in which the answers are shown.
QUESTIONS: Final[tuple[str, ...]] = (
    "running_requests",
    "waiting_requests",
    "kv_usage",  # 0..1, of the memory that the component speaks of
    "hit_rate",  # 0..1, of what was looked up
    "requests",  # since it started
    "output_tokens",
    "ttft_seconds",  # means since it started
    "itl_seconds",
    "e2e_seconds",
)


@dataclass(frozen=True)
class ComponentSnapshot:
    """One scrape of a program beside the engines. Its numbers are its own view and never an engine's.

    ``values`` maps a question to its answer; a question that the scrape does not answer is missing.
    """

    path: str
    component: str
    title: str
    order: float
    values: Mapping[str, float]


@dataclass(frozen=True)
class MetricsSnapshot:
    """One scrape. ``order`` sorts the snapshots of a run; ``seconds`` is its time on the run's own clock, if known.

    ``values`` maps a concept to its value (ratios 0..1, times in seconds, sizes in tokens); counters are cumulative
    since the engine started. ``settings`` are labels of info metrics; ``process`` is what stays as it is from the start
    of the process that answered to its end, by name (see ``profiler.model.answering``).
    """

    path: str
    engine: str
    order: float
    seconds: float | None
    values: Mapping[str, float]
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    process: Mapping[str, str] = field(default_factory=dict[str, str])
