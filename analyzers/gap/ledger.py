"""The rows of a gap while they are gathered: amounts by cause and part, with what an interval needs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from profiler.analyzers.gap.accounting import Split
from profiler.analyzers.gap.measured import Limit, Measured
from profiler.analyzers.gap.model import Component

UNEXPLAINED: Final = "unexplained"
# Parts that count as another cause than the idle time they are made of.
HELD: Final = "idle while launches hold the host"
LATER: Final = "launches that come later"
COVERED: Final = "idle time that kernels cover"
# The causes of what takes longer on the device itself.
DEVICE: Final = ("kernel", "communication")


@dataclass
class Ledger:
    """``amounts[(cause, part)]`` adds up to the gap; ``levels`` is the size of that part in the runs themselves."""

    amounts: defaultdict[Component, float] = field(default_factory=lambda: defaultdict(float))
    levels: defaultdict[Component, float] = field(default_factory=lambda: defaultdict(float))
    extrapolated: set[str] = field(default_factory=set)

    def add(self, cause: str, part: str, amount: float, level: float = 0.0) -> None:
        """Add to a row; ``level`` is a magnitude in the same unit."""
        self.amounts[cause, part] += amount
        self.levels[cause, part] += abs(level)

    def by_cause(self) -> dict[str, float]:
        """The amount of every cause that has a row."""
        found: defaultdict[str, float] = defaultdict(float)
        for (cause, _), amount in self.amounts.items():
            found[cause] += amount
        return dict(found)

    def left(self) -> float:
        """How much stays unexplained: parts that cancel count both."""
        return sum(abs(amount) for (cause, _), amount in self.amounts.items() if cause == UNEXPLAINED)

    def excess(self, gap: float) -> float:
        """What the causes' rows hold beyond the gap: amounts that cancel each other."""
        return max(sum(abs(amount) for amount in self.by_cause().values()) - abs(gap), 0.0)

    def level_of(self, cause: str) -> float:
        """The size that a cause's parts have in the runs."""
        return sum(level for (name, _), level in self.levels.items() if name == cause)


@dataclass(frozen=True)
class Context:
    """What decides how a change of composition is named."""

    a: Measured
    b: Measured
    clock_ratio: float | None

    def steps_cause(self, change: float) -> tuple[str, str]:
        """(cause, part) of a change in the number of steps: the run with more steps is the one held back."""
        held, free = (self.b, self.a) if change > 0 else (self.a, self.b)
        asked_held, asked_free = held.bench.max_concurrency, free.bench.max_concurrency
        if asked_held is not None and asked_free is not None and asked_held < asked_free:
            return "workload", "fewer requests in flight"
        limits, others = held.limits, free.limits
        binding = [name for name, share in limits.items() if share - others.get(name, 0.0) > 0.1]
        if held.counters.get("preemptions", 0.0) - free.counters.get("preemptions", 0.0) >= 1.0:
            binding.append("KV cache")
        if "KV cache" in binding and "sequence limit" not in binding:
            return "memory", "fewer sequences fit in the KV cache"
        named: dict[Limit, str] = {
            "sequence limit": "steps held to the sequence limit",
            "token budget": "steps held to the token budget",
        }
        for limit, part in named.items():
            if limit in binding:
                return "batching", part
        return "batching", "fewer sequences a step"

    def saved(self, level: float) -> float:
        """What another share of cached prompt tokens makes of ``level``, the time that prompt tokens take in a step."""
        ratio_a, ratio_b = self.a.computed_ratio(), self.b.computed_ratio()
        if not ratio_a or not ratio_b:
            return 0.0
        return level * float(np.clip(np.log(ratio_b / ratio_a), -2.0, 2.0))

    def asked(self, level: float) -> float:
        """What another number of prompt tokens asked for per output token makes of ``level``."""
        asked_a = self.a.bench.total_input_tokens / max(self.a.tokens, 1)
        asked_b = self.b.bench.total_input_tokens / max(self.b.tokens, 1)
        if asked_a <= 0 or asked_b <= 0:
            return 0.0
        return level * float(np.clip(np.log(asked_b / asked_a), -2.0, 2.0))

    def follows_pace(self) -> bool:
        """Whether arrivals are given from outside and the same for both, and no limit binds in one run alone: then how
        many sequences share a step follows from how long steps take."""
        rates = self.a.bench.request_rate, self.b.bench.request_rate
        return rates[0] is not None and rates[0] < float("inf") and rates[0] == rates[1] and not self.limited()

    def limited(self) -> bool:
        """Whether a limit on sequences or tokens binds in one run and not in the other."""
        ours, theirs = self.a.limits, self.b.limits
        names: tuple[Limit, ...] = ("sequence limit", "token budget")
        return any(abs(ours.get(name, 0.0) - theirs.get(name, 0.0)) > 0.1 for name in names)


def book(ledger: Ledger, part: Split, context: Context, *, per_token: bool = False, stall: bool = False) -> None:
    """Enter a split into the ledger: composition by what changed it, rates by what they are made of.

    ``per_token`` says that the weights count steps per output token, where prompt tokens are work to be done; in a
    latency they are what a step carried beside the request. ``stall`` marks the steps that decoding sequences waited
    for: their composition is a matter of scheduling.
    """
    moved = part.composition["step"] + part.composition["prefill step"]
    shifted = Ledger()
    for term, amount in part.composition.items():
        level = part.composition_level[term]
        if term == "prefill token":
            _book_prompt_tokens(shifted, amount, level, moved, context, per_token=per_token, stall=stall)
        elif stall:
            shifted.add("scheduling", "decodes stalled by prefills", amount, level)
        elif term == "sequence":
            shifted.add("batching", "sequences a step", amount, level)
        else:
            shifted.add(*context.steps_cause(moved), amount, level)
    rates = Ledger()
    held, back = held_by_launches(part), held_by_schedule(part)
    for key, amount in part.rates.items():
        level = part.rates_level[key]
        clocks = clock_part(key, amount, level, context.clock_ratio)
        launches = held * amount if key[0] == "scheduling" else 0.0
        later = back * amount if key[0] == "cuda_graph" else 0.0
        rates.add(*key, amount - clocks - launches - later, level)
        if clocks:
            rates.add("hardware", "clock of the device", clocks, level)
        if launches:
            rates.add("cuda_graph", HELD, launches, 0.0)
        if later:
            rates.add("scheduling", LATER, later, 0.0)
    cover(rates, part.launching)
    if context.follows_pace():
        shifted = _follow(shifted, rates)
    for booked in (shifted, rates):
        for (cause, name), amount in booked.amounts.items():
            ledger.add(cause, name, amount, booked.levels[cause, name])
    if part.extrapolated:
        ledger.extrapolated.add("batching")


def _follow(shifted: Ledger, rates: Ledger) -> Ledger:
    """Batching as a consequence: with arrivals given and no limit in the way, more sequences share a step because steps
    take longer. Its amount goes to the causes of that, in proportion; it stays where these don't say."""
    pace = {key: amount for key, amount in rates.amounts.items() if key[0] != UNEXPLAINED}
    total = sum(pace.values())
    if abs(total) < 0.2 * sum(abs(amount) for amount in pace.values()) or total == 0.0:
        return shifted
    followed = Ledger()
    for (cause, name), amount in shifted.amounts.items():
        level = shifted.levels[cause, name]
        if cause != "batching":
            followed.add(cause, name, amount, level)
            continue
        for (row_cause, row_part), share in pace.items():
            followed.add(row_cause, f"fuller steps: {row_part}", amount * share / total, level * abs(share / total))
    return followed


def _book_prompt_tokens(
    ledger: Ledger, amount: float, level: float, moved: float, context: Context, *, per_token: bool, stall: bool
) -> None:
    """Prompt tokens that steps carried: fewer because the cache saved them, because fewer were asked for, or because
    they came in other steps."""
    saved = context.saved(level)
    asked = context.asked(level) if per_token else 0.0
    rest = amount - saved - asked
    ledger.add("memory", "prompt tokens computed", saved, saved)
    if per_token:
        ledger.add("workload", "prompt tokens asked for", asked, asked)
    if stall:
        ledger.add("scheduling", "decodes stalled by prefills", rest, level)
        return
    cause, _ = context.steps_cause(moved)
    # Where the cache decides how many tokens are computed, how they fell into steps follows from it.
    if per_token and abs(saved) > abs(rest) and cause == "batching" and not context.limited():
        ledger.add("memory", "prompt tokens computed", rest, 0.0)
    else:
        ledger.add(cause, "prompt tokens a step", rest, rest)


# Changes of the host's own times below this share of a change in idle time did not make it.
_NOTICEABLE: Final = 0.1


def held_by_launches(part: Split) -> float:
    """Which share of a change in idle time between steps is the launches' doing.

    A host that launches kernel by kernel comes late to its next step, so the device waits between steps although the
    scheduler does what it always did. The host's own times decide: launch calls against annotated phases.
    """
    between = _idle(part, "scheduling")
    launching, phases = part.launching, part.phases
    if between == 0.0 or launching * between <= 0.0 or abs(launching) < _NOTICEABLE * abs(between):
        return 0.0
    if phases * between <= 0.0 or abs(phases) < _NOTICEABLE * abs(between):
        return 1.0
    return launching / (launching + phases)


def held_by_schedule(part: Split) -> float:
    """Which share of a change in the time until launches within steps is the scheduler's doing: all of it where the
    launches themselves take as long as before, and only come at another time."""
    late = _idle(part, "cuda_graph")
    return (
        1.0
        if late and abs(part.launching) < _NOTICEABLE * abs(late) and _idle(part, "scheduling") * late > 0.0
        else 0.0
    )


def launches_share(part: Split) -> float:
    """Which share (0 to 1) of a change in what the device waits for its host is made by launches, not by schedules."""
    late, between = _idle(part, "cuda_graph"), _idle(part, "scheduling")
    back, held = held_by_schedule(part), held_by_launches(part)
    launches, schedule = late * (1.0 - back) + between * held, between * (1.0 - held) + late * back
    size = abs(launches) + abs(schedule)
    return abs(launches) / size if size else 0.5


def _idle(part: Split, cause: str) -> float:
    return sum(amount for key, amount in part.rates.items() if key[0] == cause)


def cover(ledger: Ledger, launching: float) -> None:
    """Book a change in the time until launches within steps as that of what runs on the device, where this changed the
    other way and by more, and neither the launches nor the schedule did: a host that launches ahead of longer kernels
    is waited for less. ``launching`` is the change in what launch calls take."""
    causes = ledger.by_cause()
    late, schedule = causes.get("cuda_graph", 0.0), causes.get("scheduling", 0.0)
    device = {cause: amount for cause in DEVICE if (amount := causes.get(cause, 0.0)) * late < 0.0}
    size = sum(map(abs, device.values()))
    made = any(value * late > 0.0 and abs(value) >= _NOTICEABLE * abs(late) for value in (launching, schedule))
    if size <= abs(late) or made:
        return
    for (cause, name), amount in [*ledger.amounts.items()]:
        if cause == "cuda_graph":
            ledger.amounts[cause, name] = 0.0
            for other, weight in device.items():
                ledger.add(other, COVERED, amount * abs(weight) / size)


def clock_part(key: Component, amount: float, level: float, ratio: float | None) -> float:
    """What a lower clock alone can account for: at most the kernel's time at the other clock (B's over A's rate)."""
    if ratio is None or key[0] != "kernel" or abs(ratio - 1.0) < 0.02 or amount * (1.0 - ratio) <= 0:
        return 0.0
    slower = max(ratio, 1.0 / ratio) - 1.0
    most = slower * max(level - abs(amount) / 2, 0.0)
    return float(min(abs(amount), most)) * (1.0 if amount > 0 else -1.0)
