"""Layers and roles: on real traces of models whose layer count is known, and on orders written by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.analyzers.device import accounts_of
from profiler.analyzers.layers import ROLES, Layers, Part, layers_of
from tests.strategies import KINETO, reading_of

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
