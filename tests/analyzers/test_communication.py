"""Waiting for the slowest rank told apart from transfer: on two real ranks, and on ranks whose waits are planted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.analyzers.communication import Collectives, across_ranks, totals_of
from profiler.analyzers.device import accounts_of
from profiler.model.requests import Floats, Ints
from profiler.model.trace import Message
from tests.strategies import KINETO, reading_of


def test_two_real_ranks_are_aligned() -> None:
    paths = [KINETO / f"lightllm-ep8-decode-h200-rank{rank}.pt.trace.json.gz" for rank in (0, 1)]
    if not all(path.is_file() for path in paths):
        pytest.skip("the corpus of real files is not on this machine")
    traces = [reading_of(path).traces[0] for path in paths]
    accounts = [accounts_of(trace)[0] for trace in traces]
    found = across_ranks([(t.path, t.base, a.collectives) for t, a in zip(traces, accounts, strict=True)])
    assert found is not None
    # 58 layers with experts, one dispatch and one combine each.
    assert (found.matched, found.unmatched) == (116, 0)
    assert abs(found.ranks[1].offset) < 1e-4
    assert found.spread < 1e-4
    for rank, account in zip(found.ranks, accounts, strict=True):
        spent = float((account.collectives.end - account.collectives.start).sum()) / 1e9
        assert rank.waiting + rank.transfer == pytest.approx(spent)
        assert 0 < rank.waiting < rank.transfer
    # Both were last about as often, so neither is blamed.
    assert found.straggler is None


def collectives(
    names: tuple[str, ...], start: Ints, end: Ints, exposed: Floats | None = None, messages: tuple[Message, ...] = ()
) -> Collectives:
    n = len(names)
    hidden = np.zeros(n) if exposed is None else exposed
    return Collectives(names, start, end, hidden, messages or (None,) * n, np.zeros(n, np.int64))


def planted(late: list[int], transfer: list[int], shift: int) -> list[tuple[str, int, Collectives]]:
    """Two ranks; the second arrives ``late`` ns after the first (negative: before), its clock is ``shift`` ns off."""
    n = len(late)
    ready = np.arange(n) * 10_000_000 + 5_000_000
    first, second = ready, ready + np.array(late)
    end = np.maximum(first, second) + np.array(transfer)
    names = ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL",) * n
    return [("0", 0, collectives(names, first, end)), ("1", shift, collectives(names, second, end))]


@given(
    st.lists(st.tuples(st.integers(-200_000, 200_000), st.integers(1_000, 100_000)), min_size=1, max_size=20),
    st.integers(-(10**12), 10**12),
)
def test_planted_waits_are_found_whatever_the_clocks_say(rows: list[tuple[int, int]], shift: int) -> None:
    late, transfer = [row[0] for row in rows], [row[1] for row in rows]
    found = across_ranks(planted(late, transfer, shift))
    assert found is not None
    assert found.ranks[0].waiting == pytest.approx(sum(max(x, 0) for x in late) / 1e9, abs=1e-9)
    assert found.ranks[1].waiting == pytest.approx(sum(max(-x, 0) for x in late) / 1e9, abs=1e-9)
    assert found.ranks[0].transfer == found.ranks[1].transfer == pytest.approx(sum(transfer) / 1e9)
    assert found.ranks[1].offset == pytest.approx(shift / 1e9)


def test_the_rank_that_is_always_late_is_named() -> None:
    found = across_ranks(planted([100_000] * 30, [5_000] * 30, 77))
    assert found is not None
    assert found.straggler is not None
    assert found.straggler.trace == "1"


def test_ranks_without_a_common_collective_are_not_compared() -> None:
    (a, b) = planted([1, 2], [3, 4], 0)
    other = collectives(("ncclDevKernel_Broadcast",) * 2, b[2].start, b[2].end)
    assert across_ranks([a, ("1", 0, other)]) is None
    assert across_ranks([a]) is None


def test_totals_add_up() -> None:
    found = collectives(("x", "y", "x"), np.array([0, 10, 20]), np.array([5, 12, 30]), np.array([1.0, 2.0, 3.0]))
    assert [(t.kernel, t.calls, t.seconds, t.exposed) for t in totals_of(found)] == [
        ("x", 2, pytest.approx(15e-9), pytest.approx(4e-9)),
        ("y", 1, pytest.approx(2e-9), pytest.approx(2e-9)),
    ]
