"""Trees of flamegraphs: they add up, and the exports hold what the trees hold."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from profiler import open_run
from profiler.analyzers.device import accounts_of
from profiler.analyzers.flames import Frame, compared, flames_of, pruned
from profiler.model.run import Run
from profiler.model.stacks import StackTable
from profiler.reports.flamegraph import to_collapsed, to_speedscope
from tests.conftest import Lab
from tests.strategies import KINETO, OWN


def adds_up(root: Frame) -> None:
    for _, frame in root.walk():
        assert sum(child.value for child in frame.children.values()) <= frame.value * (1 + 1e-9) + 1e-12, frame.name


def stacks(unit: str = "samples") -> Run:
    table = StackTable(
        path="s", tool="py-spy", unit=unit, frames=("main", "work", "wait 0x7f01"),  # type: ignore[arg-type]
        stacks=((0, 1), (0, 2), (0,)), stack=np.array([0, 1, 2]), weight=np.array([6.0, 3.0, 1.0]),
        process=np.array([-1, -1, -1]), thread=np.array([0, 0, 0]), threads=("MainThread",),
    )  # fmt: skip
    return Run("r", "r", (), {}, stacks=(table,))


def test_stacks_by_hand() -> None:
    flames = flames_of(stacks(), None)
    assert flames is not None
    (thread,) = flames.root.children.values()
    main = thread.children["main"]
    assert (flames.root.value, thread.value, main.value) == (10.0, 10.0, 10.0)
    assert {name: frame.value for name, frame in main.children.items()} == {"work": 6.0, "wait #": 3.0}
    assert sorted(to_collapsed(flames).splitlines()) == [
        "MainThread;main 1", "MainThread;main;wait # 3", "MainThread;main;work 6",
    ]  # fmt: skip


def test_a_device_s_boxes_add_up_to_its_busy_time(lab: Lab) -> None:
    run = lab("graphs-off").b
    flames = flames_of(run, "gpu")
    assert flames is not None
    adds_up(flames.root)
    assert flames.root.value == pytest.approx(sum(a.busy_ns for t in run.traces for a in accounts_of(t)) / 1e9)
    (device,) = flames.root.children.values()
    assert set(device.children) == {"decode", "mixed"}
    assert {f"layer {i}" for i in range(32)} < set(device.children["decode"].children)
    assert "attention" in device.children["decode"].children["layer 3"].children


@pytest.mark.parametrize("kind", ["gpu", "host"])
@pytest.mark.parametrize("name", ["vllm-prefill-eager-b200", "sglang-mixed-qwen3-8b-mi300x", "hf-qwen1.5-0.5b-h100"])
def test_real_traces(kind: str, name: str) -> None:
    path = KINETO / f"{name}.pt.trace.json.gz"
    if not path.is_file():
        pytest.skip("the corpus of real files is not on this machine")
    flames = flames_of(open_run(path), kind)  # type: ignore[arg-type]
    assert flames is not None
    adds_up(flames.root)
    document = json.loads(to_speedscope(flames, name))
    (profile,) = document["profiles"]
    assert sum(profile["weights"]) == pytest.approx(flames.root.value, rel=1e-6)
    assert max(index for sample in profile["samples"] for index in sample) < len(document["shared"]["frames"])


def test_real_stacks() -> None:
    path = OWN / "vllm-vs-sglang" / "sglang-prof"
    if not path.is_dir():
        pytest.skip("the corpus of real files is not on this machine")
    flames = flames_of(open_run(path), "stacks")
    assert flames is not None
    adds_up(flames.root)
    assert flames.root.value > 0


def test_a_difference_holds_both_sides(lab: Lab) -> None:
    pair = lab("graphs-off")
    one, two = flames_of(pair.a, "gpu"), flames_of(pair.b, "gpu")
    assert one is not None
    assert two is not None
    both = compared(one, two, (2.0, 4.0))
    assert both.root.value == pytest.approx(one.root.value / 2)
    assert both.root.other == pytest.approx(two.root.value / 4)
    assert {id(frame) for _, frame in both.root.walk()}.isdisjoint(id(frame) for _, frame in one.root.walk())


def test_small_frames_are_counted_not_lost() -> None:
    flames = flames_of(stacks(), None)
    assert flames is not None
    kept, left = pruned(flames.root, 0.35)
    assert left == 1
    assert kept.value == 10.0
    assert list(kept.children["MainThread"].children["main"].children) == ["work"]


def test_nothing_to_draw() -> None:
    assert flames_of(Run("r", "r", (), {}), None) is None
    assert flames_of(stacks(), "gpu") is None


def test_a_frame_s_name_can_not_break_a_line(tmp_path: Path) -> None:
    run = stacks()
    frames = ("a;b\nc", "work", "x")
    bad = Run("r", "r", (), {}, stacks=(StackTable(**{**run.stacks[0].__dict__, "frames": frames}),))
    flames = flames_of(bad, None)
    assert flames is not None
    assert all(line.rsplit(" ", 1)[1].isdigit() for line in to_collapsed(flames).splitlines())
    assert len(to_collapsed(flames).splitlines()) == 3
