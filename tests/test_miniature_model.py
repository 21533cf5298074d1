"""The miniature engine with its real model: a switch changes how the work is done, and not what comes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from profiler.examples.miniature_engine import Engine, Model
from profiler.examples.miniature_settings import Request, Settings

pytestmark = pytest.mark.selftest

# Layers, hidden size, vocabulary, longest context.
SIZES = 2, 128, 64, 48
LOAD = [Request((*range(10), 20 + at, 40 + at), 10, 0, 6) for at in range(6)]
PLAIN = Settings(max_num_seqs=4, max_num_batched_tokens=64, kv_cache_tokens=200)


def answered(settings: Settings, model: Model) -> list[list[int]]:
    done = {one.request.prompt: one.tokens for one in Engine(settings, model).serve(LOAD, 4)}
    return [done[one.prompt] for one in LOAD]


@pytest.mark.parametrize(
    "changed",
    [
        {"max_num_seqs": 2},
        {"max_num_batched_tokens": 5},
        {"prefix_cache": False},
        {"attention_copies": 3},
        {"rowwise_norm": True},
        {"kv_cache_tokens": 40},
        {"math_attention": True},
        {"overlap": True},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_no_switch_changes_the_answers(changed: dict[str, int]) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from profiler.examples.miniature_model import Decoder, Shape

    shape = Shape(*SIZES)

    def answers(settings: Settings) -> list[list[int]]:
        return answered(settings, Decoder(shape, settings, "cpu"))

    assert answers(replace(PLAIN, **changed)) == answers(PLAIN)
    assert len({tuple(tokens) for tokens in answers(PLAIN)}) > 1


@pytest.mark.parametrize("sizes", [(1, 2, 4), (2,), (8,)], ids=str)
def test_a_graph_answers_as_the_steps_that_it_replays_and_is_padded_to_its_size(sizes: tuple[int, ...]) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from profiler.examples.miniature_model import Decoder, Shape

    shape = Shape(*SIZES)
    replayed: list[int] = []

    def stand_in(compute: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        """What CUDA does: the same computation on the same memory again."""
        answer = compute()

        def replay() -> None:
            replayed.append(len(answer))
            answer.copy_(compute())

        return replay, answer

    settings = replace(PLAIN, graph_sizes=sizes)
    with_graphs = answered(settings, Decoder(shape, settings, "cpu", stand_in))
    assert with_graphs == answered(PLAIN, Decoder(shape, PLAIN, "cpu"))
    assert replayed
    assert set(replayed) <= set(sizes)
    replayed.clear()
    off = replace(settings, graphs=False)
    assert answered(off, Decoder(shape, off, "cpu", stand_in)) == with_graphs
    assert replayed == []


def test_two_ranks_answer_as_one_and_the_clock_waits_for_the_slower() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from profiler.examples.miniature_clock import OwnClock
    from profiler.examples.miniature_model import Decoder, Shape
    from profiler.examples.miniature_ranks import Ranks

    shape = Shape(*SIZES)
    settings = replace(PLAIN, ranks=2, last_rank_copies=3)
    clock = OwnClock()
    with Ranks(shape, settings, "cpu", clock) as model:
        together = answered(settings, model)
    assert together == answered(PLAIN, Decoder(shape, PLAIN, "cpu"))
    assert clock.slept > 0.0
