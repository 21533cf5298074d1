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
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from profiler.analyzers.bandwidth import STATED, Moved, moved
from profiler.analyzers.device import DeviceAccount, accounts_of
from profiler.analyzers.device_view import DeviceView, views_of
from profiler.analyzers.kernels import family_of
from profiler.analyzers.launching import operators_around
from profiler.analyzers.timeline import COMMUNICATION, COMPUTE, COPY, sweep
from profiler.analyzers.trace_steps import is_graph_launch, launched, spans_of
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


@cache
def view_of(name: str) -> DeviceView:
    (view,) = views_of(trace_of(name))
    return view


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


@dataclass
class Operator:
    """What an operator launched itself: nanoseconds and number of kernels, and its calls that launched any."""

    nanoseconds: int = 0
    kernels: int = 0
    calls: set[int] = field(default_factory=set[int])


def launching_operators(name: str) -> dict[str, Operator]:
    """By the innermost operator around the launch; by the launch call's own name where no operator is around it."""
    view, trace = view_of(name), trace_of(name)
    _, around, _ = operators_around(trace, view.links.calls)
    found: dict[str, Operator] = {}
    for event, call in enumerate(view.links.call.tolist()):
        if call < 0:
            continue
        row = int(around[call])
        one = trace.names[view.links.calls.name[call] if row < 0 else trace.events.name[row]]
        # It leaves the counter off these names.
        one = one.rpartition("_")[0] if one.startswith("sglang_profiler::") else one
        operator = found.setdefault(one, Operator())
        operator.nanoseconds += int(view.events.duration[event])
        operator.kernels += view.events.kind[event] == Kind.KERNEL
        operator.calls.add(-1 - call if row < 0 else row)
    return found


def published(name: str, thing: str, what: str) -> dict[str, float]:
    """Of a published report: operator or category -> time in microseconds, calls or kernels."""
    wanted = {q: float(v) for q, v in recorded()[name].items() if q.startswith(f"{thing} ") and q.endswith(f": {what}")}
    return {q.removeprefix(f"{thing} ").removesuffix(f": {what}"): value for q, value in wanted.items()}


def traced(name: str) -> str:
    if not TRACES:
        pytest.skip("the corpus is not beside the checkout")
    return f"{name}.pt.trace.json.gz"


@pytest.mark.parametrize("name", ["hf-qwen1.5-0.5b-h100", "hf-qwen1.5-0.5b-mi300x", "sglang-mixed-qwen3-8b-mi300x"])
def test_gpu_time_and_calls_of_every_launching_operator_are_equal(name: str) -> None:
    name = traced(name)
    mine = launching_operators(name)
    time = published(name, "operator", "time")
    assert time == {one: pytest.approx(o.nanoseconds / 1e3, abs=ROUNDED) for one, o in mine.items()}
    assert len(time) >= 20
    assert published(name, "operator", "calls") == {one: len(operator.calls) for one, operator in mine.items()}


def test_kernels_of_every_launching_operator_and_without_one_are_equal() -> None:
    name = traced("hf-qwen1.5-0.5b-mi300x")
    mine = {one: operator.kernels for one, operator in launching_operators(name).items() if operator.kernels}
    assert published(name, "operator", "kernels") == mine
    unlinked = view_of(name).events.select(view_of(name).links.call < 0)
    assert len(unlinked.of(Kind.KERNEL)) == int(recorded()[name]["unlinked: kernels"]) == 463


@pytest.mark.parametrize("name", ["sglang-decode-qwen3-8b-mi300x", "vllm-mixed-piecewise-mi300x"])
def test_operators_whose_names_it_takes_from_a_capture_make_up_the_time_that_we_call_replayed(name: str) -> None:
    """Its reports of these traces read the capture's trace too, which names the operators behind a replayed kernel."""
    name = traced(name)
    mine, view = launching_operators(name), view_of(name)
    replayed = mine.pop("hipGraphLaunch")
    theirs = published(name, "operator", "time")
    left = {one: time - mine.get(one, Operator()).nanoseconds / 1e3 for one, time in theirs.items()}
    assert set(mine) < set(theirs)
    assert min(left.values()) > -ROUNDED
    assert sum(left.values()) == pytest.approx(replayed.nanoseconds / 1e3, abs=ROUNDED)
    graphs = np.append(is_graph_launch(trace_of(name), view.links.calls), False)[view.links.call]
    assert int(view.events.duration[graphs].sum()) == replayed.nanoseconds


def sums_by_category(name: str) -> dict[str, float]:
    """Microseconds of the linked events in our categories, named as TraceLens names them."""
    view, trace = view_of(name), trace_of(name)
    rows = view.links.call >= 0
    code, spent_ns = view.classes.code[view.events.name[rows]], view.events.duration[rows]
    ours = dict(zip(view.classes.categories, np.bincount(code, spent_ns) / 1e3, strict=False))
    attention = "SDPA_fwd" if "hf" in name else "InferenceAttention"
    named = {
        # Fills that a GEMM's library launches: of these traces, all.
        "GEMM": ours["gemm"] + ours.get("memset", 0),
        attention: ours["attention"] + ours.get("kv_cache", 0),
        "reduce": ours.get("reduce", 0) + ours.get("sampling", 0),
    }
    if "hf" not in name:
        named["RMSNorm"] = ours["norm"]
    if "sglang" in name:
        named["RoPE_fwd"] = ours["rope"]
    if "moe" in ours:
        padding = [getattr(family_of(trace.names[i]), "role", "") == "inductor_pad" for i in view.events.name[rows]]
        named["MoE_aux"] = ours["moe"] - spent_ns[np.array(padding)].sum() / 1e3
    everything = sum(ours.values()) - sum(named.values())
    return {one: time for one, time in (named | {"the rest": everything}).items() if time > 0}


@pytest.mark.parametrize(
    "name",
    [
        "hf-qwen1.5-0.5b-h100",
        "sglang-decode-qwen3-8b-mi300x",
        "sglang-mixed-qwen3-8b-mi300x",
        "vllm-decode-fullgraph-mi300x",
        "vllm-mixed-piecewise-mi300x",
    ],
)
def test_gpu_time_by_category_is_equal_where_both_categories_mean_the_same(name: str) -> None:
    name = traced(name)
    mine, theirs = sums_by_category(name), published(name, "category", "time")
    rest = ("elementwise", "other", "triton", "multi_tensor_apply")
    theirs["the rest"] = sum(theirs.pop(one, 0) for one in rest)
    assert theirs == {one: pytest.approx(time, abs=ROUNDED) for one, time in mine.items()}
    assert len(theirs) >= 4
