"""A miniature serving engine: continuous batching over a slotted KV cache, driven by a list of requests in one process.

It exists to have causes planted in it (``profiler selftest``): every setting below is a switch that changes one thing.
Its log, metrics and step annotations are written in vLLM's grammar, which the readers know. What computes is handed in
(``Model``); ``miniature_model.Decoder`` is the real one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Final, Protocol

HISTOGRAMS: Final = (
    "request_queue_time_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
    "time_to_first_token_seconds",
    "e2e_request_latency_seconds",
)
COUNTERS: Final = (
    "prompt_tokens_total",
    "generation_tokens_total",
    "prefix_cache_queries_total",
    "prefix_cache_hits_total",
    "request_success_total",
    *(f"{name}_{part}" for name in HISTOGRAMS for part in ("sum", "count")),
)


@dataclass(frozen=True)
class Settings:
    """Each field is one switch. ``scheduler_spin`` and ``frontend_delay`` are seconds, of a step and of a request."""

    max_num_seqs: int = 16
    max_num_batched_tokens: int = 512
    kv_cache_tokens: int = 4096
    prefix_cache: bool = True
    scheduler_spin: float = 0.0
    frontend_delay: float = 0.0
    attention_copies: int = 1
    rowwise_norm: bool = False
    graphs: bool = True


@dataclass(frozen=True)
class Request:
    """Token ids in, a number of tokens out. The first ``prefix`` tokens are those of every request of its ``group``."""

    prompt: tuple[int, ...]
    prefix: int
    group: int
    output: int


@dataclass
class Running:
    """A request on its way; times are seconds of the engine's clock."""

    request: Request
    sent: float
    slot: int = -1
    computed: int = 0
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
    """What one step carries: sequences that decode, and prompts with the number of their tokens to compute."""

    decodes: tuple[Running, ...]
    chunks: tuple[tuple[Running, int], ...]

    @property
    def name(self) -> str:
        """The step's annotation, in vLLM's grammar."""
        tokens = sum(count for _, count in self.chunks)
        return f"execute_context_{len(self.chunks)}({tokens})_generation_{len(self.decodes)}({len(self.decodes)})"


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


class Clock:
    """Wall time, in seconds."""

    def now(self) -> float:
        """Seconds since some moment."""
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class OwnClock(Clock):
    """The thread's processor time and its sleeps: it stands still while other programs have the processor."""

    def __init__(self) -> None:
        self.slept = 0.0

    def now(self) -> float:
        """Seconds since some moment."""
        return time.thread_time() + self.slept

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
        self.slept += seconds


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

    def plan(self, admit: Callable[[Running, int], None]) -> Plan:
        """The next step. ``admit`` is told each sequence that gets a slot, with the tokens its cached prefix saves."""
        budget = self.settings.max_num_batched_tokens
        decodes = tuple([one for one in self.running if one.decoding][:budget])
        budget -= len(decodes)
        chunks: list[tuple[Running, int]] = []
        for one in self.running:
            if budget > 0 and not one.decoding:
                chunks.append((one, min(budget, len(one.request.prompt) - one.computed)))
                budget -= chunks[-1][1]
        while budget > 0 and self.waiting and self.free and self._fits(self.waiting[0]):
            one = self.waiting.popleft()
            one.slot = self.free.pop()
            one.computed = self.prefixes.get(one.request.group, 0)
            self.running.append(one)
            admit(one, one.computed)
            chunks.append((one, min(budget, len(one.request.prompt) - one.computed)))
            budget -= chunks[-1][1]
        return Plan(decodes, tuple(chunks))

    def _fits(self, one: Running) -> bool:
        return self.used + one.held / self.settings.kv_cache_tokens <= 1.0

    def finish(self, one: Running) -> None:
        """Give back what a sequence held."""
        self.running.remove(one)
        self.free.append(one.slot)


class Engine:
    """One start of the engine: scheduler, model, counters and log."""

    def __init__(
        self,
        settings: Settings,
        model: Model,
        annotate: Callable[[str], AbstractContextManager[object]] = lambda _: nullcontext(),
        clock: Clock | None = None,
    ) -> None:
        self.settings = settings
        self.model = model
        self.annotate = annotate
        self.clock = clock or Clock()
        self.scheduler = Scheduler(settings)
        self.counters = dict.fromkeys(COUNTERS, 0.0)
        self.log: list[str] = []

    def serve(
        self,
        requests: Sequence[Request],
        concurrency: int,
        before_step: Callable[[int], bool] = lambda _: True,
    ) -> list[Running]:
        """Keep ``concurrency`` requests in flight until all are answered, or ``before_step`` (given the number of steps
        so far) says stop."""
        unsent, frontend, done = deque(requests), deque[Running](), list[Running]()
        steps = 0
        while len(done) < len(requests) and before_step(steps):
            while unsent and len(frontend) + len(self.scheduler.waiting) + len(self.scheduler.running) < concurrency:
                frontend.append(Running(unsent.popleft(), self.clock.now()))
            self._receive(frontend)
            if not self.scheduler.waiting and not self.scheduler.running:
                self.clock.sleep(max(frontend[0].sent + self.settings.frontend_delay - self.clock.now(), 0.0))
                continue
            done += self._step(steps)
            steps += 1
        return done

    def _receive(self, frontend: deque[Running]) -> None:
        """Hand over the requests that the frontend is done with. It works beside the engine, so this only delays."""
        now = self.clock.now()
        while frontend and frontend[0].sent + self.settings.frontend_delay <= now:
            one = frontend.popleft()
            one.arrived = now
            self.scheduler.waiting.append(one)

    def _step(self, index: int) -> list[Running]:
        began = self.clock.now()
        with self.annotate("schedule"):
            plan = self.scheduler.plan(self._admitted)
            while self.clock.now() - began < self.settings.scheduler_spin:
                pass
        with self.annotate(plan.name):
            answers = self.model.run(
                [(one.slot, len(one.request.prompt) + len(one.tokens) - 1, one.tokens[-1]) for one in plan.decodes],
                [
                    (one.slot, one.computed, one.request.prompt[one.computed : one.computed + count])
                    for one, count in plan.chunks
                ],
            )
        now = self.clock.now()
        usage = self.scheduler.used
        finished = self._account(plan, answers, now)
        prompts = sum(count for _, count in plan.chunks)
        self._write(
            f"Engine 000: Iteration({index}): {len(plan.chunks)} context requests, {prompts} context tokens, "
            f"{len(plan.decodes)} generation requests, {len(plan.decodes)} generation tokens, iteration elapsed time: "
            f"{1e3 * (self.clock.now() - began):.3f} ms, {{device}} KV cache usage: {100 * usage:.1f}%"
        )
        return finished

    def _account(self, plan: Plan, answers: Sequence[int], now: float) -> list[Running]:
        """Enter a step's tokens; the sequences that are complete with it."""
        for one, count in plan.chunks:
            one.computed += count
            group, prefix = one.request.group, one.request.prefix
            if one.decoding and self.settings.prefix_cache and group not in self.scheduler.prefixes:
                self.model.keep(group, one.slot, prefix)
                self.scheduler.prefixes[group] = prefix
        stepped = [*plan.decodes, *(one for one, _ in plan.chunks)]
        finished = []
        for one, token in zip(stepped, answers, strict=True):
            if not one.decoding:
                continue
            one.tokens.append(token)
            one.times.append(now)
            if len(one.tokens) == 1:
                self._observe("request_prefill_time_seconds", now - one.admitted)
                self._observe("time_to_first_token_seconds", now - one.arrived)
            if len(one.tokens) == one.request.output:
                self.scheduler.finish(one)
                self._observe("request_decode_time_seconds", now - one.times[0])
                self._observe("e2e_request_latency_seconds", now - one.arrived)
                self.counters["request_success_total"] += 1
                finished.append(one)
            self.counters["generation_tokens_total"] += 1
        return finished

    def _admitted(self, one: Running, cached: int) -> None:
        one.admitted = self.clock.now()
        if cached:
            self.model.restore(one.request.group, one.slot)
        self._observe("request_queue_time_seconds", one.admitted - one.arrived)
        self.counters["prompt_tokens_total"] += len(one.request.prompt)
        if self.settings.prefix_cache:
            self.counters["prefix_cache_queries_total"] += len(one.request.prompt)
            self.counters["prefix_cache_hits_total"] += cached

    def _observe(self, name: str, seconds: float) -> None:
        self.counters[f"{name}_sum"] += seconds
        self.counters[f"{name}_count"] += 1

    def _write(self, text: str) -> None:
        self.log.append(f"INFO {time.strftime('%m-%d %H:%M:%S', time.gmtime())} [miniature_engine.py:1] {text}")

    def metrics(self) -> str:
        """A snapshot in Prometheus' text format, under vLLM's names."""
        gauges = {
            "num_requests_running": len(self.scheduler.running),
            "num_requests_waiting": len(self.scheduler.waiting),
            "kv_cache_usage_perc": self.scheduler.used,
        }
        lines = [f"# TYPE vllm:{name} gauge\nvllm:{name} {value}" for name, value in gauges.items()]
        for name in HISTOGRAMS:
            lines.append(f"# TYPE vllm:{name} histogram")
            lines.append(f'vllm:{name}_bucket{{le="+Inf"}} {self.counters[f"{name}_count"]}')
            lines += [f"vllm:{name}_{part} {self.counters[f'{name}_{part}']}" for part in ("sum", "count")]
        totals = [name for name in COUNTERS if name.endswith("_total")]
        lines += [f"# TYPE vllm:{name} counter\nvllm:{name} {self.counters[name]}" for name in totals]
        return "\n".join(lines) + "\n"
