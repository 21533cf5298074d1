"""Which ledger explains a metric: the accounting of the steps, or the replays of the requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from profiler.analyzers.gap.accounting import per_output_token, split
from profiler.analyzers.gap.intervals import REPLICATES, replica_of
from profiler.analyzers.gap.ledger import Context, Ledger
from profiler.analyzers.gap.metrics_split import mean_tpot, mean_ttft, throughput
from profiler.analyzers.gap.model import RunModel
from profiler.analyzers.gap.played import Player, player_of
from profiler.analyzers.gap.shares import Shares, booked, shares_of
from profiler.analyzers.gap.view import View
from profiler.analyzers.metrics import THROUGHPUTS
from profiler.store.side_by_side import side_by_side

DEFAULT_METRICS: Final = ("output_throughput", "mean_ttft", "mean_tpot", "mean_e2e")
# A metric that only the replay explains is shown without a split where it leaves more than this.
MOST_UNEXPLAINED: Final = 0.5
WELL_EXPLAINED: Final = 0.15
# Of a metric itself, not of its gap.
REPRODUCED: Final = 0.03
# How much rows that cancel each other count against an account.
CANCELLING: Final = 0.1
# An account that leaves this share of what the replay leaves is the better one.
CLEARLY: Final = 0.25
Sides = tuple[Mapping[str, float], Mapping[str, float]]


@dataclass(frozen=True)
class Played:
    """Both runs as replayed, and the shares that replays of their mixtures give."""

    a: Player
    b: Player
    shares: Shares


def played_pair(view: View) -> Played | None:
    """Both runs replayed; None where a run lacks what that needs, or its requests could not be served."""
    a, b, model_a, model_b = view.a, view.b, view.model_a, view.model_b
    if model_a is None or model_b is None or a.steps is None or b.steps is None:
        return None
    one, two = player_of(a, model_a), player_of(b, model_b)
    if one is None or two is None:
        return None
    part = split(model_a, per_output_token(a.steps.load, a.tokens), model_b, per_output_token(b.steps.load, b.tokens))
    shares = shares_of(one, two, view.context, part)
    return None if shares is None else Played(one, two, shares)


def ledger_of(
    metric: str, view: View, values: Sides, replicas: Sequence[Drawn], played: Played | None
) -> tuple[Ledger | None, list[Mapping[str, float]]]:
    """(the ledger, its replicates by cause); no ledger where the metric has no split or a run no steps.

    Throughput is accounted for, unless the rows cancel each other by more than the gap: then causes act on each other,
    and a replay that explains it well says how. A latency is replayed where that leaves little of it unexplained, or
    less than the accounting does, whose rows may cancel. A TTFT also where it leaves little of the TTFT itself and
    explains most of the gap (some of it, where the schedulers follow other rules): the accounting knows neither what
    rules do to a queue nor when in a load the prompts come. Under the same rules an accounting that leaves far less
    than the replay is kept all the same.
    """
    ledger = None
    if view.model_a is not None and view.model_b is not None:
        ledger = accounted((metric,), view.context, view.model_a, view.model_b, values).get(metric)
    causes = [] if ledger is None else [replica.causes[metric] for replica in replicas]
    if played is None:
        return ledger, causes
    if metric in THROUGHPUTS:
        a, b = view.a, view.b
        gap = b.duration / max(b.tokens, 1) - a.duration / max(a.tokens, 1)
        other = booked(played.shares, "seconds_per_output_token", played.a, played.b, gap, ledger)
        acts = ledger is not None and ledger.excess(gap) > abs(gap) and other.left() <= WELL_EXPLAINED * abs(gap)
        return (other if acts else ledger), causes
    if metric not in played.shares.amounts:
        return ledger, causes
    gap = values[1][metric] - values[0][metric]
    other = booked(played.shares, metric, played.a, played.b, gap, ledger)
    if ledger is None:
        return (other, []) if other.left() <= MOST_UNEXPLAINED * abs(gap) else (None, [])
    accounts = ledger.left() + CANCELLING * ledger.excess(gap)
    enough = max(WELL_EXPLAINED * abs(gap), accounts)
    if metric.endswith("ttft"):
        other_rules = played.a.rules != played.b.rules
        most = abs(gap) if other_rules else MOST_UNEXPLAINED * abs(gap)
        if other_rules or accounts > CLEARLY * other.left():
            enough = max(enough, min(REPRODUCED * 0.5 * (values[0][metric] + values[1][metric]), most))
    return (other, causes) if other.left() <= enough else (ledger, causes)


@dataclass(frozen=True)
class Drawn:
    """One replicate: its gap in seconds per output token, and the amounts by cause of each metric that is split."""

    gap: float
    causes: Mapping[str, Mapping[str, float]]


def drawn_of(metrics: Sequence[str], view: View, values: Sides) -> list[Drawn]:
    """The replicates, the same ones for every metric; none where a run has no steps. They are made side by side, and of
    each only its amounts are held."""
    model_a, model_b = view.model_a, view.model_b
    if model_a is None or model_b is None or not metrics:
        return []
    models = model_a, model_b

    def drawn(number: int) -> Drawn:
        replica = replica_of(view.a, view.b, models, number)
        context = Context(replica.a, replica.b, view.context.clock_ratio)
        ledgers = accounted(metrics, context, replica.model_a, replica.model_b, values)
        return Drawn(replica.gap, {metric: ledger.by_cause() for metric, ledger in ledgers.items()})

    return side_by_side(drawn, range(REPLICATES))


def accounted(
    metrics: Sequence[str], context: Context, one: RunModel, two: RunModel, values: Sides
) -> dict[str, Ledger]:
    """The ledgers that the accounting of the steps gives, of those metrics that it splits. End-to-end is split as its
    first token and the rest; a tool that states no TPOT leaves it whole."""
    found: dict[str, Ledger] = {}
    # A latency is made of steps as they are, whatever other engines do beside them.
    alone = one.alone, two.alone
    for metric in dict.fromkeys(metrics):
        if metric in THROUGHPUTS:
            found[metric] = throughput(context, one, two)
        elif metric == "mean_ttft":
            found[metric] = mean_ttft(context, *alone, values)
        elif metric == "mean_tpot":
            found[metric] = mean_tpot(context, *alone, values)
        elif metric == "mean_e2e" and all({"mean_ttft", "mean_tpot"} <= side.keys() for side in values):
            first = found.get("mean_ttft") or mean_ttft(context, *alone, values)
            rest = found.get("mean_tpot") or mean_tpot(context, *alone, values)
            found[metric] = _end_to_end(context, first, rest)
    return found


def _end_to_end(context: Context, first: Ledger, rest: Ledger) -> Ledger:
    ledger = Ledger(extrapolated=first.extrapolated | rest.extrapolated)
    decoded = 0.5 * sum(m.tokens / max(m.bench.completed, 1) - 1 for m in (context.a, context.b))
    for part, times in ((first, 1.0), (rest, decoded)):
        for (cause, name), amount in part.amounts.items():
            ledger.add(cause, name, amount * times, part.levels[cause, name] * times)
    return ledger
