"""The miniature engine's scheduler, log and metrics, with a model that computes nothing; the real one is run by
tests/cli/test_selftest.py."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.collectors.engines import vllm
from profiler.examples import miniature_engine
from profiler.examples.miniature_clock import OwnClock
from profiler.examples.miniature_engine import Engine, Running
from profiler.examples.miniature_settings import Request, Settings


class Recorder:
    """Answers every request with sevens, and keeps what it was asked to compute."""

    def __init__(self) -> None:
        self.steps: list[tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]] = []
        self.kept: dict[int, int] = {}
        self.restored: list[tuple[int, int]] = []

    def run(
        self, decodes: Sequence[tuple[int, int, int]], chunks: Sequence[tuple[int, int, Sequence[int]]]
    ) -> list[int]:
        self.steps.append((list(decodes), [(slot, start, len(tokens)) for slot, start, tokens in chunks]))
        return [7] * (len(decodes) + len(chunks))

    def keep(self, group: int, slot: int, length: int) -> None:
        self.kept[group] = length

    def restore(self, group: int, slot: int) -> None:
        self.restored.append((group, slot))

    def forget(self) -> None:
        self.kept.clear()


def requests(count: int, groups: int = 2, prefix: int = 6, own: int = 3, output: int = 5) -> list[Request]:
    return [Request((1,) * (prefix + own), prefix, at % groups, output) for at in range(count)]


def served(limits: Settings, load: Sequence[Request], concurrency: int = 8) -> tuple[Engine, Recorder, list[Running]]:
    recorder = Recorder()
    engine = Engine(limits, recorder)
    return engine, recorder, engine.serve(load, concurrency)


@settings(max_examples=60, deadline=None)
@given(
    sequences=st.integers(1, 6),
    budget=st.integers(1, 40),
    capacity=st.integers(14, 60),
    cached=st.booleans(),
    overlap=st.booleans(),
    count=st.integers(1, 12),
)
def test_no_limit_is_passed_and_every_request_is_answered(
    sequences: int, budget: int, capacity: int, cached: bool, overlap: bool, count: int
) -> None:
    limits = Settings(sequences, budget, capacity, cached, overlap=overlap)
    engine, recorder, done = served(limits, requests(count))
    assert len(done) == count
    assert all(one.tokens == [7] * 5 and len(one.times) == 5 for one in done)
    for decodes, chunks in recorder.steps:
        slots = [slot for slot, _, _ in (*decodes, *chunks)]
        assert len(slots) == len(set(slots)) <= sequences
        assert 0 < len(decodes) + sum(tokens for _, _, tokens in chunks) <= budget
        assert len(slots) * 14 <= capacity
    computed = sum(tokens for _, chunks in recorder.steps for _, _, tokens in chunks)
    assert computed == 9 * count - 6 * len(recorder.restored)
    assert engine.scheduler.running == []
    assert sorted(engine.scheduler.free) == list(range(sequences))


def test_each_token_is_told_once_and_the_engine_is_idle_when_all_are() -> None:
    told: list[int] = []
    engine = Engine(Settings(overlap=True), Recorder(), told=lambda one: told.append(len(one.tokens)))
    assert engine.idle
    sent = [engine.send(one) for one in requests(3)]
    assert not engine.idle
    while not engine.idle:
        engine.step()
    assert sorted(told) == sorted([1, 2, 3, 4, 5] * 3)
    assert all(len(one.tokens) == 5 for one in sent)


def test_prefixes_are_kept_for_so_many_groups_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(miniature_engine, "MOST_PREFIXES", 2)
    _, recorder, done = served(Settings(), requests(9, groups=3))
    assert sorted(recorder.kept) == [0, 1]
    assert len(done) == 9


def test_a_prompt_longer_than_the_budget_is_computed_in_pieces() -> None:
    _, recorder, _ = served(Settings(max_num_batched_tokens=4), requests(1))
    assert [chunks for _, chunks in recorder.steps[:3]] == [[(0, 0, 4)], [(0, 4, 4)], [(0, 8, 1)]]


def test_a_prefix_is_computed_once_a_group() -> None:
    engine, recorder, _ = served(Settings(max_num_seqs=1), requests(6))
    assert recorder.kept == {0: 6, 1: 6}
    assert [group for group, _ in recorder.restored] == [0, 1, 0, 1]
    assert engine.counts.of["prefix_cache_hits_total"] == 4 * 6
    _, without, _ = served(Settings(max_num_seqs=1, prefix_cache=False), requests(6))
    assert (without.kept, without.restored) == ({}, [])


def test_the_scheduler_s_work_is_in_the_steps_that_the_log_times() -> None:
    log: list[str] = []
    engine = Engine(Settings(scheduler_work=0.002), Recorder(), logged=log.append)
    engine.serve(requests(2), 8)
    steps = [vllm.log_step(line) for line in log]
    assert len(steps) == engine.steps > 0
    assert all(step is not None and step.seconds is not None and step.seconds >= 0.002 for step in steps)


def test_what_is_planned_beside_the_model_takes_time_only_beyond_it() -> None:
    class Slow(Recorder):
        def run(
            self, decodes: Sequence[tuple[int, int, int]], chunks: Sequence[tuple[int, int, Sequence[int]]]
        ) -> list[int]:
            clock.slept += 0.004
            return super().run(decodes, chunks)

    elapsed = {}
    for overlap in (False, True):
        clock = OwnClock()
        engine = Engine(Settings(scheduler_work=0.003, overlap=overlap), Slow(), clock=clock)
        began = clock.now()
        assert len(engine.serve(requests(1, output=6), 1)) == 1
        elapsed[overlap] = clock.now() - began
        assert engine.steps == 6
    # Six steps of four milliseconds; the scheduler's three are in the first alone, or in all of them.
    assert elapsed[False] >= 0.042
    assert 0.027 <= elapsed[True] <= elapsed[False] - 0.010


def test_a_late_frontend_delays_the_first_token_and_not_the_engine_s_own_view() -> None:
    engine, _, done = served(Settings(frontend_delay=0.02), requests(3))
    assert all(one.arrived - one.sent >= 0.02 for one in done)
    assert engine.counts.of["time_to_first_token_seconds_sum"] <= sum(one.times[0] - one.sent - 0.02 for one in done)


def test_the_readers_know_its_annotations_log_and_metrics() -> None:
    names: list[str] = []

    def annotate(name: str) -> AbstractContextManager[object]:
        names.append(name)
        return nullcontext()

    recorder = Recorder()
    log: list[str] = []
    engine = Engine(Settings(), recorder, annotate, logged=log.append)
    engine.serve(requests(4), 2)
    labels = [label for name in names if (label := vllm.step_label(name)) is not None]
    logged = [step.label for line in log if (step := vllm.log_step(line)) is not None]
    assert labels == logged
    assert [(label.decode_requests, label.prefill_requests) for label in labels] == [
        (len(decodes), len(chunks)) for decodes, chunks in recorder.steps
    ]
    known = {f"vllm:{name}" for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")}
    shown = {line.split()[0].split("{")[0] for line in engine.metrics().splitlines() if not line.startswith("#")}
    assert known <= shown
    concepts = {name.removesuffix("_total").removesuffix("_sum").removesuffix("_count").removesuffix("_bucket")
                for name in shown}  # fmt: skip
    # Its decode time is the engine's own, too; nothing is written that no reader takes.
    assert concepts <= vllm.METRICS.keys()


def test_stopping_leaves_the_rest_unanswered() -> None:
    engine = Engine(Settings(), Recorder())
    assert len(engine.serve(requests(20), 4, lambda steps: steps < 6)) < 20
    assert engine.steps == 6


@pytest.mark.parametrize("field", ["max_num_seqs", "max_num_batched_tokens"])
def test_a_lower_limit_needs_more_steps(field: str) -> None:
    few, _, _ = served(Settings(**{field: 2}), requests(8))
    many, _, _ = served(Settings(), requests(8))
    assert few.steps > 1.5 * many.steps


def test_its_own_clock_counts_its_sleeps_and_not_what_others_take() -> None:
    clock = OwnClock()
    began = clock.now()
    time.sleep(0.2)
    assert clock.now() - began < 0.1
    clock.sleep(0.01)
    assert clock.now() - began >= 0.01


def test_a_frontend_that_delays_an_idle_engine_does_not_stop_it() -> None:
    engine = Engine(Settings(frontend_delay=0.003), Recorder(), clock=OwnClock())
    assert len(engine.serve(requests(3), 1)) == 3
