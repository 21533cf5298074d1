"""AMD's TraceLens and this package on the same real traces: where both claim a quantity, the numbers are one.

What TraceLens answered stands in tracelens.tsv, so that the comparison runs everywhere; where TraceLens is installed it is
asked again. Every difference is in docs/peers.md, and stands here as what has to be changed before the numbers meet.
TraceLens keeps times as doubles in microseconds; sums over these traces are off by up to 52 ns for that.
"""

from __future__ import annotations

import csv
import importlib.util
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from profiler.analyzers.bandwidth import STATED, Moved, moved
from profiler.analyzers.device import DeviceAccount, accounts_of
from profiler.analyzers.timeline import COMMUNICATION, COMPUTE, COPY, sweep
from profiler.analyzers.trace_steps import launched, spans_of
from profiler.collectors.torch_trace.reader import FORMAT
from profiler.model.trace import EventTable, Kind, Trace
from profiler.store.source import FileSource
from tests.peers.environment import ROOT
from tests.peers.tracelens_answers import lines

TRACES = {path.name: path for path in sorted((ROOT.parent / "shared" / "corpus" / "kineto").glob("*.pt.trace.json.gz"))}
ANSWERED = Path(__file__).with_name("tracelens.tsv")
CPU_ONLY = "cpu-only-gloo-rank34.pt.trace.json.gz"
PARTS = {
    "computation_time": COMPUTE,
    "exposed_comm_time": COMMUNICATION,
    "exposed_memcpy_time": COPY,
    "total_comm_time": COMMUNICATION,
    "total_memcpy_time": COPY,
}
Answers = Mapping[str, Mapping[str, str]]
# Microseconds by which its doubles may be off.
ROUNDED = 0.1


@cache
def trace_of(name: str) -> Trace:
    return FORMAT.read(FileSource(TRACES[name]), ()).traces[0]


@cache
def account_of(name: str) -> DeviceAccount:
    (account,) = accounts_of(trace_of(name))
    return account


def device_events(name: str) -> EventTable:
    return trace_of(name).events.of(Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)


def by_trace(text: list[str]) -> Answers:
    found: dict[str, dict[str, str]] = {}
    for trace, quantity, value, _ in csv.reader(text, delimiter="\t"):
        found.setdefault(trace, {})[quantity] = value
    return found


def recorded() -> Answers:
    text = [line for line in ANSWERED.read_text().splitlines() if not line.startswith("#")]
    return by_trace(text[1:])


@pytest.fixture(
    scope="module", params=["recorded", pytest.param("installed", marks=pytest.mark.peers)], ids=lambda way: str(way)
)
def theirs(request: pytest.FixtureRequest) -> Answers:
    """TraceLens' answers by the trace's name and the quantity: those of tracelens.tsv, and those of an installed one."""
    if not TRACES:
        pytest.skip("the corpus is not beside the checkout")
    if request.param == "recorded":
        return recorded()
    # The package of that name on PyPI is another project.
    if importlib.util.find_spec("TraceLens") is None or importlib.util.find_spec("TraceLens.TreePerf") is None:
        pytest.skip(
            f"AMD's TraceLens is not on PyPI: {sys.executable} -m pip install git+https://github.com/AMD-AGI/TraceLens"
        )
    return by_trace(lines("installed", [str(path) for path in TRACES.values()]).splitlines())


@pytest.fixture(params=TRACES, ids=lambda name: str(name).partition(".")[0])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def microseconds(answers: Mapping[str, str], quantity: str) -> object:
    """Their value, as far as their doubles hold it."""
    return pytest.approx(float(answers[quantity]), abs=ROUNDED)


def test_window_busy_and_idle_time_are_those_that_we_report(name: str, theirs: Answers) -> None:
    answers = theirs[name]
    if name == CPU_ONLY:
        # It has no answer where no device was traced; ours is of the CPU.
        assert answers["gpu timeline"] == "ValueError"
        assert account_of(name).device == "cpu"
        return
    account = account_of(name)
    assert account.window_ns / 1e3 == microseconds(answers, "total_time")
    assert account.busy_ns / 1e3 == microseconds(answers, "busy_time")
    assert (account.window_ns - account.busy_ns) / 1e3 == microseconds(answers, "idle_time")


def test_computation_communication_and_copies_are_equal_under_their_classes(name: str, theirs: Answers) -> None:
    answers = theirs[name]
    if name == CPU_ONLY:
        return
    events = device_events(name)
    tier = their_classes(trace_of(name), events)
    swept = sweep(events.start, events.end, tier)
    for quantity, part in PARTS.items():
        chosen = tier == part
        if quantity.startswith("total"):
            mine = sweep(events.start[chosen], events.end[chosen], tier[chosen]).busy if chosen.any() else 0
        else:
            mine = float(swept.share[chosen].sum())
        assert mine / 1e3 == microseconds(answers, quantity), quantity


def their_classes(trace: Trace, events: EventTable) -> NDArray[np.int8]:
    """NCCL's kernels are communication, copies are copies, and everything else, fills too, is computation."""
    nccl = np.array(["nccl" in trace.names[i] for i in events.name.tolist()], bool)
    tier = np.where(nccl, COMMUNICATION, COMPUTE)
    return np.where(events.kind == Kind.MEMCPY, COPY, tier).astype(np.int8)


def test_what_a_collective_moves_and_how_fast_is_equal(name: str, theirs: Answers) -> None:
    answers = {quantity: value for quantity, value in theirs[name].items() if quantity.startswith("collective ")}
    mine = [one for one in stated(name) if one.kernel.startswith("ncclDevKernel")]
    assert len(mine) == len({quantity.split(":")[0] for quantity in answers}) <= 1
    for one in mine:
        assert one.seconds.sum() * 1e6 == microseconds(answers, "collective 0: comm_latency")
        # What it calls MB and GB are 2^20 and 2^30 bytes.
        assert one.sizes.sum() / 2**20 == pytest.approx(float(answers["collective 0: Full msg size (MB)"]))
        assert one.algorithm is not None
        assert one.bus is not None
        assert one.algorithm / 2**30 == pytest.approx(float(answers["collective 0: algo bw (GB/s)"]), rel=1e-4)
        assert one.bus / 2**30 == pytest.approx(float(answers["collective 0: bus bw (GB/s)"]), rel=1e-4)


def stated(name: str) -> list[Moved]:
    """The collectives whose size the communication library states."""
    return [one for one in moved(account_of(name).collectives, {}) if one.source == STATED]


@pytest.mark.parametrize("name", ["hf-qwen1.5-0.5b-h100.pt.trace.json.gz", "hf-qwen1.5-0.5b-mi300x.pt.trace.json.gz"])
def test_its_published_reports_say_what_we_say_of_the_events_that_a_launch_links_to(name: str) -> None:
    if not TRACES:
        pytest.skip("the corpus is not beside the checkout")
    trace, events = trace_of(name), device_events(name)
    links = launched(trace, events, spans_of(trace))
    linked, other = events.select(links.call >= 0), events.select(links.call < 0)
    mine = {
        "time of kernels": spent(events.of(Kind.KERNEL)),
        "linked: time of all events": spent(linked),
        "linked: total_time": int(linked.end.max() - linked.start.min()) / 1e3,
    }
    for part, rows in (("linked", linked), ("unlinked", other)):
        named = rows.select(np.array([trace.names[i] == "attn_fwd" for i in rows.name.tolist()], bool))
        mine |= {f"{part}: time of attn_fwd": spent(named), f"{part}: calls of attn_fwd": len(named)}
    published = {quantity: float(value) for quantity, value in recorded()[name].items() if quantity in mine}
    assert published == {quantity: pytest.approx(mine[quantity], abs=ROUNDED) for quantity in published}
    assert len(published) == (1 if "h100" in name else 6)


def spent(events: EventTable) -> float:
    return int(events.duration.sum()) / 1e3
