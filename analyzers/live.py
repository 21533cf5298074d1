"""What two scrapes of a running engine say about the time between them, and what holds it up, where that is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from profiler.model.metrics import MetricsSnapshot

FULL_CACHE: Final = 0.95
# Below this share of its limit the engine runs whatever comes.
FEW: Final = 0.5
# The scheduler's own share of the time above which it is what holds the engine up.
BUSY_SCHEDULER: Final = 0.3
# Eager steps above this share of the steps are worth naming.
MANY_EAGER: Final = 0.5


@dataclass(frozen=True)
class LiveState:
    """One moment: gauges as of the later scrape, rates over the time between both. None: this engine does not say.

    ``tokens_per_step`` counts prompt tokens too; ``graph_share`` is the share of steps replayed from a graph,
    ``hit_rate`` that of the prompt tokens looked up that were cached. ``bottleneck`` is a cause's name or "load" or
    "idle", None where the evidence does not carry one; ``why`` holds the numbers.
    """

    running: float | None
    waiting: float | None
    kv_usage: float | None
    generation: float | None
    prompt: float | None
    steps: float | None
    tokens_per_step: float | None
    graph_share: float | None
    hit_rate: float | None
    preemptions: float | None
    bottleneck: str | None = None
    why: str = ""


def live_state(
    first: MetricsSnapshot, last: MetricsSnapshot, seconds: float, settings: Mapping[str, object]
) -> LiveState:
    """The state between two scrapes that lie so many seconds apart; ``settings`` are ``setting.<knob>`` facts.

    A counter that fell is a restarted engine: its rates are not known.
    """

    def grown(concept: str) -> float | None:
        a, b = first.values.get(concept), last.values.get(concept)
        return None if a is None or b is None or b < a else b - a

    def rate(concept: str) -> float | None:
        more = grown(concept)
        return None if more is None or seconds <= 0 else more / seconds

    steps = grown("steps") if "steps" in last.values else grown("step_tokens_count")
    tokens = grown("step_tokens_sum")
    graph, eager = grown("graph_steps"), grown("eager_steps")
    queries, hits = grown("prefix_queries"), grown("prefix_hits")
    prompt = rate("prompt_tokens")
    state = LiveState(
        running=last.values.get("running_requests"),
        waiting=last.values.get("waiting_requests"),
        kv_usage=last.values.get("kv_usage"),
        generation=rate("generation_tokens"),
        prompt=rate("computed_prompt_tokens") if prompt is None else prompt,
        steps=None if steps is None or seconds <= 0 else steps / seconds,
        tokens_per_step=tokens / steps if tokens is not None and steps else None,
        graph_share=graph / (graph + eager) if graph is not None and eager is not None and graph + eager else None,
        hit_rate=hits / queries if hits is not None and queries else None,
        preemptions=grown("preemptions"),
    )
    scheduler = rate("scheduler_seconds")
    bottleneck, why = _bottleneck(state, first.values.get("waiting_requests"), scheduler, settings)
    return LiveState(**{**state.__dict__, "bottleneck": bottleneck, "why": why})


def _bottleneck(
    state: LiveState, waited: float | None, scheduler: float | None, settings: Mapping[str, object]
) -> tuple[str | None, str]:
    cap = settings.get("setting.max_num_seqs")
    limit = float(cap) if isinstance(cap, int | float) and not isinstance(cap, bool) and cap > 0 else None
    waiting = state.waiting if waited else None
    if state.preemptions:
        return "memory", f"{state.preemptions:g} preemptions: the KV cache does not hold what runs"
    if waiting and state.kv_usage is not None and state.kv_usage >= FULL_CACHE:
        return "memory", f"{waiting:g} requests wait and the KV cache is {state.kv_usage:.0%} full"
    if waiting and limit is not None and state.running is not None and state.running >= limit:
        return "batching", f"{waiting:g} requests wait behind the limit of {limit:g} running ones"
    if scheduler is not None and scheduler >= BUSY_SCHEDULER:
        return "scheduling", f"the scheduler's own work takes {scheduler:.0%} of the time"
    if state.graph_share is not None and state.graph_share <= 1 - MANY_EAGER and state.running:
        return "cuda_graph", f"{1 - state.graph_share:.0%} of the steps run without a graph"
    if state.waiting is None or state.running is None:
        return None, ""
    if state.running == 0 and state.waiting == 0:
        return "idle", "no request runs or waits"
    if state.waiting == 0 and not waited and limit is not None and state.running < FEW * limit:
        return (
            "load",
            f"nothing waits and {state.running:g} of {limit:g} possible requests run: more load would be taken",
        )
    return None, ""
