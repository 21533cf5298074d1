"""Rates between two scrapes, and a bottleneck named only where the numbers carry it."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from profiler.analyzers.live import LiveState, live_state
from profiler.model.metrics import COUNTERS, GAUGES, MetricsSnapshot
from profiler.reports.live_view import live_line, live_page


def at(**values: float) -> MetricsSnapshot:
    return MetricsSnapshot("metrics", "engine", 0.0, None, values)


def between(first: dict[str, float], last: dict[str, float], **settings: object) -> LiveState:
    return live_state(at(**first), at(**last), 2.0, {f"setting.{name}": value for name, value in settings.items()})


def test_rates_are_the_counters_growth_over_the_time() -> None:
    state = between(
        {"generation_tokens": 100, "prompt_tokens": 10, "step_tokens_sum": 0, "step_tokens_count": 4, "graph_steps": 1,
         "eager_steps": 0, "prefix_queries": 0, "prefix_hits": 0},
        {"generation_tokens": 300, "prompt_tokens": 50, "step_tokens_sum": 240, "step_tokens_count": 14,
         "graph_steps": 7, "eager_steps": 2, "prefix_queries": 40, "prefix_hits": 10, "running_requests": 3},
    )  # fmt: skip
    assert (state.generation, state.prompt, state.steps, state.tokens_per_step) == (100, 20, 5, 24)
    assert (state.graph_share, state.hit_rate, state.running, state.waiting) == (0.75, 0.25, 3, None)


def test_a_restarted_engine_has_no_rates() -> None:
    assert between({"generation_tokens": 900}, {"generation_tokens": 10}).generation is None


BUSY = {"running_requests": 8.0, "waiting_requests": 5.0, "kv_usage": 0.5}


@pytest.mark.parametrize(
    ("last", "settings", "named"),
    [
        (BUSY, {"max_num_seqs": 8}, "batching"),
        (BUSY, {"max_num_seqs": 16}, None),
        (BUSY, {}, None),
        (BUSY | {"kv_usage": 0.97}, {"max_num_seqs": 16}, "memory"),
        (BUSY | {"preemptions": 2.0}, {"max_num_seqs": 8}, "memory"),
        (BUSY | {"scheduler_seconds": 1.0}, {}, "scheduling"),
        (BUSY | {"scheduler_seconds": 0.1}, {}, None),
        (BUSY | {"graph_steps": 1.0, "eager_steps": 9.0}, {}, "cuda_graph"),
        (BUSY | {"graph_steps": 9.0, "eager_steps": 1.0}, {}, None),
        ({"running_requests": 3.0, "waiting_requests": 0.0}, {"max_num_seqs": 8}, "load"),
        ({"running_requests": 6.0, "waiting_requests": 0.0}, {"max_num_seqs": 8}, None),
        ({"running_requests": 3.0, "waiting_requests": 0.0}, {}, None),
        ({"running_requests": 0.0, "waiting_requests": 0.0}, {}, "idle"),
        ({"generation_tokens": 5.0}, {"max_num_seqs": 8}, None),
    ],
)
def test_a_bottleneck_needs_its_evidence(
    last: dict[str, float], settings: dict[str, object], named: str | None
) -> None:
    first = {name: value if name in GAUGES else 0.0 for name, value in last.items()}
    state = between(first, last, **settings)
    assert state.bottleneck == named and bool(state.why) == (named is not None)


def test_requests_that_only_just_began_to_wait_are_no_bottleneck() -> None:
    first = BUSY | {"waiting_requests": 0.0}
    assert between(first, BUSY, max_num_seqs=8).bottleneck is None


VALUES = st.dictionaries(st.sampled_from(sorted(GAUGES | COUNTERS)), st.floats(0, 1e12), max_size=12)


@given(VALUES, VALUES, st.floats(0, 1e6))
def test_any_two_scrapes_can_be_shown(first: dict[str, float], last: dict[str, float], seconds: float) -> None:
    state = live_state(at(**first), at(**last), seconds, {"setting.max_num_seqs": 8})
    rates = (state.generation, state.prompt, state.steps, state.preemptions)
    assert all(rate is None or rate >= 0 for rate in rates)
    console = Console(file=io.StringIO(), width=100)
    console.print(live_page("[red]a server[/red]", "12:00:00", state, (("gpu 0", "50%"),), ""))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "[red]a server[/red]" in shown and "gpu 0" in shown
    assert "\n" not in live_line("12:00:00", state, (("gpu 0", "50%"),))
