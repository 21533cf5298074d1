"""Several workers as one run: what they did adds up, whatever their order, restarts and missing scrapes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.analyzers.gap.measured import counters_of
from profiler.model.metrics import MetricsSnapshot
from profiler.store.workers import by_worker, differences, together

# A worker: its scrapes as (seconds, the counter or None where it is not there yet, running requests).
SCRAPES = st.lists(
    st.tuples(st.integers(0, 99), st.none() | st.integers(0, 1000), st.integers(1, 9)), min_size=2, max_size=8
)


def scrapes(workers: list[list[tuple[int, int | None, int]]]) -> list[MetricsSnapshot]:
    made = [
        MetricsSnapshot(
            f"worker-{at}/{seconds * 1000:07d}.prom", "vllm", float(seconds), float(seconds),
            {"running_requests": running} | ({} if counter is None else {"generation_tokens": counter}),
        )
        for at, series in enumerate(workers)
        for seconds, counter, running in {one[0]: one for one in series}.values()
    ]  # fmt: skip
    return sorted(made, key=lambda one: (one.order, one.path))


@given(st.lists(SCRAPES, min_size=1, max_size=4))
def test_the_rises_of_all_workers_add_up_and_gauges_stay(workers: list[list[tuple[int, int | None, int]]]) -> None:
    alone = scrapes(workers)
    joined = together(alone)
    rises = [counters_of(series, None)[0].get("generation_tokens", 0.0) for series in by_worker(alone).values()]
    if len(joined) > 1:
        assert counters_of(joined, None)[0].get("generation_tokens", 0.0) == pytest.approx(sum(rises))
    assert [one.values["running_requests"] for one in joined] == [one.values["running_requests"] for one in alone]


def test_workers_of_two_engines_or_of_two_caches_are_told() -> None:
    one = MetricsSnapshot("worker-0/0.prom", "vllm", 0.0, 0.0, {"running_requests": 1}, {"num_gpu_blocks": "8"})
    two = MetricsSnapshot("worker-1/0.prom", "sglang", 0.0, 0.0, {"running_requests": 1}, {"num_gpu_blocks": "9"})
    told = [problem.detail for problem in differences(by_worker([one, two]))]
    assert "sglang and vllm" in told[0] and "num_gpu_blocks" in told[1]
    assert differences(by_worker([one])) == []


def test_a_folder_that_only_looks_like_a_worker_s_is_none() -> None:
    plain = MetricsSnapshot("my-worker-0/0.prom", "vllm", 0.0, 0.0, {"running_requests": 1})
    assert by_worker([plain]) == {} and together([plain]) == (plain,)
