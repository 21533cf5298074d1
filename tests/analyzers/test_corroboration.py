"""A trace against the rest of its run: the profiler's toll, and what the device's own counters say."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from profiler.analyzers.corroboration import belongs_of, busy_of, contradicted, toll_of
from profiler.analyzers.device import accounts_of
from profiler.analyzers.diagnosis import diagnose
from profiler.analyzers.inspection import inspect
from profiler.analyzers.trust import TrustCheck
from profiler.model.counters import GpuCounters
from profiler.model.run import Fact, Run
from profiler.model.trace import Trace
from tests.analyzers.test_trust import graph_trace
from tests.conftest import Lab

EPOCH = 1_750_000_000
SECOND = 10**9


def half_busy() -> Trace:
    """Ten seconds: a kernel of half a second each second."""
    trace = graph_trace()
    kernels = trace.events.select(np.flatnonzero(trace.events.kind == 0)[:10])
    starts = np.arange(10, dtype=np.int64) * SECOND
    duration = np.full(10, SECOND // 2)
    duration[-1] = SECOND
    return replace(trace, events=replace(kernels, start=starts, duration=duration), base=EPOCH * SECOND)


def counters(utilisation: list[float], gpu: list[int], offset: float = 0.0) -> GpuCounters:
    n = len(utilisation)
    nothing = np.full(n, np.nan)
    seconds = EPOCH + 1.5 + offset + np.arange(n) // len(set(gpu))
    return GpuCounters(
        "gpu.csv", seconds, np.array(gpu), nothing, nothing, nothing, np.array(utilisation, float), nothing
    )


def check_of(*samples: GpuCounters) -> TrustCheck | None:
    trace = half_busy()
    run = Run("r", "r", (), {}, traces=(trace,), counters=samples)
    (account,) = accounts_of(trace)
    found = busy_of(run, trace, account)
    failed = found is not None and found.passed is False
    assert bool(contradicted(run, account)) is failed
    assert [t.check for t in inspect(run).trust if "counters" in t.check] == ([] if found is None else [found.name])
    return found


def test_a_device_that_its_counters_call_busier_has_lost_kernels() -> None:
    found = check_of(counters([0.95] * 6, [0] * 6))
    assert found is not None and found.passed is False and found.concerns == "kernel time"
    assert found.detail == "busy 55% of the trace; 6 samples of the same seconds say 95%"


def test_counters_that_say_the_same_or_less_pass() -> None:
    for used in (0.0, 0.5, 0.7):
        found = check_of(counters([used] * 6, [0] * 6))
        assert found is not None and found.passed is True


def test_samples_of_other_seconds_say_nothing() -> None:
    for offset in (-3600.0, 3600.0, 8.0):
        found = check_of(counters([0.95] * 6, [0] * 6, offset))
        assert found is not None and found.passed is None, offset


def test_samples_of_gpus_that_the_trace_may_not_be_say_nothing() -> None:
    found = check_of(counters([0.95, 0.0] * 4, [0, 1] * 4))
    assert found is not None and found.passed is None and found.detail.startswith("2 GPUs were sampled")
    found = check_of(counters([0.95] * 6, [3] * 6))
    assert found is not None and found.passed is False, "the only GPU is the trace's, whatever its number"


def test_without_counters_there_is_no_check() -> None:
    assert check_of() is None
    assert check_of(counters([np.nan] * 6, [0] * 6)) is None


def toll(run: Run) -> TrustCheck | None:
    return toll_of(run, [account for trace in run.traces for account in accounts_of(trace)])


def slowed(run: Run, factor: float) -> Run:
    """The same run, its trace taken by a profiler that makes everything take ``factor`` times as long."""
    (trace,) = run.traces
    events = trace.events
    start = int(events.start.min())
    times = {
        "start": start + ((events.start - start) * factor).astype(np.int64),
        "duration": (events.duration * factor).astype(np.int64),
    }
    return replace(run, traces=(replace(trace, events=replace(events, **times), kept=None),))


@pytest.mark.parametrize(
    ("factor", "passed", "concerns"),
    [(1.0, True, "split of host time inside a step"), (3.0, False, "split of host time inside a step"),
     (0.5, False, "kernel time")],
)  # fmt: skip
def test_the_toll_is_a_check(factor: float, passed: bool, concerns: str, lab: Lab) -> None:
    run = slowed(lab("null").a, factor)
    found = toll(run)
    assert found is not None and (found.passed, found.concerns) == (passed, concerns)
    stated = float(found.detail.split("take ")[1].split(" times")[0])
    assert 0.9 * factor < stated < 1.25 * factor
    assert found.detail in [t.detail for t in inspect(run).trust]


def test_inspect_and_diagnose_state_one_toll(lab: Lab) -> None:
    pair = lab("null")
    found = toll(pair.a)
    assert found is not None
    stated = found.detail.split("take ")[1].split(" times")[0]
    lines = [line for line in pair.forward.method if "traced steps take" in line]
    assert any(f"traced steps take {stated} times" in line for line in lines), lines


def test_a_run_without_benchmark_has_no_toll() -> None:
    assert toll(Run("r", "r", (), {}, traces=(half_busy(),))) is None


def test_kernel_time_that_the_counters_contradict_is_not_claimed() -> None:
    trace = half_busy()
    runs = [Run(n, n, (), {}, traces=(trace,), counters=(counters([0.95] * 6, [0] * 6),)) for n in "ab"]
    document = diagnose(*runs)
    assert any("its kernel time is not complete" in line for line in document.missing)


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"model.num_layers": 31}, r"its steps show 32 layers and the model has 31: they are not of one run"),
        ({"setting.cuda_graph": False}, r"graphs are off by the settings and 100% of its decode steps replay one"),
        ({"setting.max_num_seqs": 4}, r"a step of it decodes \d+ sequences and the limit is 4"),
    ],
)
def test_a_trace_that_its_run_contradicts_splits_nothing(facts: dict[str, object], text: str, lab: Lab) -> None:
    stated = {key: Fact(value, "test") for key, value in facts.items()}
    one, other = (
        replace(run, facts={**run.facts, **stated}) for run in (lab("slow-attention").a, lab("slow-attention").b)
    )
    (account,) = accounts_of(other.traces[0])
    found = belongs_of(other, account)
    assert found is not None and found.passed is False and re.match(text, found.detail), found
    document = diagnose(one, other)
    assert any(re.search(text, line) for line in document.missing)
    assert re.search(rf"is unexplained: run-B: {text}", document.verdict.text)
    assert abs(document.gaps[0].unexplained.share or 0.0) > 0.9


def test_a_trace_of_its_own_run_is_not_contradicted(lab: Lab) -> None:
    for run in (lab("graphs-off").a, lab("graphs-off").b):
        (account,) = accounts_of(run.traces[0])
        found = belongs_of(run, account)
        assert found is not None and found.passed, found
        assert contradicted(run, account) == ()
