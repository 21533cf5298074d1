"""A run as the replay sees it: its requests, its scheduler's rules, and its step time by cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from profiler.analyzers.gap.measured import Measured
from profiler.analyzers.gap.model import UNSHOWN, Component, RunModel
from profiler.analyzers.gap.replay import BASIS, Demand, Replayed, Rules, StepCost, replay
from profiler.analyzers.gap.shape import HINGES, Composite, StepShape

# Steps in which sequences wait for a prefill, of all steps that prefill beside sequences in decode: from here on the
# engine is taken to run prefills by themselves.
_APART: Final = 0.5
# Shares of the pool below this are too coarse in a log to say how large it is.
_IN_USE: Final = 0.05
NOTHING: Final = StepCost((0.0,) * len(BASIS))


@dataclass(frozen=True)
class Player:
    """Everything that a replay of one run needs. ``costs`` are seconds of a step by cause and part."""

    demand: Demand
    rules: Rules
    costs: Mapping[Component, StepCost]
    between: float
    client: float | None

    @property
    def cost(self) -> StepCost:
        """A whole step."""
        total = NOTHING
        for part in self.costs.values():
            total = total.plus(part)
        return total

    def play(self) -> Replayed:
        """The replay with the run's own parts. Raises ValueError where its requests can't be served."""
        return replay(self.demand, self.rules, self.cost, self.between, self.client or 0.0)


def player_of(measured: Measured, model: RunModel | None) -> Player | None:
    """None where the run lacks single requests or a step-time model, its arrivals are not known, or its requests do not
    fit into what is known of its scheduler."""
    demand = demand_of(measured)
    if demand is None or model is None or measured.steps is None:
        return None
    count = float(measured.steps.load.weight.sum())
    closed = demand.arrival is None
    player = Player(
        demand=demand,
        rules=rules_of(measured),
        costs=costs_of(measured, model),
        # An open loop waits for arrivals between its steps; a closed one that is never idle does not.
        between=measured.outside / count if closed and count else 0.0,
        client=client_seconds(measured),
    )
    return _fitting(player, measured)


def _fitting(player: Player, measured: Measured) -> Player:
    """With the lag that reproduces the run's mean TTFT better: an asynchronous scheduler whose steps are short does not
    show it in their times."""
    table = measured.bench.requests
    if table is None or measured.run.fact("setting.overlap") is False:
        return player
    mean = float(np.nanmean(table.ttft[table.ok]))
    other = replace(player, rules=replace(player.rules, lag=not player.rules.lag))
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
    computed = measured.computed_ratio()
    return Demand(
        prompt=table.input_tokens[rows],
        output=table.output_tokens[rows],
        arrival=arrival,
        concurrency=measured.bench.max_concurrency,
        computed=1.0 if computed is None else float(np.clip(computed, 0.0, 1.0)),
    )


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
    chunked = measured.run.fact("setting.chunked_prefill")
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
        lag=steps.lagged,
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


def client_seconds(measured: Measured) -> float | None:
    """What of a mean TTFT the engine's own histograms do not hold; None where it has none, or where they hold more than
    the client saw."""
    counters, table = measured.counters, measured.bench.requests
    known = [counters.get(f"{name}_count") for name in ("queue_seconds", "prefill_seconds")]
    if table is None or not all(known):
        return None
    inside = sum(counters[f"{name}_sum"] / counters[f"{name}_count"] for name in ("queue_seconds", "prefill_seconds"))
    mean = float(np.nanmean(table.ttft[table.ok])) if table.ok.any() else 0.0
    return mean - inside if mean >= inside else None


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
    """A shape in the replay's basis."""
    if isinstance(shape, Composite):
        total = NOTHING
        for part in shape.parts:
            total = total.plus(linear(part))
        return total
    step, prefill_step, token, sequence = shape.cost.tolist()
    tokens = [token if hinge == shape.hinge else 0.0 for hinge in HINGES]
    return StepCost((step, prefill_step, sequence, *tokens))
