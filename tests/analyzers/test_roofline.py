"""The roofline: peaks, demands by hand, and the lab's kernels below it."""

from __future__ import annotations

import pytest

from profiler.analyzers.device import accounts_of
from profiler.analyzers.roofline import Shape, demands, device_of, roofs, shape_of
from profiler.model.fact import Fact
from profiler.model.steps import StepLabel
from tests.conftest import Lab

LLAMA = {
    "model.dtype": "bfloat16", "model.num_layers": 32, "model.hidden_size": 4096, "model.num_kv_heads": 8,
    "model.head_dim": 128, "model.intermediate_size": 14336, "model.vocab_size": 128256,
}  # fmt: skip


def facts(**changes: object) -> dict[str, Fact[object]]:
    merged = {**LLAMA, **{f"model.{key}": value for key, value in changes.items()}}
    return {key: Fact(value, "run.json", False) for key, value in merged.items() if value is not None}


def shape() -> Shape:
    found = shape_of(facts())
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("NVIDIA H200", "H200 SXM"), ("NVIDIA H100 80GB HBM3", "H100 SXM"), ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA B300 SXM6 AC", "B300"), ("NVIDIA A100-SXM4-80GB", "A100 80GB SXM"), ("AMD Instinct MI300X", "MI300X"),
        ("NVIDIA GeForce GTX 1650", None), ("", None), (None, None),
    ],
)  # fmt: skip
def test_devices_by_the_names_that_traces_give(name: str | None, device: str | None) -> None:
    found = device_of(name)
    assert (found.name if found else None) == device


def test_the_weights_of_llama_8b_add_up() -> None:
    """Every weight but the embedding is read once a step: 8.03e9 parameters less 525e6, 2 bytes each."""
    asked = demands(shape(), StepLabel(decode_requests=1), 1)
    assert sum(d.bytes for d in asked.values()) == pytest.approx(2 * (8.03e9 - 0.525e9), rel=0.001)
    assert sum(d.operations for d in asked.values()) == pytest.approx(2 * (8.03e9 - 0.525e9), rel=0.001)


def test_attention_reads_every_cached_token_once() -> None:
    asked = demands(shape(), StepLabel(decode_requests=4, decode_context=4000), 1)
    assert asked["attention"].bytes == 2 * 8 * 128 * 2 * 4000 * 32
    assert asked["attention"].operations == 4 * 32 * 128 * 4000 * 32
    assert "attention" not in demands(shape(), StepLabel(decode_requests=4), 1)


def test_experts_are_read_where_a_token_chose_them() -> None:
    sparse = shape_of(facts(num_experts=128, experts_per_token=8, moe_intermediate_size=768, hidden_size=2048))
    assert sparse is not None
    one = demands(sparse, StepLabel(decode_requests=1), 1)["experts"]
    assert one.bytes == pytest.approx(8 * 3 * 2048 * 768 * 2 * 32)
    many = demands(sparse, StepLabel(prefill_requests=1, prefill_tokens=4096), 1)["experts"]
    assert many.bytes == pytest.approx(128 * 3 * 2048 * 768 * 2 * 32, rel=1e-6)


def test_a_shape_with_a_missing_dimension_is_not_guessed() -> None:
    assert shape_of(facts(vocab_size=None)) is None
    assert shape_of(facts(dtype="a new type")) is None
    assert shape_of({}) is None


def test_ranks_share_the_work() -> None:
    label = StepLabel(decode_requests=4, decode_context=4000)
    whole, half = demands(shape(), label, 1), demands(shape(), label, 2)
    assert {role: d.bytes for role, d in whole.items()} == {role: 2 * d.bytes for role, d in half.items()}


def test_the_lab_s_kernels_lie_below_the_roof(lab: Lab) -> None:
    run = lab("graphs-off").a
    (account,) = accounts_of(run.traces[0])
    device, model = device_of(str(run.fact("hardware.gpu"))), shape_of(run.facts)
    assert device is not None
    assert model is not None
    assert account.steps is not None
    steps = [
        (label, {role: float(values[i]) for role, values in account.steps.roles.items()})
        for i, label in enumerate(account.steps.spans.labels)
    ]
    found = {roof.role: roof for roof in roofs(device, model, steps, 1)}
    assert set(found) == {"qkv", "out", "mlp", "head"}
    assert all(roof.share is not None and 0.3 < roof.share < 1 for roof in found.values())
    assert {roof.bound for roof in found.values()} == {"memory"}
