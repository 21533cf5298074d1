"""What turning a knob does to a run: how it changes the replay's rules or the time of a step, and what it costs.

Effects are the same for every engine; how an engine spells a knob is in its own file. An effect returns the changed
player, or says why nothing can be predicted. ``exact`` effects change a rule that the replay plays; the others change
the step time by something that the trace measured under the profiler, so they come with a lower and an upper bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from profiler.analyzers.gap.measured import Measured, trace_load
from profiler.analyzers.gap.model import GAPS, Component
from profiler.analyzers.gap.played import NOTHING, Apart, Player
from profiler.analyzers.gap.replay import Front, Rules, StepCost, summed
from profiler.analyzers.gap.shape import HINGES
from profiler.analyzers.metrics import metrics_of

Value = int | float | bool | str
# Prompt tokens in a step from which on a modern accelerator computes rather than waits for the weights.
_RIDGE: Final = 256


class NotPredictable(Exception):
    """Why the effect of a setting can't be predicted from this run."""


@dataclass(frozen=True)
class Turned:
    """A run with a knob turned. ``low`` and ``high`` bound the effect where the run leaves it open (else both are
    None); ``extrapolated`` says that the steps would carry what the run has not seen, ``midway`` that either bound is
    as likely. ``notes`` say how it is meant. ``reads`` is how the run's own steps have to be told apart
    for the comparison, None where they need not be."""

    player: Player
    low: Player | None = None
    high: Player | None = None
    extrapolated: bool = False
    midway: bool = False
    notes: tuple[str, ...] = ()
    reads: Apart | None = None


@dataclass(frozen=True)
class Situation:
    """A run whose knob is turned; ``other`` is a run to take from what this one has not measured, and ``shown`` what
    its files say. ``doubts`` are other step times that explain the run's own steps about as well. ``elsewhere`` names,
    for knobs that are others on this device, the knob that each is; None where it is without effect."""

    measured: Measured
    player: Player
    other: Player | None = None
    doubts: tuple[StepCost, ...] = ()
    shown: Measured | None = None
    elsewhere: Mapping[str, str | None] = field(default_factory=dict[str, str | None])

    @cached_property
    def metrics(self) -> Mapping[str, float]:
        """The run's own."""
        return metrics_of(self.measured.bench)

    @cached_property
    def replayed(self) -> Mapping[str, float]:
        """Those of the run's replay with its settings as they are. Raises ValueError where that does not serve."""
        return self.player.play().metrics()


@dataclass(frozen=True)
class Effect:
    """``turn`` applies a value; ``candidates`` are values worth trying, best guesses first; ``trade`` is the price."""

    knob: str
    title: str
    turn: Callable[[Situation, Value], Turned]
    candidates: Callable[[Situation], tuple[Value, ...]]
    trade: str


def whole(value: Value, knob: str) -> int:
    """A value that counts something. Raises NotPredictable for others."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 1 or value != int(value):
        raise NotPredictable(f"{knob} is a whole number above 0, not {value!r}")
    return int(value)


def switch(value: Value, knob: str) -> bool:
    """A value that is on or off. Raises NotPredictable for others."""
    if isinstance(value, bool):
        return value
    raise NotPredictable(f"{knob} is on or off, not {value!r}")


def _ruled(situation: Situation, **fields: object) -> Turned:
    player = situation.player
    rules = Rules(**{**{f: getattr(player.rules, f) for f in Rules.__dataclass_fields__}, **fields})
    return Turned(replace(player, rules=rules))


def _sequences(situation: Situation, value: Value) -> Turned:
    limit = whole(value, "max_num_seqs")
    turned = _ruled(situation, max_seqs=limit)
    steps = situation.measured.steps
    seen = float((steps.load.decode + steps.load.prefill_requests).max(initial=0.0)) if steps is not None else 0.0
    asked = situation.player.demand.concurrency or len(situation.player.demand)
    if steps is None or not seen:
        return turned
    usual, reached = float(np.mean(steps.load.decode[steps.load.decode > 0])), min(limit, asked)
    extrapolated = reached > 1.1 * seen
    if not extrapolated and reached > 0.5 * usual:
        return turned
    # Steps much fuller or emptier than usual. A GPU's step hardly grows until it is full, a CPU's with every sequence.
    cpu = situation.measured.device == "cpu"
    grown = _by_sequence(turned.player, usual, _GROWS_CPU if cpu else _GROWS_GPU)
    return Turned(turned.player, low=turned.player, high=grown, extrapolated=extrapolated, midway=cpu)


# How much of a step's fixed time may in truth be its sequences'.
_GROWS_GPU: Final = 0.3
_GROWS_CPU: Final = 0.9


def _by_sequence(player: Player, sequences: float, share: float) -> Player:
    """The same steps with a share of their fixed time as a cost of each sequence."""
    costs = {}
    for key, cost in player.costs.items():
        moved = cost.step * share
        costs[key] = replace(cost, step=cost.step - moved, sequence=cost.sequence + moved / max(sequences, 1.0))
    return replace(player, costs=costs)


def _more_sequences(situation: Situation) -> tuple[Value, ...]:
    limit = situation.player.rules.max_seqs
    asked = situation.player.demand.concurrency or len(situation.player.demand)
    if limit is None:
        return ()
    return tuple(dict.fromkeys(v for v in (2 * limit, 4 * limit, max(asked, 1), limit // 2) if v >= 1 and v != limit))


def _budget(situation: Situation, value: Value) -> Turned:
    budget = whole(value, "token_budget")
    turned = _ruled(situation, budget=budget)
    steps = situation.measured.steps
    seen = float(steps.load.prefill_tokens.max(initial=0.0)) if steps is not None else 0.0
    longest = float(situation.player.demand.prompt.sum())
    if steps is None or not seen:
        return turned
    carried = steps.load.prefill_tokens[steps.load.prefill_tokens > 0]
    usual = float(np.median(carried))
    if budget < 0.9 * float(np.quantile(carried, 0.1)):
        # Fewer prompt tokens than any step had: they may cost in proportion, or next to nothing.
        free = _free(turned.player, budget, usual)
        return Turned(turned.player, low=turned.player, high=free, extrapolated=True, midway=True)
    if min(budget, longest) <= 1.25 * seen:
        return turned
    # More prompt tokens than any step had: beyond what the weights' way from memory hides, a prefill's cost grows.
    grown = _proportional(turned.player, usual)
    return Turned(grown, low=turned.player, high=grown, extrapolated=True, midway=usual < _RIDGE)


def _free(player: Player, budget: int, tokens: float) -> Player:
    """The same cost at so many prompt tokens, all of it for those beyond the largest hinge within the budget."""
    hinge = max(h for h in HINGES if h <= budget)
    costs = {}
    for key, cost in player.costs.items():
        whole = cost.prefill_step + sum(value * max(tokens - beyond, 0.0) for beyond, value in cost.tokens)
        slope = whole / max(tokens - hinge, 1.0)
        costs[key] = replace(cost, prefill_step=0.0, tokens=((hinge, slope),))
    return replace(player, costs=costs)


def _proportional(player: Player, tokens: float) -> Player:
    """The same steps with what a prefill costs at once, at this many tokens, as a cost of each token."""
    costs = {}
    for key, cost in player.costs.items():
        each = cost.prefill_step / max(tokens, 1.0)
        grown = cost.plus(StepCost(prefill_step=-cost.prefill_step, sequence=-each, tokens=((0.0, each),)))
        costs[key] = grown
    return replace(player, costs=costs)


def _other_budgets(situation: Situation) -> tuple[Value, ...]:
    budget = situation.player.rules.budget
    return () if budget is None else tuple(v for v in (2 * budget, 4 * budget, budget // 2, budget // 4) if v >= 16)


def _cache(situation: Situation, value: Value) -> Turned:
    player = situation.player
    if not switch(value, "prefix_cache"):
        return Turned(replace(player, demand=replace(player.demand, computed=np.ones(len(player.demand)))))
    if player.demand.share < 1.0:
        return Turned(player)
    if situation.other is None or situation.other.demand.share >= 1.0:
        raise NotPredictable("the files do not say which prompts share a prefix; a run with the cache on would show it")
    return Turned(
        replace(
            player, demand=replace(player.demand, computed=np.full(len(player.demand), situation.other.demand.share))
        )
    )


def _pool(situation: Situation, value: Value) -> Turned:
    return _ruled(situation, kv_tokens=whole(value, "kv_tokens"))


def _larger_pools(situation: Situation) -> tuple[Value, ...]:
    pool = situation.player.rules.kv_tokens
    return () if pool is None else (2 * pool, 4 * pool)


def _narrow_cache(situation: Situation, value: Value) -> Turned:
    """A KV cache of half the width holds twice the tokens; what attention then takes is not known from this run."""
    pool, current = situation.player.rules.kv_tokens, situation.measured.run.fact("setting.kv_dtype")
    narrow = ("fp8", "fp8_e4m3", "fp8_e5m2", "int8")
    if str(value) not in narrow or str(current) in narrow:
        raise NotPredictable("only the step from 16 to 8 bits is known: twice the tokens fit")
    if pool is None:
        raise NotPredictable("the size of the KV cache is not known")
    return _ruled(situation, kv_tokens=2 * pool)


def _mixed(situation: Situation, value: Value) -> Turned:
    return _ruled(situation, mixed=switch(value, "mixed_prefill"))


def _chunked(situation: Situation, value: Value) -> Turned:
    """An engine that does not split prompts runs them by themselves, ahead of the decodes."""
    chunked = switch(value, "chunked_prefill")
    return _ruled(situation, chunked=chunked, mixed=chunked and situation.player.rules.mixed)


def _overlap(situation: Situation, value: Value) -> Turned:
    """Off: the annotated host phases stand between the steps. On: what the device waited for between steps is hidden,
    as far as a step's own time can hide it."""
    player = situation.player
    if situation.measured.device == "cpu":
        raise NotPredictable("the model runs on the CPU itself: there is no device beside which the host could work")
    if switch(value, "overlap") == player.rules.lag:
        stands = "asynchronously" if player.rules.lag else "in turns with the device"
        raise NotPredictable(f"the run schedules {stands} already, as its settings or its steps say")
    if value:
        waits = _cost(player, lambda key: key[0] == "scheduling")
        if not waits.counts():
            raise NotPredictable("the trace shows no time between steps that could be hidden")
        hidden = _without(player, lambda key: key[0] == "scheduling")
        rules = replace(player.rules, lag=True)
        partly = {**player.costs, ("scheduling", "hidden in part"): NOTHING.plus(waits, -0.5)}
        whole = replace(hidden, rules=rules)
        return Turned(whole, low=replace(player, costs=partly, rules=rules), high=whole)
    account = situation.measured.traced
    if account is None or account.steps is None or not account.steps.phases:
        raise NotPredictable("no annotated host phases in a trace say what would stand between the steps")
    phases = account.steps.phases
    rules = replace(player.rules, lag=False)

    def with_host(share: float) -> Player:
        added = StepCost(phases * share)
        return replace(player, costs={**player.costs, ("scheduling", "host phases"): added}, rules=rules)

    # The profiler slows the host by one to two times; what no range marks comes on top.
    return Turned(with_host(1.0), low=with_host(0.5), high=with_host(1.5))


def _graphs(situation: Situation, value: Value) -> Turned:
    """On: decode steps no longer wait for single launches. Off: a decode step takes at least its launches' time."""
    if not switch(value, "cuda_graph"):
        return launched(situation)
    account = situation.measured.traced
    if account is None or account.steps is None:
        raise NotPredictable("no trace with steps shows what launches cost")
    load, known = trace_load(account.steps)
    if (account.steps.graph_launches[known][load.prefill_tokens == 0] > 0).any():
        raise NotPredictable("decode steps replay graphs already; those that don't are beyond what was captured")
    return replaying(situation)


def replaying(situation: Situation) -> Turned:
    """Decode steps that no longer wait for single launches. Raises NotPredictable."""
    player, batch = situation.player, _usual_batch(situation)
    waits = _cost(player, lambda key: key[0] == "cuda_graph")
    taken = waits.seconds(batch, 0)
    if taken <= 1e-7:
        raise NotPredictable("decode steps do not wait for launches")
    # Kernels of a replayed graph also follow each other with less than the pause between launched ones, and a host
    # that launches once is early for its next step: between all of it and none.
    also = _cost(player, lambda key: key == ("kernel", GAPS))
    if player.model.overlapped:
        also = also.plus(_cost(player, lambda key: key[0] == "scheduling"))
    more = also.seconds(batch, 0)
    return Turned(
        _decode_only(player, -taken - 0.5 * more),
        low=_decode_only(player, -0.5 * taken),
        high=_decode_only(player, -taken - more),
    )


def launched(situation: Situation) -> Turned:
    """Decode steps that take at least the time of their launches. Raises NotPredictable."""
    player = situation.player
    least, step = launching(situation), player.cost.seconds(_usual_batch(situation), 0)

    def slowed(share: float) -> Player:
        return _decode_only(player, max(least * share - step, 0.0))

    return Turned(slowed(0.75), low=slowed(0.5), high=slowed(1.0))


def launching(situation: Situation) -> float:
    """Seconds that a host takes to launch the kernels of a decode step one by one. Raises NotPredictable."""
    account = situation.measured.traced
    if account is None or account.steps is None:
        raise NotPredictable("no trace with steps shows what launches cost")
    costs = account.steps
    eager = (costs.graph_launches == 0) & (costs.kernels > 0) & np.isfinite(costs.launching)
    if not eager.any():
        raise NotPredictable("no step of the trace ran eagerly, so the cost of launching is not known")
    replayed = costs.kernels[costs.graph_launches > 0]
    if not len(replayed):
        raise NotPredictable("no step of the trace replayed a graph: they are off already")
    return float(np.median(costs.launching[eager] / costs.kernels[eager])) * float(np.median(replayed))


def _usual_batch(situation: Situation) -> int:
    steps = situation.measured.steps
    if steps is None:
        return 1
    decode = steps.load.decode[steps.load.decode > 0]
    return int(np.median(decode)) if len(decode) else 1


def _decode_only(player: Player, seconds: float) -> Player:
    """``seconds`` more in every step that does not prefill."""
    added = StepCost(seconds, -seconds)
    return replace(player, costs={**player.costs, ("cuda_graph", "predicted"): added})


def _frontend(situation: Situation, value: Value) -> Turned:
    whole(value, "frontend_processes")
    if situation.measured.device == "cpu":
        raise NotPredictable("the model runs on the CPU itself: more processes would take cores from it")
    front = situation.player.front
    if not front.first:
        raise NotPredictable("the engine's histograms do not say how much of TTFT lies outside it")
    player = situation.player

    def shorter(share: float) -> Player:
        return replace(player, front=Front(share * front.first, share * front.last, front.turn))

    return Turned(shorter(0.75), low=player, high=shorter(0.5))


# What has to be equal for one run's times to stand for the other's: else they differ by more than the knob.
ALIKE: Final = (
    "engine.name", "model.name", "hardware.gpu", "hardware.device", "setting.dtype", "setting.quantization",
    "setting.kv_dtype",
)  # fmt: skip
LAYOUT: Final = (
    "setting.tensor_parallel", "setting.pipeline_parallel", "setting.data_parallel", "setting.expert_parallel",
)  # fmt: skip
ATTENTION: Final[Component] = ("kernel", "attention")


def other_with(situation: Situation, knob: str, value: Value, alike: tuple[str, ...]) -> Player:
    """The other run, where it ran with the value and is like this one in all else that its times depend on."""
    if situation.other is None or situation.shown is None:
        raise NotPredictable(
            f"nothing of this run says what another {knob} takes; a run with it (--against) would show it"
        )
    here, there = situation.measured.run, situation.shown.run
    if there.fact(f"setting.{knob}") != value:
        stated = there.fact(f"setting.{knob}")
        raise NotPredictable(f"the other run's {knob} is {'not known' if stated is None else stated}, not {value}")
    for key in alike:
        one, two = here.fact(key), there.fact(key)
        if one is not None and two is not None and one != two and key != f"setting.{knob}":
            raise NotPredictable(f"the runs differ in {key.rpartition('.')[2]} too ({one} and {two})")
    return situation.other


def _attention(situation: Situation, value: Value) -> Turned:
    """The other run's attention kernels at this run's compositions: alone, and with its launches and pauses, which
    another backend may bring along."""
    other = other_with(situation, "attention_backend", value, (*ALIKE, *LAYOUT))
    player = situation.player
    if ATTENTION not in player.costs or ATTENTION not in other.costs:
        raise NotPredictable("no trace of both runs shows what attention takes in a step")

    def taken(chosen: Callable[[Component], bool]) -> Player:
        kept = {key: cost for key, cost in player.costs.items() if not chosen(key)}
        return replace(player, costs=kept | {key: cost for key, cost in other.costs.items() if chosen(key)})

    alone = taken(lambda key: key == ATTENTION)
    launched = taken(lambda key: key in (ATTENTION, ("kernel", GAPS)) or key[0] == "cuda_graph")
    return Turned(alone, low=alone, high=launched)


def _layout(knob: str) -> Callable[[Situation, Value], Turned]:
    """All step times and the KV cache of a run at that layout: kernels, collectives and memory change at once."""

    def turn(situation: Situation, value: Value) -> Turned:
        wanted = value if isinstance(value, bool) else whole(value, knob)  # experts are shared, or by so many
        other = other_with(situation, knob, wanted, (*ALIKE, *LAYOUT, "setting.attention_backend"))
        pool = other.rules.kv_tokens
        turned = _ruled(situation, kv_tokens=pool if pool is not None else situation.player.rules.kv_tokens)
        changed = replace(turned.player, costs=other.costs, between=other.between)
        return Turned(changed, extrapolated=beyond(situation))

    return turn


def beyond(situation: Situation) -> bool:
    """Whether this run had fuller steps than the one that its times are taken from."""
    theirs, ours = (m.steps for m in (situation.shown, situation.measured) if m is not None)
    return theirs is not None and ours is not None and bool(theirs.load.decode.max() < 0.9 * ours.load.decode.max())


def _never(reason: str) -> Callable[[Situation, Value], Turned]:
    """A knob that no replay can play, whatever another run shows."""

    def turn(situation: Situation, value: Value) -> Turned:
        raise NotPredictable(reason)

    return turn


def _as_shown(knob: str) -> Callable[[Situation], tuple[Value, ...]]:
    """The other run's value: nothing else is known."""

    def candidates(situation: Situation) -> tuple[Value, ...]:
        value = None if situation.shown is None else situation.shown.run.fact(f"setting.{knob}")
        own = situation.measured.run.fact(f"setting.{knob}")
        return (value,) if isinstance(value, int | float | bool | str) and value != own else ()

    return candidates


def _stream(situation: Situation, value: Value) -> Turned:
    """Fewer chunks take less of the host. How much of the time between steps they take is not known: between none and
    all of it goes with the chunks that are saved. A first token is sent at once, whatever the interval."""
    every = whole(value, "stream_interval")
    stated = situation.measured.run.fact("setting.stream_interval")
    current = int(stated) if isinstance(stated, int | float) and stated >= 1 else 1
    waits = _cost(situation.player, lambda key: key[0] == "scheduling")
    if not waits.counts():
        raise NotPredictable("no trace shows time between steps, which is all that fewer chunks could save")
    saved = {**situation.player.costs, ("scheduling", "chunks"): NOTHING.plus(waits, current / every - 1.0)}
    fewer = replace(situation.player, costs=saved)
    return Turned(fewer, low=situation.player, high=fewer, midway=True)


def _cost(player: Player, chosen: Callable[[Component], bool]) -> StepCost:
    return summed(cost for key, cost in player.costs.items() if chosen(key))


def _without(player: Player, dropped: Callable[[Component], bool]) -> Player:
    return replace(player, costs={key: cost for key, cost in player.costs.items() if not dropped(key)})


def _always(*values: Value) -> Callable[[Situation], tuple[Value, ...]]:
    return lambda situation: values


EFFECTS: Final[Mapping[str, Effect]] = {
    effect.knob: effect
    for effect in (
        Effect("max_num_seqs", "sequences in a step", _sequences, _more_sequences,
               "more sequences raise throughput and the time per token, and fill the KV cache"),
        Effect("token_budget", "tokens in a step", _budget, _other_budgets,
               "more prompt tokens a step shorten TTFT and let decodes wait longer"),
        Effect("prefix_cache", "prefix cache", _cache, _always(True),
               "cached prefixes take KV cache; a benchmark must warm or flush it alike on both sides"),
        Effect("kv_tokens", "KV cache", _pool, _larger_pools, "memory that nothing else can use"),
        Effect("kv_dtype", "width of the KV cache", _narrow_cache, _always("fp8", "fp8_e4m3"),
               "accuracy; and attention takes another time, which is not predicted"),
        Effect("mixed_prefill", "prefill and decode in one step", _mixed, _always(True),
               "decodes no longer stall, steps get longer"),
        Effect("chunked_prefill", "chunking of prompts", _chunked, _always(True),
               "long prompts no longer hold up decodes, their own TTFT grows a little"),
        Effect("overlap", "host work beside the device", _overlap, _always(True),
               "a request that arrives joins one step later"),
        Effect("cuda_graph", "CUDA Graph", _graphs, _always(True), "memory and start-up time for the captures"),
        Effect("frontend_processes", "processes of the front end", _frontend, _always(2, 4), "CPU cores"),
        Effect("attention_backend", "attention kernels", _attention, _as_shown("attention_backend"),
               "graphs, cache widths and models that a backend does not take; and results differ in the last digits"),
        Effect("tensor_parallel", "devices that share a layer", _layout("tensor_parallel"),
               _as_shown("tensor_parallel"), "devices, and collectives in every layer"),
        Effect("expert_parallel", "devices that share the experts", _layout("expert_parallel"),
               _as_shown("expert_parallel"), "collectives, and experts that are not asked for alike"),
        Effect("pipeline_parallel", "stages of the model",
               _never("a pipeline has a step in each of its stages; a replay has one at a time"), _always(), "devices"),
        Effect("data_parallel", "copies of the engine",
               _never("each copy has a scheduler of its own; a replay has one"), _always(), "devices"),
        Effect("stream_interval", "tokens in a chunk", _stream, _always(),
               "tokens reach the client in bundles: its time between chunks grows by as much"),
    )
}  # fmt: skip
