"""Layers and roles: on real traces of models whose layer count is known, and on orders written by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.analyzers.device import accounts_of
from profiler.analyzers.layers import ROLES, Layers, Part, layers_of
from tests.strategies import KINETO, OWN, reading_of

# The layers of the models' own configurations: Qwen3-8B, Qwen3-30B-A3B, gpt-oss-20b and -120b, Qwen1.5-0.5B, DeepSeek-R1.
LAYERS = {
    "sglang-decode-qwen3-8b-mi300x": 36,
    "sglang-mixed-qwen3-8b-mi300x": 36,
    "sglang-decode-qwen3-30b-a3b-b300": 48,
    "sglang-decode-qwen3-30b-a3b-mi300x": 48,
    "vllm-decode-fullgraph-mi300x": 24,
    "vllm-mixed-piecewise-mi300x": 24,
    "vllm-prefill-eager-b200": 36,
    "hf-qwen1.5-0.5b-h100": 24,
    "hf-qwen1.5-0.5b-mi300x": 24,
    "lightllm-ep8-decode-h200-rank0": 61,
    "lightllm-ep8-decode-h200-rank1": 61,
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_and_roles_of_a_real_model(name: str) -> None:
    path = KINETO / f"{name}.pt.trace.json.gz"
    if not path.is_file():
        pytest.skip("the corpus of real files is not on this machine")
    (account,) = accounts_of(reading_of(path).traces[0])
    assert account.layers == LAYERS[name]
    assert sum(account.roles.values()) == account.busy_ns
    assert 1 - account.roles.get("not known", 0) / account.busy_ns >= 0.95
    assert {"attention", "qkv", "out", "norm"} <= set(account.roles)


# Recorded by us: the tiny model has 4 layers, the small one 12 (lab/engines/tiny_model.py).
OWN_LAYERS = {
    "sglang-0.5.23-cpu/trace": 4,
    "vllm-budget/max-num-batched-tokens-64/trace": 4,
    "vllm-budget/max-num-batched-tokens-2048/trace": 4,
    "vllm-compile/eager/trace": 4,
    "vllm-sequences/max-num-seqs-2/trace": 4,
    "vllm-prefix-cache-tiny/off/trace": 4,
    "vllm-prefix-cache-70m/on/trace": 12,
    "vllm-prefix-cache-70m/off/trace": 12,
    "vllm-everything-on": 12,
    "vllm-vs-sglang/sglang-prof": 4,
    "vllm-vs-sglang/vllm-prof": 4,
}


@pytest.mark.parametrize("folder", OWN_LAYERS)
def test_layers_of_a_cpu_engine_that_calls_attention_for_each_sequence_or_for_all(folder: str) -> None:
    paths = sorted((OWN / folder).glob("*[Tr]*0*.trace.json.gz"))
    paths = [path for path in paths if "async_llm" not in path.name]
    if not paths:
        pytest.skip("the corpus of real files is not on this machine")
    for path in paths:
        (account,) = accounts_of(reading_of(path).traces[0])
        assert account.layers == OWN_LAYERS[folder]
        assert sum(account.roles.values()) == account.busy_ns
        if not any(name.startswith("## Call CompiledFx") for name in reading_of(path).traces[0].names):
            known = 1 - account.roles.get("not known", 0) / account.busy_ns
            assert known >= 0.95 and {"attention", "qkv", "out", "norm", "mlp"} <= set(account.roles)
            assert account.roles["head"] < 0.15 * account.busy_ns


def walked(*parts: Part) -> list[str]:
    found = layers_of(np.array(parts, np.uint8), np.zeros(len(parts), np.int64))
    return [ROLES[code] for code in found.role.tolist()]


N, G, A, AT, R, KV = Part.NORM, Part.GEMM, Part.ACTIVATION, Part.ATTENTION, Part.ROPE, Part.KV_WRITE
DENSE = (N, G, R, KV, AT, G, N, G, A, G)
DENSE_ROLES = ["norm", "qkv", "rope", "kv_write", "attention", "out", "norm", "mlp", "mlp", "mlp"]


def test_a_dense_decoder() -> None:
    step = (Part.EMBEDDING, *DENSE, *DENSE, N, G, Part.SAMPLING)
    assert walked(*step) == ["embedding", *DENSE_ROLES, *DENSE_ROLES, "norm", "head", "sampling"]


def test_attention_in_two_kernels_is_one_layer() -> None:
    found = layers_of(np.array((N, G, AT, Part.GLUE, AT, G, N, G, A, G), np.uint8), np.zeros(10, np.int64))
    assert found.usual == 1
    assert [ROLES[c] for c in found.role.tolist()][2:6] == ["attention", "attention", "attention", "out"]


def test_attention_of_one_sequence_after_the_other_is_one_layer() -> None:
    gather = Part.EMBEDDING
    layer = (N, G, KV, gather, AT, gather, AT, gather, AT, G, N, G, A, G)
    step = np.array((Part.EMBEDDING, *layer, *layer, N, gather, G, Part.SAMPLING), np.uint8)
    found = layers_of(step, np.zeros(len(step), np.int64))
    assert found.usual == 2
    roles = [ROLES[code] for code in found.role.tolist()]
    assert roles[4:11] == [*["attention"] * 6, "out"]
    assert roles[-4:] == ["norm", "head", "head", "sampling"]


def counted(*layers_of_steps: int) -> int | None:
    """The usual number of layers of steps that have so many each."""
    one = np.array((N, G, AT, G, N, G, A, G), np.uint8)
    parts = np.concatenate([np.tile(one, n) for n in layers_of_steps])
    return layers_of(parts, np.repeat(np.arange(len(layers_of_steps)), [8 * n for n in layers_of_steps])).usual


def test_the_count_is_that_of_most_steps_and_not_known_where_they_disagree() -> None:
    assert counted(4, 4, 4, 3) == counted(2, 4) == counted(2, 4, 1) == counted(4, 4, 5) == 4
    assert counted(4, 4, 8, 8) is None
    assert counted(4, 8, 12, 16) is None


def test_what_is_outside_the_steps_has_roles_and_no_count() -> None:
    parts = np.array((N, G, AT, G, N, G, A, G), np.uint8)
    outside = layers_of(parts, np.full(8, -1, np.int64))
    assert outside.usual is None
    assert outside.found
    assert outside.role.tolist() == layers_of(parts, np.zeros(8, np.int64)).role.tolist()


def test_a_draft_s_layers_are_not_added_to_the_target_s() -> None:
    draft = (Part.EMBEDDING, *DENSE, N, G, Part.SAMPLING)
    step = np.array((Part.EMBEDDING, *DENSE, *DENSE, *DENSE, N, G, Part.SAMPLING, *draft, *draft), np.uint8)
    assert layers_of(step, np.zeros(len(step), np.int64)).usual == 3


def test_the_gemm_before_the_routing_is_the_router_and_the_others_are_shared_experts() -> None:
    layer = (N, G, AT, G, N, G, A, G, G, Part.ROUTER, Part.DISPATCH, G, A, G, Part.COMBINE)
    assert walked(*layer, *layer)[5:15] == [
        "mlp", "mlp", "mlp", "router", "router", "communication", "experts", "experts", "experts", "communication",
    ]  # fmt: skip


def test_a_norm_behind_the_projections_is_that_of_queries_and_keys() -> None:
    assert walked(N, G, N, N, R, AT, G, N, G, A, G, N, G, AT)[:4] == ["norm", "qkv", "qk_norm", "qk_norm"]


def test_an_all_reduce_that_holds_the_norm_parts_the_blocks() -> None:
    both = Part.COMMUNICATION_NORM
    assert walked(N, G, AT, G, both, G, A, G, both, G, AT, G, both, G, A, G) == [
        "norm", "qkv", "attention", "out", "communication", "mlp", "mlp", "mlp", "communication",
        "qkv", "attention", "out", "communication", "mlp", "mlp", "mlp",
    ]  # fmt: skip


def test_without_a_norm_the_gemms_can_not_be_told_apart() -> None:
    assert walked(KV, AT, G, G, G, G, KV, AT, G, G, G) == [
        "kv_write", "attention", *["not known"] * 4, "kv_write", "attention", *["not known"] * 3,
    ]  # fmt: skip


def test_glue_goes_with_what_follows_and_a_split_reduction_with_what_came_before() -> None:
    assert walked(N, Part.GLUE, G, Part.AFTER, AT) == ["norm", "qkv", "qkv", "qkv", "attention"]


def test_steps_that_the_trace_does_not_mark_are_told_apart_by_the_sampling() -> None:
    step = (Part.EMBEDDING, *DENSE, N, G, Part.SAMPLING)
    assert walked(*step, *step).count("head") == 2


def test_no_attention_means_no_role() -> None:
    found = layers_of(np.array((N, G, N, G), np.uint8), np.zeros(4, np.int64))
    assert found.usual is None


def every(found: Layers) -> tuple[list[int], list[int], list[int]]:
    return found.role.tolist(), found.layer.tolist(), sorted(found.counts.tolist())


@given(st.lists(st.sampled_from(Part), max_size=60), st.integers(1, 4))
def test_steps_are_looked_at_one_by_one_whatever_their_order(parts: list[Part], steps: int) -> None:
    """Several equal steps, interleaved or not, get what one alone gets."""
    alone = layers_of(np.array(parts, np.uint8), np.zeros(len(parts), np.int64))
    repeated = np.repeat(np.array(parts, np.uint8), steps)
    owner = np.tile(np.arange(steps), len(parts))
    found = layers_of(repeated, owner)
    assert every(found) == (
        np.repeat(alone.role, steps).tolist(),
        np.repeat(alone.layer, steps).tolist(),
        sorted(alone.counts.tolist() * steps),
    )
    assert (found.role < len(ROLES)).all()
