"""HolisticTraceAnalysis and this package on the same real traces: where both claim a quantity, the numbers are one.

Every difference is in docs/peers.md, and stands here as what has to be added or left out before the numbers meet. HTA
keeps times as doubles in microseconds; at the stamps of these traces that is up to a quarter of a microsecond.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from profiler.analyzers.device import accounts_of
from profiler.analyzers.timeline import COMMUNICATION, COMPUTE, COPY, sweep
from profiler.analyzers.trace_steps import Launched, launched, spans_of
from profiler.collectors.torch_trace.reader import FORMAT
from profiler.model.trace import EventTable, Kind, Trace
from profiler.store.source import FileSource
from tests.peers.environment import ROOT, NotInstalled, hta_environment, hta_python

pytestmark = pytest.mark.peers

TRACES = sorted((ROOT.parent / "shared" / "corpus" / "kineto").glob("*.pt.trace.json.gz"))
PROFILER_STEPS = "training-a100-rank0of16.pt.trace.json.gz"
OPERATOR_ON_A_STREAM = "vllm-prefill-eager-b200.pt.trace.json.gz"
CPU_ONLY = "cpu-only-gloo-rank34.pt.trace.json.gz"
KINDS = {"kernel": Kind.KERNEL, "gpu_memcpy": Kind.MEMCPY, "gpu_memset": Kind.MEMSET}
TIERS = {"COMPUTATION": COMPUTE, "COMMUNICATION": COMMUNICATION, "MEMORY": COPY, "OTHER": COPY}
# The calls whose launches HTA times, and those that it counts in queues.
TIMED = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync")
QUEUED = (
    *TIMED,
    "cuLaunchKernel",
    "hipLaunchKernel",
    "hipExtModuleLaunchKernel",
    "hipMemcpyAsync",
    "hipMemcpyWithStream",
)

Answers = Mapping[str, Any]


@dataclass(frozen=True)
class Ours:
    """A trace, what ran on the device as HTA counts it, and the launches of these events."""

    trace: Trace
    events: EventTable
    links: Launched

    def call_names(self, rows: NDArray[np.bool_]) -> list[str]:
        return [self.trace.names[i] for i in self.links.calls.name[self.links.call[rows]].tolist()]


@cache
def ours_of(path: Path) -> Ours:
    trace = FORMAT.read(FileSource(path), ()).traces[0]
    events = trace.events.of(Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)
    found = Ours(trace, events, launched(trace, events, spans_of(trace)))
    if path.name != PROFILER_STEPS:
        return found
    # Where a trace has ProfilerSteps, HTA drops device events whose launch call lies in none of them, or not in the trace.
    kept = events.select(found.links.call >= 0)
    return Ours(trace, kept, launched(trace, kept, spans_of(trace)))


@pytest.fixture(scope="session")
def theirs() -> Mapping[str, Answers]:
    """HTA's answers by the trace's name."""
    if not TRACES:
        pytest.skip("the corpus is not beside the checkout")
    try:
        python = hta_python()
    except NotInstalled as reason:
        pytest.skip(f"HolisticTraceAnalysis could not be installed: {reason}")
    command = [str(python), str(Path(__file__).with_name("hta_answers.py")), *map(str, TRACES)]
    done = subprocess.run(command, env=hta_environment(), capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return {Path(path).name: answers for path, answers in json.loads(done.stdout).items()}


@pytest.fixture(params=TRACES, ids=lambda path: path.name.partition(".")[0])
def path(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def device_events(path: Path, theirs: Mapping[str, Answers]) -> EventTable:
    """Our device events, with the host operators that HTA takes for device events because they name a stream."""
    ours = ours_of(path)
    names = {name for kind, name, *_ in theirs[path.name]["events by kind and name"] if kind not in KINDS}
    assert bool(names) == (path.name == OPERATOR_ON_A_STREAM)
    indices = [i for i, name in enumerate(ours.trace.names) if name in names]
    operators = ours.trace.events.of(Kind.OPERATOR)
    extra = operators.select(np.isin(operators.name, indices))
    columns = EventTable.__dataclass_fields__
    return EventTable(**{f: np.concatenate([getattr(ours.events, f), getattr(extra, f)]) for f in columns})


def test_totals_by_name_are_equal(path: Path, theirs: Mapping[str, Answers]) -> None:
    ours = ours_of(path)
    seconds: defaultdict[tuple[int, str], float] = defaultdict(float)
    calls: Counter[tuple[int, str]] = Counter()
    events = ours.events
    for kind, name, duration in zip(events.kind.tolist(), events.name.tolist(), events.duration.tolist(), strict=True):
        seconds[kind, ours.trace.names[name]] += duration / 1e3
        calls[kind, ours.trace.names[name]] += 1
    rows = [row for row in theirs[path.name]["events by kind and name"] if row[0] in KINDS]
    assert {(KINDS[kind], name): count for kind, name, _, count in rows} == calls
    for kind, name, total, count in rows:
        assert seconds[KINDS[kind], name] == pytest.approx(total, abs=1e-3 * count)


def test_window_idle_and_compute_time_are_equal(path: Path, theirs: Mapping[str, Answers]) -> None:
    answers = theirs[path.name]
    if path.name == CPU_ONLY:
        assert answers["temporal"].startswith("IndexError")  # HTA has no answer where no device was traced
        return
    events = device_events(path, theirs)
    swept, compute, _ = under_their_classes(path, events, answers)
    their = answers["temporal"]
    slack = 0.5 + 0.005 * len(events)
    assert swept.window / 1e3 == pytest.approx(their["kernel_time(us)"], abs=0.5)
    assert (swept.window - swept.busy) / 1e3 == pytest.approx(their["idle_time(us)"], abs=slack)
    assert compute / 1e3 == pytest.approx(their["compute_time(us)"], abs=slack)
    if path.name not in (PROFILER_STEPS, OPERATOR_ON_A_STREAM):
        # The account that the product shows, with nothing added or left out.
        (account,) = accounts_of(ours_of(path).trace)
        assert (account.window_ns, account.busy_ns) == (swept.window, swept.busy)


def test_the_overlap_of_communication_with_compute_is_equal(path: Path, theirs: Mapping[str, Answers]) -> None:
    answers = theirs[path.name]
    if path.name == CPU_ONLY:
        assert answers["overlap"]["comp_comm_overlap_pctg"] is None
        return
    _, _, overlap = under_their_classes(path, device_events(path, theirs), answers)
    if overlap is None:
        assert answers["overlap"]["comp_comm_overlap_pctg"] is None
    else:
        assert overlap == pytest.approx(answers["overlap"]["comp_comm_overlap_pctg"], abs=0.01)


def under_their_classes(path: Path, events: EventTable, answers: Answers) -> tuple[Any, float, float | None]:
    """Our sweep with HTA's class of each name: (sweep, compute ns, per cent of communication that compute covers)."""
    classes = {row["name"]: TIERS[row["kernel_type"]] for row in answers["kernels"]}
    # HTA leaves a name that it takes for a host operator out of this table; it counts as compute.
    tier = np.array([classes.get(ours_of(path).trace.names[i], COMPUTE) for i in events.name.tolist()], np.int64)
    swept = sweep(events.start, events.end, tier)
    compute = float(swept.share[tier == COMPUTE].sum())
    chosen = tier == COMMUNICATION
    if not chosen.any():
        return swept, compute, None
    alone = sweep(events.start[chosen], events.end[chosen], tier[chosen]).busy
    return swept, compute, 100 * (1 - float(swept.share[chosen].sum()) / alone)


def test_launches_are_joined_and_timed_alike(path: Path, theirs: Mapping[str, Answers]) -> None:
    ours = ours_of(path)
    joined = ours.links.call >= 0
    timed = np.flatnonzero(joined)[np.isin(ours.call_names(joined), TIMED)]
    calls, events = ours.links.calls, ours.events
    mine = {}
    for row in timed.tolist():
        call = ours.links.call[row]
        delay = max(0, int(events.start[row] - calls.end[call]))
        mine[int(events.correlation[row])] = (int(calls.duration[call]), int(events.duration[row]), delay)
    rows = theirs[path.name]["launches"]
    assert {int(row["correlation"]) for row in rows} == set(mine)
    for row in rows:
        their = [1e3 * row[key] for key in ("cpu_duration", "gpu_duration", "launch_delay")]
        assert mine[int(row["correlation"])] == pytest.approx(their, abs=300)


def test_queues_on_streams_are_equally_long(path: Path, theirs: Mapping[str, Answers]) -> None:
    rows = theirs[path.name]["queues"]
    if path.name == CPU_ONLY:
        assert rows.startswith("KeyError")
        return
    ours = ours_of(path)
    joined = ours.links.call >= 0
    queued = np.flatnonzero(joined)[np.isin(ours.call_names(joined), QUEUED)]
    lengths: defaultdict[int, list[float]] = defaultdict(list)
    for row in rows:
        lengths[int(row["stream"])].append(row["queue_length"])
    streams = ours.events.stream[queued]
    assert set(lengths) == set(streams.tolist())
    for stream, their in lengths.items():
        mine = queued[streams == stream]
        instants = np.concatenate([ours.links.calls.start[ours.links.call[mine]], ours.events.start[mine]])
        change = np.repeat([1, -1], len(mine))
        length = np.cumsum(change[np.lexsort((change, instants))])
        assert len(length) == len(their)
        # At one instant HTA may count the launch before the start; that moves single values by one.
        assert float(length.max()) == pytest.approx(max(their), abs=1)
        assert float(length.mean()) == pytest.approx(float(np.mean(their)), abs=0.1)
