"""A continuous-batching scheduler over a recorded request set: what would these requests have met under other parts?

Sequences in decode all advance by one token a step, so as long as nothing is admitted, finishes or arrives, every step
is like the last and a stretch of them is taken at once: a replay costs time by the request, not by the step. What it
does not know: which prompts share a prefix (a share of every prompt counts as cached), the order in which a client's
connections are served, and the context's part in the time of a step.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from profiler.model.requests import Floats, Ints

# A pool that is this full admits no further prompt: room is left for those in decode to grow.
ADMIT_BELOW: Final = 0.98
# No step is quicker, whatever is taken from it.
SHORTEST: Final = 1e-7
# Sums of step times that are equal but for rounding.
_ROUNDING: Final = 1e-9
# After so many equal steps a pipeline of two stages has settled.
_SETTLED: Final = 4
# More steps than this a request is a replay that does not end.
_MOST_STEPS_A_REQUEST: Final = 100_000


class Paced(Protocol):
    """Anything that says how long a step takes."""

    def seconds(self, decode: int, prefill_tokens: int) -> float:
        """Of a step that decodes so many sequences and computes so many prompt tokens."""
        ...

    def pipelined(self, decode: int, prefill_tokens: int) -> tuple[float, float]:
        """The same under asynchronous scheduling: (seconds of the device, seconds of the host that prepares it)."""
        ...


@dataclass(frozen=True)
class StepCost:
    """Seconds of a step: each step's, what prefilling adds at once, each sequence's in decode, and each token's beyond
    a hinge, prompt tokens and decoded ones (``tokens``: (hinge, seconds), by hinge)."""

    step: float = 0.0
    prefill_step: float = 0.0
    sequence: float = 0.0
    tokens: tuple[tuple[float, float], ...] = ()

    def seconds(self, decode: int, prefill_tokens: int) -> float:
        """Of a step that decodes so many sequences and computes so many prompt tokens."""
        return max(self.signed(decode, prefill_tokens), SHORTEST)

    def pipelined(self, decode: int, prefill_tokens: int) -> tuple[float, float]:
        """All of it as the device's."""
        return self.seconds(decode, prefill_tokens), 0.0

    def signed(self, decode: int, prefill_tokens: int) -> float:
        """The same, of a part of a step, which can be less than nothing."""
        total = self.step + self.sequence * decode + (self.prefill_step if prefill_tokens else 0.0)
        tokens = prefill_tokens + decode
        for hinge, value in self.tokens:
            if tokens <= hinge:
                break
            total += value * (tokens - hinge)
        return total

    def plus(self, other: StepCost, factor: float = 1.0) -> StepCost:
        """This and ``factor`` times the other."""
        tokens = dict(self.tokens)
        for hinge, value in other.tokens:
            tokens[hinge] = tokens.get(hinge, 0.0) + factor * value
        return StepCost(
            self.step + factor * other.step,
            self.prefill_step + factor * other.prefill_step,
            self.sequence + factor * other.sequence,
            tuple(sorted(tokens.items())),
        )

    def counts(self) -> bool:
        """Whether anything in it is more than rounding."""
        values = (self.step, self.prefill_step, self.sequence, *(value for _, value in self.tokens))
        return any(abs(value) > 1e-12 for value in values)


def summed(costs: Iterable[StepCost]) -> StepCost:
    """All of them together."""
    total = StepCost()
    for cost in costs:
        total = total.plus(cost)
    return total


@dataclass(frozen=True)
class Rules:
    """How the scheduler fills its steps. ``max_seqs``, ``budget`` and ``kv_tokens`` None: no limit known. ``chunked``
    splits prompts over steps; an engine that does not mix (``mixed`` False) lets decodes wait while there are prompts
    to compute. ``lag``: a step's batch is chosen while the one before runs (asynchronous scheduling), so a request that
    arrives meanwhile joins one step later."""

    max_seqs: int | None
    budget: int | None
    chunked: bool
    mixed: bool
    kv_tokens: int | None
    lag: bool


@dataclass(frozen=True)
class Front:
    """What lies between a client and the engine, seconds: until the client has a request's ``first`` token and its
    ``last`` one, and from the end of a response to the request that a closed loop sends in its ``turn``. A request that
    is sent before the client has the response it follows (``turn`` below zero) is there when the next batch is chosen.
    """

    first: float = 0.0
    last: float = 0.0
    turn: float = 0.0


DIRECT: Final = Front()


@dataclass(frozen=True)
class Demand:
    """The requests. ``arrival`` (s from the start) for an open loop, None where ``concurrency`` keeps that many in
    flight. ``prompt`` and ``output`` are tokens; ``computed`` is the share of each prompt that no cache holds."""

    prompt: Ints
    output: Ints
    arrival: Floats | None
    concurrency: int | None
    computed: Floats

    def __len__(self) -> int:
        return len(self.prompt)

    @property
    def share(self) -> float:
        """The share of all prompt tokens that has to be computed."""
        return float(self.computed @ self.prompt) / max(float(self.prompt.sum()), 1.0)


@dataclass(frozen=True)
class Replayed:
    """What the requests met, seconds: columns in the demand's order, and the run's totals. ``composition`` (k, 4) has
    a row for each stretch of equal steps: sequences in decode, prompt tokens, prompts, and how many steps."""

    ttft: Floats
    e2e: Floats
    output: Ints
    duration: float
    steps: int
    decoded: int
    preemptions: int
    composition: Ints

    @property
    def tpot(self) -> Floats:
        """Seconds a token after the first; NaN for requests of one token."""
        rest = self.output - 1
        found: Floats = np.where(rest > 0, (self.e2e - self.ttft) / np.maximum(rest, 1), np.nan)
        return found

    def metrics(self) -> dict[str, float]:
        """By the names of the result document."""
        tpot = self.tpot[np.isfinite(self.tpot)]
        found = {
            "output_throughput": float(self.output.sum()) / self.duration,
            "request_throughput": len(self.output) / self.duration,
            "mean_ttft": float(self.ttft.mean()),
            "mean_e2e": float(self.e2e.mean()),
        }
        found |= {f"p{q}_ttft": float(np.percentile(self.ttft, q)) for q in (50, 90, 99)}
        found |= {f"p{q}_e2e": float(np.percentile(self.e2e, q)) for q in (50, 90, 99)}
        if len(tpot):
            found["mean_tpot"] = float(tpot.mean())
            found |= {f"p{q}_tpot": float(np.percentile(tpot, q)) for q in (50, 90, 99)}
        return found


def replay(demand: Demand, rules: Rules, cost: Paced, between: float = 0.0, front: Front = DIRECT) -> Replayed:
    """Play ``demand`` through the scheduler. ``between`` is seconds a step that its time does not hold.

    Raises ValueError where the requests can't be served (a prompt that never fits).
    """
    run = _Run(demand, rules, cost, between, front)
    run.play()
    return Replayed(
        ttft=run.first - run.sent,
        e2e=run.last - run.sent,
        output=demand.output,
        duration=float(run.last.max()) if len(demand) else 0.0,
        steps=run.steps,
        decoded=run.decoded,
        preemptions=run.preemptions,
        composition=np.array(run.composition, np.int64).reshape(-1, 4),
    )


class _Run:
    """The state of one replay. Decoding sequences are kept by the step count at which they finish."""

    def __init__(self, demand: Demand, rules: Rules, cost: Paced, between: float, front: Front) -> None:
        self._demand, self._rules, self._cost = demand, rules, cost
        self._between, self._front = between, front
        n = len(demand)
        self.sent, self.first, self.last = np.zeros(n), np.full(n, np.nan), np.full(n, np.nan)
        self.steps = self.decoded = self.preemptions = 0
        self.composition: list[tuple[int, int, int, int]] = []
        self._todo = [max(round(tokens), 1) for tokens in (demand.prompt * demand.computed).tolist()]
        self._left = demand.output.tolist()
        self._context = demand.prompt.tolist()
        self._now = 0.0
        self._waiting: deque[int] = deque()
        self._prefilling: list[int] = []
        # (decode tick at which it finishes, request); a tick is a step in which decodes ran
        self._decoding: list[tuple[int, int]] = []
        self._order: dict[int, int] = {}
        self._tick = 0
        self._kv = 0
        # Asynchronous scheduling: when the host was ready with the last step, and when the step before it ended.
        self._ready = self._before = 0.0
        # When the last step ended and whose tokens it made, which its next step's host still has to process.
        self._held: tuple[float, list[tuple[int, bool]]] = (0.0, [])
        self._coming: list[tuple[float, int]] = []
        self._next = 0
        if demand.arrival is not None:
            self._coming = sorted((float(t), i) for i, t in enumerate(demand.arrival.tolist()))
            self.sent[:] = demand.arrival
            self._next = n
        else:
            for _ in range(min(demand.concurrency or n, n)):
                self._send(0.0)

    def _send(self, at: float) -> None:
        """The client sends its next request of a closed loop."""
        if self._next < len(self._demand):
            request = self._next
            self._next += 1
            self.sent[request] = at
            heapq.heappush(self._coming, (at, request))

    def play(self) -> None:
        """Step by step until every request is done."""
        bound = _MOST_STEPS_A_REQUEST * max(len(self._demand), 1)
        while self._coming or self._waiting or self._prefilling or self._decoding or self._held[1]:
            if not (self._waiting or self._prefilling or self._decoding) and self._held[1]:
                # No next step waits for its host.
                self._release(self._held[0])
                continue
            idle = not (self._waiting or self._prefilling or self._decoding)
            if idle:
                self._now = max(self._now, self._coming[0][0])
                self._ready = self._before = self._now
            self._arrive(self._now if idle else self._next_choice())
            self._make_room()
            chunks = self._fill()
            if chunks:
                self._one_step(chunks)
            elif self._decoding:
                self._stretch()
            else:
                raise ValueError("a prompt does not fit into the KV cache or the step's token budget")
            if self.steps > bound:
                raise ValueError("the replay does not end")

    def _next_choice(self) -> float:
        """When the batch of the next step is chosen."""
        return max(self._ready, self._before) if self._rules.lag else self._now

    def _arrive(self, until: float) -> None:
        while self._coming and self._coming[0][0] <= until * (1.0 + _ROUNDING):
            self._waiting.append(heapq.heappop(self._coming)[1])

    def _make_room(self) -> None:
        """Preempt by recompute where the next step's tokens would not fit."""
        pool = self._rules.kv_tokens
        while pool is not None and len(self._decoding) > 1 and self._kv + len(self._decoding) > pool:
            victim = max(self._decoding, key=lambda item: self._order[item[1]])
            self._decoding.remove(victim)
            heapq.heapify(self._decoding)
            finishes, request = victim
            left = finishes - self._tick
            grown = self._context[request] + (self._left[request] - left)
            self._kv -= grown
            self._context[request] = self._todo[request] = grown
            self._left[request] = left
            self._waiting.appendleft(request)
            self.preemptions += 1

    def _fill(self) -> list[tuple[int, int]]:
        """(request, prompt tokens) that the next step computes; moves admitted requests out of the queue."""
        rules = self._rules
        budget = math.inf if rules.budget is None else rules.budget
        if rules.mixed:
            budget -= len(self._decoding)
        chunks: list[tuple[int, int]] = []
        for request in self._prefilling:
            take = int(min(self._todo[request], budget))
            if take > 0:
                chunks.append((request, take))
                budget -= take
        while self._waiting and budget > 0:
            request = self._waiting[0]
            running = len(self._decoding) + len(self._prefilling)
            if rules.max_seqs is not None and running >= rules.max_seqs:
                break
            need = self._context[request]
            if rules.kv_tokens is not None and running and self._kv + need > ADMIT_BELOW * rules.kv_tokens:
                break
            whole = self._todo[request]
            if not rules.chunked and whole > budget and chunks:
                break
            take = int(min(whole, budget)) if rules.chunked else whole
            self._waiting.popleft()
            self._order[request] = len(self._order)
            self._kv += need
            self._prefilling.append(request)
            chunks.append((request, take))
            budget -= take
        return chunks

    def _one_step(self, chunks: list[tuple[int, int]]) -> None:
        """A step that computes prompt tokens, and decodes where the engine mixes."""
        decoding = len(self._decoding) if self._rules.mixed else 0
        tokens = sum(take for _, take in chunks)
        finished: list[int] = []
        if decoding:
            self._tick += 1
            finished = self._finish()
        produced = [(request, True) for request in finished]
        for request, take in chunks:
            self._todo[request] -= take
            if self._todo[request] > 0:
                continue
            self._prefilling.remove(request)
            self._left[request] -= 1
            self._context[request] += 1
            self._kv += 1
            if self._left[request] <= 0:
                self._kv -= self._context[request]
                produced.append((request, True))
            else:
                heapq.heappush(self._decoding, (self._tick + self._left[request], request))
                produced.append((request, False))
        self._advance(1, decoding, (tokens, len(chunks)), produced)

    def _stretch(self) -> None:
        """Equal decode steps up to the next that differs: a sequence finishes, one arrives, or the pool is full."""
        decoding = len(self._decoding)
        step = self._cost.seconds(decoding, 0) + self._between
        count = self._decoding[0][0] - self._tick
        if any(finished for _, finished in self._held[1]):
            # Their successors may come within this step.
            count = 1
        if self._coming:
            count = min(count, max(math.ceil((self._coming[0][0] - self._now) / step - _ROUNDING), 1))
        if self._rules.kv_tokens is not None and decoding > 1:
            count = min(count, max((self._rules.kv_tokens - self._kv) // decoding, 1))
        self._tick += count
        self._advance(count, decoding, (0, 0), [(request, True) for request in self._finish(count)])

    def _finish(self, ticks: int = 1) -> list[int]:
        """Requests whose last token came in these ticks; the others grew by one token each tick."""
        grown = len(self._decoding) * ticks
        self.decoded += grown
        self._kv += grown
        finished = []
        while self._decoding and self._decoding[0][0] <= self._tick:
            _, request = heapq.heappop(self._decoding)
            finished.append(request)
            self._kv -= self._context[request] + self._left[request]
        return finished

    def _advance(self, count: int, decoding: int, prefill: tuple[int, int], produced: list[tuple[int, bool]]) -> None:
        self.steps += count
        self.composition.append((decoding, *prefill, count))
        if not self._rules.lag:
            self._now += (self._cost.seconds(decoding, prefill[0]) + self._between) * count
            self._deliver(self._now, produced)
            return
        self._pipeline(count, *self._cost.pipelined(decoding, prefill[0]))
        for _, finished in produced:
            # The slot is free when the next batch is chosen; the client learns of it later.
            if finished and self._front.turn < 0.0 and self._demand.arrival is None:
                self._send(self._next_choice())
        self._held = (self._now, produced)

    def _deliver(self, at: float, produced: list[tuple[int, bool]]) -> None:
        """Tokens leave the engine."""
        first, last = at + self._front.first, at + self._front.last
        for request, finished in produced:
            if math.isnan(self.first[request]):
                self.first[request] = first
            if finished:
                # The end of a response may be held up by less than its beginning; it never overtakes it.
                self.last[request] = max(last, self.first[request])
                if self._demand.arrival is None and (self._front.turn >= 0.0 or not self._rules.lag):
                    self._send(max(last + self._front.turn, at))

    def _release(self, at: float) -> None:
        """Deliver what the step before made: its tokens are processed once the host is ready with the next step."""
        ended, produced = self._held
        self._held = (0.0, [])
        self._deliver(max(ended, at), produced)

    def _pipeline(self, count: int, device: float, host: float) -> None:
        """Equal steps whose host work begins when that of the step before is done and the step before that has ended.
        A step ends when the device is through with it, and not before the host has launched all of it."""
        for _ in range(min(count, _SETTLED)):
            self._ready = max(self._ready, self._before) + host
            if self._held[1]:
                self._release(self._ready)
            self._before, self._now = self._now, max(self._now + device, self._ready) + self._between
        rest = count - _SETTLED
        if rest > 0:
            # From here on each step is as long as the slower of both.
            each = max(device, host) + self._between
            self._now += each * rest
            self._before += each * rest
            self._ready += each * rest
