"""Message sizes and bandwidths of collectives: read off real traces, and their arithmetic on planted ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.analyzers.bandwidth import COMPUTED, SHAPES, STATED, TENSOR_PARALLEL, WHOLE_JOB, moved, transfers
from profiler.analyzers.communication import across_ranks
from profiler.analyzers.device import accounts_of
from profiler.model.fact import Fact
from profiler.model.trace import COLLECTIVES, NO_ID, Message
from tests.analyzers.test_communication import collectives
from tests.strategies import KINETO, reading_of

needs_corpus = pytest.mark.skipif(not KINETO.is_dir(), reason="the corpus of real files is not on this machine")
ALL_REDUCE = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)"


@needs_corpus
def test_sizes_of_a_tensor_parallel_prefill() -> None:
    """888 tokens among 8 ranks: after attention and after the experts, whose width is padded from 2,880 to 3,072."""
    trace = reading_of(KINETO / "vllm-prefill-eager-b200.pt.trace.json.gz").traces[0]
    found = moved(accounts_of(trace)[0].collectives, {})
    reduce = next(one for one in found if one.operation == "all_reduce")
    sizes, counts = np.unique(reduce.sizes, return_counts=True)
    assert dict(zip(sizes.tolist(), counts.tolist(), strict=True)) == {888 * 2880 * 2: 37, 888 * 3072 * 2: 36}
    assert (reduce.of, reduce.ranks, reduce.source) == (73, 8, SHAPES)
    assert reduce.bus == pytest.approx(reduce.sizes.sum() / reduce.seconds.sum() * 2 * 7 / 8)
    # The one collective of NCCL states what it moves: the logits, an eighth of them from each rank.
    gather = next(one for one in found if one.operation == "all_gather")
    assert (gather.sizes.tolist(), gather.ranks, gather.source) == ([201088 * 2], 8, STATED)
    assert gather.bus == pytest.approx(201088 * 2 / 21.953e-6 * 7 / 8)


@needs_corpus
def test_an_older_trace_without_arguments_has_the_shapes_and_no_group() -> None:
    trace = reading_of(KINETO / "training-a100-rank0of16.pt.trace.json.gz").traces[0]
    found = {one.operation: one for one in moved(accounts_of(trace)[0].collectives, {})}
    assert {name: one.calls for name, one in found.items()} == {
        "all_reduce": 10, "all_to_all": 45, "reduce_scatter": 10, "all_gather": 10
    }  # fmt: skip
    # Rows of the embedding tables: 65,536 x 64 and x 384 floats in all.
    assert set(found["all_gather"].sizes.tolist()) == {65536 * 64 * 4.0, 65536 * 384 * 4.0}
    assert all(one.ranks is None and one.bus is None and (one.algorithm or 0) > 0 for one in found.values())
    # It states how many ranks the job has, of which a group can have fewer.
    assert trace.world_size == 16
    whole = moved(accounts_of(trace)[0].collectives, {}, world_size=16)
    assert {(one.ranks, one.group) for one in whole} == {(16, WHOLE_JOB)}
    assert all(one.bus == pytest.approx(one.algorithm * one.factor) for one in whole if one.algorithm and one.factor)


@needs_corpus
def test_no_size_is_made_up() -> None:
    trace = reading_of(KINETO / "lightllm-ep8-decode-h200-rank0.pt.trace.json.gz").traces[0]
    facts = {"model.hidden_size": Fact(7168, "run.json"), "model.dtype": Fact("bfloat16", "run.json")}
    # What experts are sent depends on the routing.
    assert moved(accounts_of(trace)[0].collectives, facts) == []


def test_the_size_of_an_all_reduce_is_computed_from_the_model_and_the_step() -> None:
    found = collectives((ALL_REDUCE,) * 3, np.array([0, 100, 200]), np.array([10, 120, 240]))
    found = replace(found, tokens=np.array([32, 64, 0]))
    facts = {"model.hidden_size": Fact(4096, "run.json"), "model.dtype": Fact("bfloat16", "run.json")}
    assert moved(found, {}) == []
    (one,) = moved(found, facts)
    assert (one.sizes.tolist(), one.of, one.source, one.bus) == ([32 * 8192, 64 * 8192], 3, COMPUTED, None)
    (one,) = moved(found, {**facts, "setting.tensor_parallel": Fact(4, "run.json")})
    assert one.bus == pytest.approx(96 * 8192 / 30e-9 * 1.5)
    # Weights of four bits say nothing of what is sent.
    assert moved(found, {**facts, "model.dtype": Fact("awq", "run.json")}) == []


def test_a_group_that_the_call_does_not_state_is_computed_and_marked() -> None:
    messages = tuple(
        Message(operation, 1000, NO_ID, NO_ID, shapes=True, call=i)
        for i, operation in enumerate(("all_reduce", "all_to_all", "broadcast"))
    )
    found = collectives(("a", "b", "c"), np.array([0, 20, 40]), np.array([10, 30, 50]), messages=messages)

    def groups(tensor_parallel: int | None, world_size: int | None) -> dict[str, tuple[int | None, str | None]]:
        facts: dict[str, Fact[object]] = {}
        if tensor_parallel is not None:
            facts["setting.tensor_parallel"] = Fact(tensor_parallel, "log")
        return {one.operation: (one.ranks, one.group) for one in moved(found, facts, world_size=world_size)}

    none, parallel, job = (None, None), (4, TENSOR_PARALLEL), (8, WHOLE_JOB)
    assert groups(None, None) == {"all_reduce": none, "all_to_all": none, "broadcast": none}
    assert groups(4, None) == {"all_reduce": parallel, "all_to_all": none, "broadcast": none}
    assert groups(4, 8) == {"all_reduce": parallel, "all_to_all": job, "broadcast": none}
    assert groups(4, 4) == {"all_reduce": parallel, "all_to_all": parallel, "broadcast": parallel}
    assert groups(None, 8) == {"all_reduce": job, "all_to_all": job, "broadcast": none}
    assert groups(1, 1) == {"all_reduce": none, "all_to_all": none, "broadcast": none}
    call = Message("all_reduce", 8, 8, 2, shapes=False, call=0)
    stated = collectives(("a",), np.array([0]), np.array([10]), messages=(call,))
    assert [(one.ranks, one.group) for one in moved(stated, {}, world_size=8)] == [(2, None)]


def test_bandwidth_is_that_of_the_transfer_where_ranks_are_aligned() -> None:
    names = ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL",) * 4
    messages = tuple(Message("all_reduce", 1_000_000, 1_000_000, 2, shapes=False, call=i) for i in range(4))
    end = np.arange(1, 5) * 10_000_000
    early = collectives(names, end - 110_000, end, messages=messages)
    late = collectives(names, end - 10_000, end, messages=messages)
    across = across_ranks([("0", 0, early), ("1", 0, late)])
    assert across is not None
    for i, rank in enumerate((early, late)):
        (one,) = moved(rank, {}, transfers(rank, across.rows[i], across.transfer))
        assert one.transfer
        assert one.algorithm == pytest.approx(1_000_000 / 10e-6)
    (whole,) = moved(early, {})
    assert not whole.transfer
    assert whole.algorithm == pytest.approx(1_000_000 / 110e-6)


def test_a_call_of_several_kernels_gives_none_of_them_a_size() -> None:
    message = Message("all_reduce", 8, 8, 2, shapes=False, call=5)
    assert moved(collectives(("a", "a"), np.array([0, 5]), np.array([1, 6]), messages=(message, message)), {}) == []


@given(
    st.sampled_from([*COLLECTIVES, "send_receive"]), st.integers(2, 64), st.integers(1, 10**9), st.integers(1, 10**9)
)
def test_a_ring_of_links_with_one_speed_has_that_bus_bandwidth(operation: str, n: int, each: int, ns: int) -> None:
    """What nccl-tests' factors are for: the bus bandwidth is what passes through each rank's link in a ring."""
    whole = each * n
    sent = each if operation in ("all_gather", "gather") else whole
    received = whole if operation in ("all_gather", "gather") else NO_ID
    through_link = {"all_reduce": 2 * each * (n - 1), "broadcast": whole, "reduce": whole, "send_receive": whole}
    message = Message(operation, sent, received, n, shapes=False, call=0)
    (one,) = moved(collectives(("k",), np.array([0]), np.array([ns]), messages=(message,)), {})
    assert one.bus == pytest.approx(through_link.get(operation, each * (n - 1)) / (ns / 1e9))
