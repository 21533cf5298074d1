"""The miniature engine with its real model: a switch changes how the work is done, and not what comes out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from profiler.examples.miniature_engine import Engine, Request, Settings

pytestmark = pytest.mark.selftest


@pytest.mark.parametrize(
    "changed",
    [
        {"max_num_seqs": 2},
        {"max_num_batched_tokens": 5},
        {"prefix_cache": False},
        {"attention_copies": 3},
        {"rowwise_norm": True},
        {"kv_cache_tokens": 40},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_no_switch_changes_the_answers(changed: dict[str, int]) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from profiler.examples.miniature_model import Decoder, Shape

    shape = Shape(layers=2, hidden=128, vocabulary=64, longest=48)
    load = [Request((*range(10), 20 + at, 40 + at), 10, 0, 6) for at in range(6)]

    def answers(settings: Settings) -> dict[tuple[int, ...], list[int]]:
        engine = Engine(settings, Decoder(shape, settings, "cpu"))
        return {one.request.prompt: one.tokens for one in engine.serve(load, 4)}

    plain = Settings(max_num_seqs=4, max_num_batched_tokens=64, kv_cache_tokens=200)
    assert answers(replace(plain, **changed)) == answers(plain)
    assert len({tuple(tokens) for tokens in answers(plain).values()}) > 1
