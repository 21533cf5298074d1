"""A run as the replay sees it: its requests, its scheduler's rules, and its step time by cause."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from profiler.analyzers.gap.load import Load
from profiler.analyzers.gap.measured import Measured
from profiler.analyzers.gap.model import UNSHOWN, Component, RunModel, overlaps
from profiler.analyzers.gap.replay import SHORTEST, Demand, Front, Replayed, Rules, StepCost, replay, summed
from profiler.analyzers.gap.shape import Composite, StepShape
from profiler.model.requests import BenchResult, Floats, Ints

# Steps in which sequences wait for a prefill, of all steps that prefill beside sequences in decode: from here on the
# engine is taken to run prefills by themselves.
_APART: Final = 0.5
# Shares of the pool below this are too coarse in a log to say how large it is.
_IN_USE: Final = 0.05
# A replay that takes this much longer or shorter than its run does not stand for it.
_ABOUT_AS_LONG: Final = 0.1
NOTHING: Final = StepCost()


@dataclass(frozen=True)
class Apart:
    """What steps take where one sum of parts can't say it: of those that only decode, replayed steps and others, by
    their sequences (``decodes``); and those that prefill (``prefills``). ``known`` is the whole step that they were
    read beside, so that what changes in the parts since counts too."""

    decodes: Callable[[int], float]
    prefills: StepCost
    known: StepCost


@dataclass(frozen=True)
class _Told:
    """Steps as they are told apart, with what changed in their parts since."""

    cost: StepCost
    apart: Apart

    def seconds(self, decode: int, prefill_tokens: int) -> float:
        since = self.cost.signed(decode, prefill_tokens) - self.apart.known.signed(decode, prefill_tokens)
        own = self.apart.prefills.signed(decode, prefill_tokens) if prefill_tokens else self.apart.decodes(decode)
        return max(own + since, SHORTEST)

    def pipelined(self, decode: int, prefill_tokens: int) -> tuple[float, float]:
        return self.seconds(decode, prefill_tokens), 0.0


@dataclass(frozen=True)
class Player:
    """Everything that a replay of one run needs. ``costs`` are seconds of a step by cause and part; ``duration`` is how
    long the run took for these requests, None where that is not known; ``apart`` tells kinds of steps apart.
    """

    demand: Demand
    rules: Rules
    costs: Mapping[Component, StepCost]
    between: float
    front: Front
    model: RunModel
    duration: float | None
    apart: Apart | None = None

    @property
    def cost(self) -> StepCost:
        """A whole step."""
        return summed(self.costs.values())

    def play(self) -> Replayed:
        """The replay with the run's own parts. Raises ValueError where its requests can't be served."""
        cost = self.cost if self.apart is None else _Told(self.cost, self.apart)
        return replay(self.demand, self.rules, cost, self.between, self.front)


def player_of(measured: Measured, model: RunModel | None) -> Player | None:
    """None where the run lacks single requests or a step-time model, its arrivals are not known, its requests do not
    fit into what is known of its scheduler, or several engines shared them: which took which is not known."""
    demand = demand_of(measured)
    if demand is None or model is None or measured.steps is None or measured.steps.parallel > 1:
        return None
    count = float(measured.steps.load.weight.sum())
    closed = demand.arrival is None
    player = Player(
        demand=demand,
        rules=rules_of(measured),
        costs=costs_of(measured, model),
        # An open loop waits for arrivals between its steps; a closed one that is never idle does not.
        between=measured.outside / count if closed and count else 0.0,
        front=front_of(measured),
        model=model,
        duration=measured.duration,
    )
    return _fitting(player, measured)


def with_all_steps(measured: Measured, model: RunModel) -> Measured:
    """The run with the steps that a replay of its requests takes at the trace's own step times, where only the few
    annotated steps of a trace say what steps it had: these miss how a load begins and ends. As it was where the replay
    does not take about as long as the run did."""
    steps = measured.steps
    if steps is None or steps.table is not None or not model.device or model.scaled:
        return measured
    player = player_of(measured, replace(model, step=Composite((*model.device.values(), *model.host.values()))))
    try:
        played = None if player is None else player.play()
    except ValueError:
        return measured
    if played is None or abs(played.duration / measured.duration - 1.0) > _ABOUT_AS_LONG:
        return measured
    decode, tokens, prompts, count = played.composition.T.astype(np.float64)
    load = Load(decode, tokens, prompts, np.zeros(len(decode)), count)
    source = (
        f"a replay of {measured.bench.path} at the step times of {steps.source.partition(':')[0]} "
        f"({played.duration / measured.duration - 1.0:+.1%} of its duration)"
    )
    return replace(measured, steps=replace(steps, load=load, source=source))


def _fitting(player: Player, measured: Measured) -> Player:
    """With a lag where that reproduces the run's mean TTFT better: an asynchronous scheduler whose steps are short does
    not show it in their times."""
    table = measured.bench.requests
    if table is None or player.rules.lag or measured.run.fact("setting.overlap") is False:
        return player
    mean = float(np.nanmean(table.ttft[table.ok]))
    other = replace(player, rules=replace(player.rules, lag=True))
    try:
        distance = [abs(np.log(float(p.play().ttft.mean()) / mean)) for p in (player, other)]
    except ValueError:
        return player
    return other if distance[1] < 0.5 * distance[0] else player


def demand_of(measured: Measured) -> Demand | None:
    """The recorded requests; failed ones are left out, as the engine did little for them."""
    table = measured.bench.requests
    if table is None:
        return None
    rows = table.ok & (table.output_tokens > 0) & (table.input_tokens > 0)
    if not rows.any():
        return None
    rate = measured.bench.request_rate
    arrival = None
    if rate is not None and rate < float("inf"):
        start = table.start[rows]
        if not np.isfinite(start).all():
            return None
        arrival = start - start.min()
    prompt = table.input_tokens[rows]
    return Demand(
        prompt=prompt,
        output=table.output_tokens[rows],
        arrival=arrival,
        concurrency=measured.bench.max_concurrency,
        computed=_computed(measured, prompt, arrival),
    )


def _computed(measured: Measured, prompt: Ints, arrival: Floats | None) -> Floats:
    """(n,) the share of each prompt that no cache holds, in the order in which the requests are served."""
    ratio, steps = measured.computed_ratio(), measured.steps
    if ratio is None or ratio >= 1.0:
        return np.ones(len(prompt))
    total = float(prompt.sum())
    if steps is not None and steps.exact and steps.table is not None:
        # Each step says how many prompts it held, and how many of their tokens it computed.
        table = steps.table
        rows = table.prefill_requests > 0
        served = np.cumsum(table.prefill_requests[rows]).astype(np.float64)
        group = np.searchsorted(served * len(prompt) / served[-1], np.arange(len(prompt)) + 0.5)
        asked = np.bincount(group, prompt, minlength=len(served))
        shares = np.clip(np.maximum(table.prefill_tokens[rows], 0) / np.maximum(asked, 1.0), 0.0, 1.0)[group]
        return np.clip(shares * ratio * total / max(float(shares @ prompt), 1.0), 0.0, 1.0)
    # What the first step takes finds an empty cache, so the others find more than the average.
    rules = rules_of(measured)
    most = min(rules.max_seqs or len(prompt), measured.bench.max_concurrency or len(prompt))
    cold = (np.cumsum(prompt) <= (rules.budget or total)) & (np.arange(len(prompt)) < most)
    if arrival is not None:
        cold &= arrival <= arrival.min()
    rest = total - float(prompt[cold].sum())
    share = max((ratio * total - (total - rest)) / rest, 0.0) if rest else 1.0
    return np.where(cold, 1.0, share)


def _turn(bench: BenchResult) -> float:
    """Seconds from the end of a response to the request that a closed loop sends in its place; 0 where the records do
    not show it."""
    table, most = bench.requests, bench.max_concurrency
    if table is None or not most or len(table) <= most or not np.isfinite(table.start).all():
        return 0.0
    ended, began = np.sort(table.start + table.e2e), np.sort(table.start)
    turns = began[most:] - ended[: len(began) - most]
    known = turns[np.isfinite(turns)]
    return float(np.median(known)) if len(known) else 0.0


def rules_of(measured: Measured) -> Rules:
    """The scheduler's rules, from the settings in force and from what the steps show."""
    settings, steps = measured.settings, measured.steps
    assert steps is not None
    load = steps.load
    prefilling = load.prefill_requests > 0
    beside = prefilling & (load.decode > 0)
    waited = prefilling & (load.stalled > 0)
    seen = float(load.weight[beside].sum() + load.weight[waited].sum())
    apart = float(load.weight[waited].sum()) / seen > _APART if seen else False
    stated = measured.run.fact("setting.chunked_prefill")
    chunked = measured.run.fact("default.chunked_prefill") if stated is None else stated
    budget = settings.get("token_budget")
    pool = settings.get("kv_tokens")
    if pool is None and {"kv_blocks", "kv_block_size"} <= settings.keys():
        pool = settings["kv_blocks"] * settings["kv_block_size"]
    return Rules(
        max_seqs=int(settings["max_num_seqs"]) if settings.get("max_num_seqs") else None,
        budget=int(budget) if budget and budget > 0 else None,
        chunked=chunked is not False,
        mixed=not apart,
        kv_tokens=int(pool) if pool else _pool_in_use(measured),
        lag=overlaps(measured),
    )


def _pool_in_use(measured: Measured) -> int | None:
    """The KV cache's size in tokens where no setting states it: what the running sequences hold, on average half of
    their output grown, over the share of the pool that it fills."""
    steps, bench = measured.steps, measured.bench
    if steps is None or steps.table is None or not bench.completed:
        return None
    table = steps.table
    running = np.maximum(table.decode_requests, 0) + np.maximum(table.prefill_requests, 0)
    known = np.isfinite(table.kv_usage) & (table.kv_usage > _IN_USE) & (running > 0)
    if not known.any():
        return None
    held = (bench.total_input_tokens + 0.5 * bench.total_output_tokens) / bench.completed
    return int(float(running[known].sum()) * held / float(table.kv_usage[known].sum()))


def front_of(measured: Measured) -> Front:
    """What of a mean TTFT and of the rest of a response the engine's own histograms do not hold. Zero where it has
    none, or where they hold more than the client saw."""
    counters, table = measured.counters, measured.bench.requests
    turn = _turn(measured.bench)
    inside = measured.first_token()
    if table is None or not table.ok.any() or inside is None:
        return Front(turn=turn)
    ttft, e2e = (float(np.nanmean(values[table.ok])) for values in (table.ttft, table.e2e))
    if ttft < inside:
        return Front(turn=turn)
    first = last = ttft - inside
    if counters.get("decode_seconds_count"):
        # The rest of a response can be late by less than its beginning, where only that is held up.
        last = max(first + e2e - ttft - counters["decode_seconds_sum"] / counters["decode_seconds_count"], 0.0)
    return Front(first, last, turn)


def costs_of(measured: Measured, model: RunModel) -> dict[Component, StepCost]:
    """The step time by component; together they are the model's step.

    The scaling of the traced parts is that of the run's own steps: one factor a run, so that each part stays linear.
    """
    assert measured.steps is not None
    load = measured.steps.load
    whole = linear(model.step)
    if not model.device:
        return {model.whole: whole}
    scaled = model.components(load)
    found: dict[Component, StepCost] = {}
    for key, shape in (*model.device.items(), *model.host.items()):
        traced = shape.total(load)
        part = NOTHING if traced <= 0 else NOTHING.plus(linear(shape), scaled.get(key, 0.0) / traced)
        found[key] = found.get(key, NOTHING).plus(part)
    rest = whole
    for part in found.values():
        rest = rest.plus(part, -1.0)
    found[UNSHOWN] = rest
    return found


def linear(shape: StepShape) -> StepCost:
    """A shape as the replay asks it."""
    if isinstance(shape, Composite):
        return summed(linear(part) for part in shape.parts)
    step, prefill_step, token, sequence = shape.cost.tolist()
    return StepCost(step, prefill_step, sequence, ((shape.hinge, token),) if token else ())
