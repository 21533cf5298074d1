"""Replayed kernels under the ranges that they were captured in.

The export is made here by Nsight's documented schema: no public file at hand holds CUDA_GRAPH_NODE_EVENTS.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from profiler import open_run
from profiler.analyzers.device_view import views_of
from profiler.analyzers.inspection import inspect
from profiler.analyzers.layers import ROLES
from profiler.model.trace import Trace

PID = 4242 << 24
CAPTURER, SERVER = PID + 7, PID + 8
LAYERS = 3
# What a layer launches, and the module that it launches it in (None: in the layer's own range).
LAYER = (
    ("vllm::rms_norm_kernel", "input_layernorm"), ("nvjet_tst_a", "self_attn.qkv_proj"),
    ("flash_fwd_kernel", "self_attn.attn"), ("nvjet_tst_b", "self_attn.o_proj"),
    ("vllm::rms_norm_kernel", "post_attention_layernorm"),
    ("mystery_kernel_of_ours", "mlp"), ("vllm::act_and_mul_kernel", "mlp"), ("nvjet_tst_c", "mlp"),
    ("fused_something", None),
)  # fmt: skip


def export(path: Path, *, table: bool = True, origins: bool = True, ranges: bool = True, generations: int = 1) -> Path:
    """A graph of LAYERS layers, captured under ranges by one thread, cloned and replayed three times by another."""
    with closing(sqlite3.connect(path)) as c, c:
        c.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        names = [*dict.fromkeys(name for name, _ in LAYER), "cudaGraphLaunch_v10000"]
        c.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(names, 1))
        c.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, "
            "correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, graphNodeId INTEGER)"
        )
        c.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, "
            "correlationId INTEGER, nameId INTEGER)"
        )
        c.execute(
            "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER)"
        )
        c.execute(
            "CREATE TABLE CUDA_GRAPH_NODE_EVENTS (start INTEGER, end INTEGER, nameId INTEGER, eventClass INTEGER, "
            "globalTid INTEGER, graphNodeId INTEGER, originalGraphNodeId INTEGER)"
        )
        clock, node = 1_000, 0
        nvtx = [(500, 900_000, "capture", CAPTURER), (500, 900_000_000, "serve", SERVER)]
        kernels: list[tuple[str, int]] = []
        for layer in range(LAYERS):
            began = clock
            for name, module in LAYER:
                node += 1
                if module is not None:
                    nvtx.append((clock, clock + 80, f"model.layers.{layer}.{module}", CAPTURER))
                c.execute("INSERT INTO CUDA_GRAPH_NODE_EVENTS VALUES (?, NULL, 0, 0, ?, ?, NULL)",
                          (clock + 40, CAPTURER, node))  # fmt: skip
                kernels.append((name, node))
                clock += 100
            nvtx.append((began, clock, f"model.layers.{layer}", CAPTURER))
        count = node
        for generation in range(generations):
            # Instantiated by another thread, under a range that says nothing of the modules.
            for one in range(1, count + 1):
                origin = one + generation * 1000 if origins else None
                c.execute("INSERT INTO CUDA_GRAPH_NODE_EVENTS VALUES (?, NULL, 0, 0, ?, ?, ?)",
                          (1_000_000 + one, SERVER, one + (generation + 1) * 1000, origin))  # fmt: skip
        for replay in range(3):
            at = 2_000_000 + replay * 1_000_000
            c.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?)",
                      (at, at + 50, SERVER, 70 + replay, len(names)))  # fmt: skip
            for i, (name, one) in enumerate(kernels):
                c.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 7, ?, ?, ?, ?)",
                          (at + 100 + i * 1000, at + 1100 + i * 1000, 70 + replay, PID, names.index(name) + 1,
                           one + generations * 1000))  # fmt: skip
        if ranges:
            c.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, ?)", nvtx)
        if not table:
            c.execute("DROP TABLE CUDA_GRAPH_NODE_EVENTS")
    return path


def _trace(path: Path) -> Trace:
    (trace,) = open_run(path).traces
    return trace


@pytest.mark.parametrize("generations", [1, 2])
def test_replayed_kernels_get_the_ranges_of_their_capture_through_every_clone(generations: int, tmp_path: Path) -> None:
    trace = _trace(export(tmp_path / "a.sqlite", generations=generations))
    assert len(trace.captured) == LAYERS * len(LAYER)
    for node, path in trace.captured.items():
        layer, at = divmod(node - generations * 1000 - 1, len(LAYER))
        module = LAYER[at][1]
        expected = ["capture", f"model.layers.{layer}"]
        expected += [] if module is None else [f"model.layers.{layer}.{module}"]
        assert [trace.names[i] for i in path] == expected


def test_inspect_shows_them_and_they_add_up(tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite")
    (device,) = inspect(open_run(path)).devices
    assert sum(device.captured.values()) == pytest.approx(device.busy_seconds)
    seconds = {name.removeprefix("capture > model.layers.* > "): s for name, s in device.captured.items()}
    one = LAYERS * 3 * 1000e-9
    assert seconds["model.layers.*.mlp"] == pytest.approx(3 * one)
    assert seconds["model.layers.*.self_attn.qkv_proj"] == pytest.approx(one)
    assert seconds["capture > model.layers.*"] == pytest.approx(one)


def test_ranges_give_a_role_only_where_the_order_of_the_kernels_left_it_open(tmp_path: Path) -> None:
    bare = export(tmp_path / "bare.sqlite", ranges=False)
    told = export(tmp_path / "told.sqlite")
    (without,), (with_ranges,) = views_of(_trace(bare)), views_of(_trace(told))
    before, after = without.layers.role, with_ranges.layers.role
    assert ((before == after) | (before == 0)).all()
    assert list(without.layers.counts) == list(with_ranges.layers.counts)
    # Against a range that contradicts the order of the kernels, the order stays.
    with closing(sqlite3.connect(told)) as c, c:
        c.execute("UPDATE NVTX_EVENTS SET text = 'model.embed_tokens' WHERE text LIKE '%qkv_proj'")
    (misled,) = views_of(_trace(told))
    assert "embedding" not in {ROLES[code] for code in misled.layers.role[before != 0].tolist()}


def test_a_role_comes_from_the_range_where_no_attention_was_recognised_before_it(tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite")
    with closing(sqlite3.connect(path)) as c, c:
        # Without norms the projection behind the attention can't be told from the MLP by order.
        c.execute("UPDATE StringIds SET value = 'fused_anything' WHERE value LIKE '%norm%' OR value LIKE '%act_and%'")
    (view,) = views_of(_trace(path))
    named = {
        view.trace.names[n]: ROLES[r] for n, r in zip(view.events.name.tolist(), view.layers.role.tolist(), strict=True)
    }
    assert named["nvjet_tst_b"] == "out" and named["nvjet_tst_c"] == "mlp" and named["flash_fwd_kernel"] == "attention"


@pytest.mark.parametrize(
    ("change", "said"),
    [({"table": False}, "no creation in this capture"), ({"ranges": False}, "outside any NVTX range")],
)
def test_what_does_not_join_is_said_with_what_to_do(change: dict[str, bool], said: str, tmp_path: Path) -> None:
    run = open_run(export(tmp_path / "a.sqlite", **change))
    (problem,) = [p for p in run.problems if said in p.detail]
    assert problem.count == LAYERS * len(LAYER) and "before" in problem.detail
    assert not run.traces[0].captured and not inspect(run).devices[0].captured


def test_a_clone_whose_origin_was_made_before_the_capture_is_given_no_range(tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite")
    with closing(sqlite3.connect(path)) as c, c:
        c.execute("DELETE FROM CUDA_GRAPH_NODE_EVENTS WHERE graphNodeId <= 4")
        c.execute("UPDATE CUDA_GRAPH_NODE_EVENTS SET originalGraphNodeId = 1006 WHERE graphNodeId = 1005")
        c.execute("UPDATE CUDA_GRAPH_NODE_EVENTS SET originalGraphNodeId = 1005 WHERE graphNodeId = 1006")
    run = open_run(path)
    assert len(run.traces[0].captured) == LAYERS * len(LAYER) - 6
    assert any(p.count == 6 and "no creation" in p.detail for p in run.problems)


def test_they_are_kept_with_the_run(tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite")
    with closing(sqlite3.connect(path)) as c, c:
        # Above the size from which tables are kept.
        c.execute("CREATE TABLE filler (x BLOB)")
        c.execute("INSERT INTO filler VALUES (zeroblob(2000000))")
    first = _trace(path)
    assert list((tmp_path / ".profiler").glob("*.columns"))
    assert _trace(path).captured == first.captured != {}
