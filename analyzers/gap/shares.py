"""Shares by Shapley value: how much of a gap each cause makes, judged by replays with its parts from one run or both.

Each cause is a player whose part (a term of the step time, a limit, a hit rate, a delay) is A's or B's. A metric under
every mixture is what a replay of the requests gives; a cause's share is its average effect over all orders of taking
the causes one by one. The shares add up to the gap between the two replays; what the replays leave of the measured gap
is unexplained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from math import factorial
from typing import Final

import numpy as np

from profiler.analyzers.gap.accounting import Split
from profiler.analyzers.gap.contention import known
from profiler.analyzers.gap.ledger import (
    HELD,
    LATER,
    UNEXPLAINED,
    Context,
    Ledger,
    clock_part,
    cover,
    held_by_launches,
    held_by_schedule,
    launches_share,
)
from profiler.analyzers.gap.mixed import Contended, Side, settle
from profiler.analyzers.gap.model import Component
from profiler.analyzers.gap.played import NOTHING, Player, linear
from profiler.analyzers.gap.replay import Demand, Front, Paced, StepCost, replay
from profiler.store.side_by_side import side_by_side

# More requests than this are not replayed: the first of them show the same steady state.
MOST_REQUESTS: Final = 800
# Up to here every mixture is played; beyond, orders are drawn.
EXACT_PLAYERS: Final = 7
_ORDERS: Final = 24
_SEED: Final = 20_261_130
# The causes of what is not the device's in a step.
HOST_SIDE: Final = ("cuda_graph", "scheduling", UNEXPLAINED)
Values = Mapping[str, float]


@dataclass(frozen=True)
class Shares:
    """``amounts[metric][cause]`` in the metric's unit, B minus A; they add up to ``b[metric] - a[metric]``, the gap of
    the replays. ``parts`` splits the step-time causes by component (fractions of each cause). Throughputs appear as
    ``seconds_per_output_token``. ``error`` is the standard error of drawn orders (0 where every mixture was played).
    ``launching`` is the change in what launch calls take, seconds per output token."""

    amounts: Mapping[str, Mapping[str, float]]
    parts: Mapping[str, Mapping[str, float]]
    a: Values
    b: Values
    error: Mapping[str, float]
    launching: float


@dataclass(frozen=True)
class _Mixture:
    """What each cause changes when its parts come from B."""

    a: Player
    b: Player
    deltas: Mapping[str, StepCost]
    contended: Contended | None

    def cost(self, causes: frozenset[str]) -> Paced:
        """A step's time with the parts of these causes from B."""
        if self.contended is not None:
            return self.contended.mixture(causes)
        cost = self.a.cost
        for cause, delta in self.deltas.items():
            if cause in causes:
                cost = cost.plus(delta)
        return cost

    def play(self, causes: frozenset[str]) -> Values:
        a, b = self.a, self.b
        rules, demand = a.rules, a.demand
        if "batching" in causes:
            rules = replace(rules, max_seqs=b.rules.max_seqs, budget=b.rules.budget, chunked=b.rules.chunked)
        if "scheduling" in causes:
            rules = replace(rules, mixed=b.rules.mixed, lag=b.rules.lag)
        if "memory" in causes:
            rules = replace(rules, kv_tokens=b.rules.kv_tokens)
        if "workload" in causes:
            demand = b.demand
        if len(a.demand) == len(b.demand):
            demand = replace(demand, computed=(b if "memory" in causes else a).demand.computed)
        between = (b if "scheduling" in causes else a).between
        front = (b if "frontend" in causes else a).front
        found = replay(demand, rules, self.cost(causes), between, front).metrics()
        return found | {"seconds_per_output_token": 1.0 / found["output_throughput"]}


def shares_of(a: Player, b: Player, context: Context, part: Split) -> Shares | None:
    """None where a mixture can't be served. ``part`` is the accounting's split of throughput: it says how much of the
    idle time between steps the launches hold, and how much of the kernels' time is the clock's."""
    a, b = _alike(shortened(a), shortened(b))
    deltas, parts = _deltas(a, b, context, part)
    contended = _contended(a, b, context, part) if known(a.model, b.model) else None
    mixture = _Mixture(a, b, deltas, contended)
    players = _players(a, b, deltas, contended)
    values: dict[frozenset[str], Values] = {}

    def value(causes: frozenset[str]) -> Values:
        if causes not in values:
            values[causes] = mixture.play(causes)
        return values[causes]

    try:
        if len(players) <= EXACT_PLAYERS:
            every = [frozenset(some) for size in range(len(players) + 1) for some in combinations(players, size)]
            values.update(zip(every, side_by_side(mixture.play, every), strict=True))
        amounts, error = (_exact if len(players) <= EXACT_PLAYERS else _drawn)(players, value)
        ends = value(frozenset()), value(frozenset(players))
    except ValueError:
        return None
    return Shares(amounts, parts, *ends, error, part.launching)


def booked(shares: Shares, metric: str, a: Player, b: Player, gap: float, levels: Ledger | None) -> Ledger:
    """A metric's shares as a ledger whose rows add up to the measured ``gap``. ``levels`` is the accounting's ledger of
    the same metric, for the sizes that intervals need; without one an amount is its own size."""
    ledger = Ledger()
    for cause, amount in shares.amounts[metric].items():
        level = abs(amount) if levels is None else max(levels.level_of(cause), abs(amount))
        for name, share in (shares.parts.get(cause) or {_named(cause, a, b): 1.0}).items():
            ledger.add(cause, name, amount * share, level * abs(share))
    cover(ledger, shares.launching)
    ledger.add(UNEXPLAINED, "the replay's error", gap - sum(ledger.amounts.values()))
    return ledger


def _named(cause: str, a: Player, b: Player) -> str:
    """What the rules and requests of a cause differ in."""
    one, two = a.rules, b.rules
    if cause == "batching":
        if one.max_seqs != two.max_seqs:
            return "steps held to the sequence limit"
        return "steps held to the token budget" if one.budget != two.budget else "chunking of prompts"
    if cause == "memory":
        cached = a.demand.share != b.demand.share
        return "prompt tokens computed" if cached else "fewer sequences fit in the KV cache"
    if cause == "scheduling":
        return "decodes stalled by prefills" if one.mixed != two.mixed else "when a step's batch is chosen"
    return {"frontend": "between client and engine", "workload": "the requests"}.get(cause, "several parts that cancel")


def shortened(player: Player) -> Player:
    """The player with at most MOST_REQUESTS of its requests, the first."""
    demand = player.demand
    if len(demand) <= MOST_REQUESTS:
        return player
    rows = slice(0, MOST_REQUESTS)
    kept = replace(
        demand,
        prompt=demand.prompt[rows],
        output=demand.output[rows],
        computed=demand.computed[rows],
        arrival=None if demand.arrival is None else demand.arrival[rows],
    )
    return replace(player, demand=kept, duration=None)


def _alike(a: Player, b: Player) -> tuple[Player, Player]:
    """What only one run knows is left out of both; arrivals of one plan, and how quickly the client of a closed loop
    sends its next request, are the same for both."""
    turn = 0.5 * (a.front.turn + b.front.turn)
    known_both = a.front.first and b.front.first
    a, b = (replace(p, front=replace(p.front, turn=turn) if known_both else Front(turn=turn)) for p in (a, b))
    if _same(a.demand, b.demand) and a.demand.arrival is not None and b.demand.arrival is not None:
        middle = 0.5 * (a.demand.arrival + b.demand.arrival)
        a = replace(a, demand=replace(a.demand, arrival=middle))
        b = replace(b, demand=replace(b.demand, arrival=middle))
    return a, b


def _deltas(
    a: Player, b: Player, context: Context, part: Split
) -> tuple[dict[str, StepCost], dict[str, dict[str, float]]]:
    """What a step costs more in B, by cause; and each cause's components as fractions of it on the runs' own steps."""
    held, back = held_by_launches(part), held_by_schedule(part)
    deltas: dict[str, StepCost] = {}
    sizes: dict[str, dict[str, float]] = {}

    def add(cause: str, name: str, delta: StepCost, factor: float, size: float) -> None:
        if factor:
            deltas[cause] = deltas.get(cause, NOTHING).plus(delta, factor)
            rows = sizes.setdefault(cause, {})
            rows[name] = rows.get(name, 0.0) + factor * size

    for key in dict.fromkeys((*a.costs, *b.costs)):
        delta = b.costs.get(key, NOTHING).plus(a.costs.get(key, NOTHING), -1.0)
        size = part.rates.get(key, 0.0)
        clock = _clock_share(key, part, context)
        moved = held if key[0] == "scheduling" else 0.0
        later = back if key[0] == "cuda_graph" else 0.0
        add("hardware", "clock of the device", delta, clock, size)
        add("cuda_graph", HELD, delta, moved, size)
        add("scheduling", LATER, delta, later, size)
        add(key[0], key[1], delta, 1.0 - clock - moved - later, size)
    fractions = {}
    for cause, rows in sizes.items():
        total = sum(rows.values())
        # Components that nearly cancel say nothing of a share.
        if abs(total) > 0.1 * sum(abs(size) for size in rows.values()):
            fractions[cause] = {name: size / total for name, size in rows.items()}
    return deltas, fractions


def _contended(a: Player, b: Player, context: Context, part: Split) -> Contended:
    """Both runs' steps with the device's changes by cause."""
    changes: dict[str, StepCost] = {}
    for key in dict.fromkeys((*a.model.device, *b.model.device)):
        shapes = [linear(model.device[key]) if key in model.device else NOTHING for model in (a.model, b.model)]
        delta, clock = shapes[1].plus(shapes[0], -1.0), _clock_share(key, part, context)
        for cause, share in (("hardware", clock), (key[0], 1.0 - clock)):
            if share:
                changes[cause] = changes.get(cause, NOTHING).plus(delta, share)
    both_serial = not a.model.overlapped and not b.model.overlapped
    sides = Side(a), Side(b)
    for side, player in zip(sides, (a, b), strict=True):
        if player.rules.lag and player.duration is not None:
            settle(side, player, player.duration)
    return Contended(*sides, changes, launches_share(part), both_serial)


def _clock_share(key: Component, part: Split, context: Context) -> float:
    amount = part.rates.get(key, 0.0)
    if not amount:
        return 0.0
    return clock_part(key, amount, part.rates_level.get(key, 0.0), context.clock_ratio) / amount


def _players(a: Player, b: Player, deltas: Mapping[str, StepCost], contended: Contended | None) -> tuple[str, ...]:
    """The causes in which the runs differ at all."""
    found = [cause for cause, delta in deltas.items() if delta.counts()]
    if contended is not None and found:
        found += [*(cause for cause, delta in contended.device.items() if delta.counts()), *HOST_SIDE]
    one, two = a.rules, b.rules
    if (one.max_seqs, one.budget, one.chunked) != (two.max_seqs, two.budget, two.chunked):
        found.append("batching")
    if (one.mixed, one.lag) != (two.mixed, two.lag) or a.between != b.between:
        found.append("scheduling")
    if one.kv_tokens != two.kv_tokens or a.demand.share != b.demand.share:
        found.append("memory")
    if a.front != b.front:
        found.append("frontend")
    if not _same(a.demand, b.demand):
        found.append("workload")
    return tuple(dict.fromkeys(found))


def _same(a: Demand, b: Demand) -> bool:
    """The same requests, sent the same way. Arrivals of one open-loop plan differ by what sending them late costs."""
    if len(a) != len(b) or a.concurrency != b.concurrency or (a.arrival is None) != (b.arrival is None):
        return False
    if not ((a.prompt == b.prompt).all() and (a.output == b.output).all()):
        return False
    return a.arrival is None or b.arrival is None or bool(np.allclose(a.arrival, b.arrival, atol=0.1))


Amounts = dict[str, dict[str, float]]


def _exact(players: tuple[str, ...], value: Callable[[frozenset[str]], Values]) -> tuple[Amounts, dict[str, float]]:
    """Shapley values from every mixture."""
    metrics = value(frozenset())
    amounts: Amounts = {metric: dict.fromkeys(players, 0.0) for metric in metrics}
    n = len(players)
    for mask in range(1 << n):
        chosen = frozenset(p for i, p in enumerate(players) if mask >> i & 1)
        before = value(chosen)
        weight = factorial(len(chosen)) * factorial(n - len(chosen) - 1) / factorial(n) if len(chosen) < n else 0.0
        for player in players:
            if player not in chosen:
                after = value(chosen | {player})
                for metric, row in amounts.items():
                    row[player] += weight * (after.get(metric, 0.0) - before.get(metric, 0.0))
    return amounts, dict.fromkeys(metrics, 0.0)


def _drawn(players: tuple[str, ...], value: Callable[[frozenset[str]], Values]) -> tuple[Amounts, dict[str, float]]:
    """Shapley values from drawn orders, each with its reverse; the error is that of the largest cause."""
    rng = np.random.default_rng(_SEED)
    metrics = tuple(value(frozenset()))
    effects = np.zeros((_ORDERS, len(players), len(metrics)))
    order: list[int] = []
    for i in range(_ORDERS):
        order = rng.permutation(len(players)).tolist() if i % 2 == 0 else order[::-1]
        chosen: frozenset[str] = frozenset()
        before = value(chosen)
        for index in order:
            chosen = chosen | {players[index]}
            after = value(chosen)
            effects[i, index] = [after.get(m, 0.0) - before.get(m, 0.0) for m in metrics]
            before = after
    mean, spread = effects.mean(axis=0), effects.std(axis=0) / np.sqrt(_ORDERS)
    amounts = {m: dict(zip(players, mean[:, j].tolist(), strict=True)) for j, m in enumerate(metrics)}
    return amounts, {m: float(spread[:, j].max()) for j, m in enumerate(metrics)}
