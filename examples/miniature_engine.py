"""A miniature serving engine: continuous batching over a slotted KV cache, driven by a list of requests in one process.

It exists to have causes planted in it (``profiler selftest``): every setting below is a switch that changes one thing.
Its log, metrics and step annotations are written in vLLM's grammar, which the readers know. What computes is handed in
(``Model``); ``miniature_model.Decoder`` is the real one.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Final, Protocol

from profiler.examples.miniature_clock import Clock
from profiler.examples.miniature_metrics import Counts
from profiler.examples.miniature_settings import Request, Settings


@dataclass
class Running:
    """A request on its way; times are seconds of the engine's clock. ``computed`` and ``planned`` count the prompt and
    output tokens of all steps that are planned; ``tokens`` are those of the steps that have ended."""

    request: Request
    sent: float
    slot: int = -1
    computed: int = 0
    planned: int = 0
    arrived: float = 0.0
    admitted: float = 0.0
    tokens: list[int] = field(default_factory=list[int])
    times: list[float] = field(default_factory=list[float])

    @property
    def held(self) -> int:
        """KV tokens reserved from admission to the end: there is no preemption."""
        return len(self.request.prompt) + self.request.output

    @property
    def decoding(self) -> bool:
        """Whether the prompt is computed, so that a step adds one token."""
        return self.computed >= len(self.request.prompt)


@dataclass(frozen=True)
class Plan:
    """What one step carries: sequences that decode, and prompts with the start and number of their tokens to compute.
    ``admitted`` begin with it, ``restored`` of them from their group's prefix; ``kept`` become their group's prefix
    behind it. ``usage`` is the share of the KV cache that is reserved while it runs."""

    decodes: tuple[Running, ...]
    chunks: tuple[tuple[Running, int, int], ...]
    admitted: tuple[Running, ...]
    restored: tuple[Running, ...]
    kept: tuple[Running, ...]
    usage: float

    def __bool__(self) -> bool:
        """Whether there is something to do."""
        return bool(self.decodes or self.chunks)

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens that the step computes."""
        return sum(count for _, _, count in self.chunks)


def step_name(chunks: int, tokens: int, decodes: int) -> str:
    """A step's annotation, in vLLM's grammar."""
    return f"execute_context_{chunks}({tokens})_generation_{decodes}({decodes})"


NOTHING: Final = Plan((), (), (), (), (), 0.0)
MOST_PREFIXES: Final = 64
# What a busy scheduler hashes.
BLOCK: Final = bytes(1 << 18)


class Model(Protocol):
    """What computes a step and keeps the KV cache."""

    def run(
        self, decodes: Sequence[tuple[int, int, int]], chunks: Sequence[tuple[int, int, Sequence[int]]]
    ) -> list[int]:
        """The next token of every (slot, position, token) and of every (slot, start, tokens), in this order."""

    def keep(self, group: int, slot: int, length: int) -> None:
        """Remember the first ``length`` tokens of a slot as the group's prefix."""

    def restore(self, group: int, slot: int) -> None:
        """Write the group's prefix into a slot."""

    def forget(self) -> None:
        """Remember no prefix."""


class Scheduler:
    """Decodes first, then begun prompts, then new ones, within the limits on sequences, tokens and KV tokens."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.waiting: deque[Running] = deque()
        self.running: list[Running] = []
        self.prefixes: dict[int, int] = {}
        self.free = list(range(settings.max_num_seqs))[::-1]

    @property
    def used(self) -> float:
        """Share of the KV cache that is reserved."""
        return sum(one.held for one in self.running) / self.settings.kv_cache_tokens

    def plan(self) -> Plan:
        """The next step, planned ahead of the answers: how many tokens a sequence gets is known, and not which."""
        budget = self.settings.max_num_batched_tokens
        decodes = tuple([one for one in self.running if one.decoding][:budget])
        budget -= len(decodes)
        chunks: list[tuple[Running, int, int]] = []
        for one in self.running:
            if budget > 0 and not one.decoding:
                chunks.append((one, one.computed, min(budget, len(one.request.prompt) - one.computed)))
                budget -= chunks[-1][2]
        admitted: list[Running] = []
        while budget > 0 and self.waiting and self.free and self._fits(self.waiting[0]):
            one = self.waiting.popleft()
            one.slot = self.free.pop()
            one.computed = self.prefixes.get(one.request.group, 0)
            self.running.append(one)
            admitted.append(one)
            chunks.append((one, one.computed, min(budget, len(one.request.prompt) - one.computed)))
            budget -= chunks[-1][2]
        restored = tuple(one for one in admitted if one.computed)
        usage = self.used
        kept = tuple(self._advance(decodes, chunks))
        return Plan(decodes, tuple(chunks), tuple(admitted), restored, kept, usage)

    def _advance(self, decodes: Sequence[Running], chunks: Sequence[tuple[Running, int, int]]) -> list[Running]:
        """Count a planned step as done; the sequences whose prompts become prefixes with it."""
        kept = []
        for one, start, count in chunks:
            one.computed = start + count
            unknown = one.request.group not in self.prefixes and len(self.prefixes) < MOST_PREFIXES
            if one.decoding and self.settings.prefix_cache and unknown:
                self.prefixes[one.request.group] = one.request.prefix
                kept.append(one)
        for one in (*decodes, *(one for one, _, _ in chunks if one.decoding)):
            one.planned += 1
            if one.planned == one.request.output:
                self.running.remove(one)
                self.free.append(one.slot)
        return kept

    def _fits(self, one: Running) -> bool:
        return self.used + one.held / self.settings.kv_cache_tokens <= 1.0


class Engine:
    """One start of the engine: scheduler, model and counters. ``told`` hears of every request that got a token,
    ``logged`` of every line of the log, in which ``{device}`` stands for the kind of device."""

    def __init__(
        self,
        settings: Settings,
        model: Model,
        annotate: Callable[[str], AbstractContextManager[object]] = lambda _: nullcontext(),
        clock: Clock | None = None,
        told: Callable[[Running], None] = lambda _: None,
        logged: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.settings, self.model, self.annotate, self.told, self.logged = settings, model, annotate, told, logged
        self.clock = clock or Clock()
        self.scheduler = Scheduler(settings)
        self.counts = Counts()
        self.beside = ThreadPoolExecutor(1)
        self.steps = 0
        self.frontend: deque[Running] = deque()
        self.ahead: Plan | None = None

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.frontend or self.scheduler.waiting or self.scheduler.running or self.ahead)

    def serve(
        self,
        requests: Sequence[Request],
        concurrency: int,
        before_step: Callable[[int], bool] = lambda _: True,
    ) -> list[Running]:
        """Keep ``concurrency`` requests in flight until all are answered, or ``before_step`` (given the number of steps
        so far) says stop."""
        unsent, done = deque(requests), list[Running]()
        while len(done) < len(requests) and before_step(self.steps):
            while unsent and len(requests) - len(unsent) - len(done) < concurrency:
                self.send(unsent.popleft())
            done += self.step()
        return done

    def send(self, request: Request) -> Running:
        """Take a request. The frontend works beside the engine, so a slow one only delays."""
        self.frontend.append(Running(request, self.clock.now()))
        return self.frontend[-1]

    def step(self) -> list[Running]:
        """One step, or a wait where the frontend still holds everything: the requests that are complete with it."""
        began = self.clock.now()
        while self.frontend and self.frontend[0].sent + self.settings.frontend_delay <= began:
            self.scheduler.waiting.append(self.frontend.popleft())
            self.scheduler.waiting[-1].arrived = began
        plan = self.ahead or self._planned(began)
        if not plan:
            if self.frontend:
                self.clock.sleep(self.frontend[0].sent + self.settings.frontend_delay - began)
            return []
        self.ahead = None
        if self.settings.overlap:
            planning = self.beside.submit(self._ahead, self.clock.now())
            answers = self._run(plan)
            self.ahead, until = planning.result()
            self.clock.waited(until)
        else:
            answers = self._run(plan)
        finished = self._account(plan, answers, self.clock.now())
        decodes, elapsed = len(plan.decodes), 1e3 * (self.clock.now() - began)
        self._write(
            f"Engine 000: Iteration({self.steps}): {len(plan.chunks)} context requests, {plan.prompt_tokens} context "
            f"tokens, {decodes} generation requests, {decodes} generation tokens, iteration elapsed time: "
            f"{elapsed:.3f} ms, {{device}} KV cache usage: {100 * plan.usage:.1f}%"
        )
        self.counts.observe("iteration_tokens_total", decodes + plan.prompt_tokens)
        self.steps += 1
        return finished

    def _planned(self, now: float) -> Plan:
        """The next step, with all that the scheduler does for it; ``now`` is when its requests are admitted."""
        if not self.scheduler.waiting and not self.scheduler.running:
            return NOTHING
        with self.annotate("schedule"):
            plan = self.scheduler.plan()
            for one in plan.admitted:
                one.admitted = now
                self.counts.observe("request_queue_time_seconds", now - one.arrived)
            began = self.clock.now()
            while self.clock.now() - began < self.settings.scheduler_work:
                # Other threads can run meanwhile.
                hashlib.sha256(BLOCK)
        return plan

    def _ahead(self, now: float) -> tuple[Plan, float]:
        """The next step, planned by a thread of its own, and when it was ready."""
        began = self.clock.now()
        return self._planned(now), now + self.clock.now() - began

    def _run(self, plan: Plan) -> list[int]:
        for one in plan.admitted:
            self.counts.add("prompt_tokens_total", len(one.request.prompt))
            if self.settings.prefix_cache:
                self.counts.add("prefix_cache_queries_total", len(one.request.prompt))
        with self.annotate(step_name(len(plan.chunks), plan.prompt_tokens, len(plan.decodes))):
            for one in plan.restored:
                self.counts.add("prefix_cache_hits_total", one.request.prefix)
                self.model.restore(one.request.group, one.slot)
            answers = self.model.run(
                [(one.slot, len(one.request.prompt) + len(one.tokens) - 1, one.tokens[-1]) for one in plan.decodes],
                [(one.slot, start, one.request.prompt[start : start + count]) for one, start, count in plan.chunks],
            )
            for one in plan.kept:
                self.model.keep(one.request.group, one.slot, one.request.prefix)
        return answers

    def _account(self, plan: Plan, answers: Sequence[int], now: float) -> list[Running]:
        """Enter a step's tokens; the requests that are complete with it."""
        stepped = [(one, True) for one in plan.decodes]
        stepped += [(one, start + count == len(one.request.prompt)) for one, start, count in plan.chunks]
        finished = []
        for (one, answered), token in zip(stepped, answers, strict=True):
            if not answered:
                continue
            one.tokens.append(token)
            one.times.append(now)
            if len(one.tokens) == 1:
                self.counts.observe("request_prefill_time_seconds", now - one.admitted)
                self.counts.observe("time_to_first_token_seconds", now - one.arrived)
            if len(one.tokens) == one.request.output:
                self.counts.observe("request_decode_time_seconds", now - one.times[0])
                self.counts.observe("e2e_request_latency_seconds", now - one.arrived)
                self.counts.add("request_success_total", 1)
                finished.append(one)
            self.counts.add("generation_tokens_total", 1)
            self.told(one)
        return finished

    def _write(self, text: str) -> None:
        self.logged(f"INFO {time.strftime('%m-%d %H:%M:%S', time.gmtime())} [miniature_engine.py:1] {text}")

    def metrics(self) -> str:
        """A snapshot in Prometheus' text format."""
        running, waiting = len(self.scheduler.running), len(self.scheduler.waiting)
        return self.counts.text(running, waiting, self.scheduler.used)
