"""Garbage collection and the interpreter's lock as causes: where a trace or stacks name them, and only there.

``tests/samples/collapsed_stacks/gc_and_gil.txt`` was recorded by us with ``py-spy record --native --threads --format raw
-d 4 -r 50`` (py-spy 0.4.3, Python 3.11) on a process whose main thread makes cyclic garbage beside 400,000 live objects
while a second thread adds numbers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler import open_run
from profiler.analyzers.device import accounts_of
from profiler.analyzers.host import stack_figures
from tests.analyzers.test_critical_path import call, kernel
from tests.analyzers.test_speculation import step
from tests.strategies import CORPUS, ROOT, Built, document, event_texts, read_bytes

COLLECT = "<built-in function collect>"
SAMPLES = ROOT / "tests" / "samples" / "collapsed_stacks"


def idle(events: list[Built], folder: Path) -> dict[str, int]:
    (account,) = accounts_of(read_bytes(document(event_texts(events)), folder).traces[0])
    assert sum(account.busy.values()) + sum(account.idle.values()) == account.window_ns
    return dict(account.idle)


def between(thread: int) -> list[Built]:
    """Two steps with 80 us between them, 50 of them in a collection that starts inside the schedule phase."""
    return [
        *step("step[DECODE bs=2]", 10_000, 9_000, 1, 10_000),
        Built("user_annotation", "scheduler.get_next_batch_to_run", 30_000, 60_000),
        Built("python_function", COLLECT, 35_000, 50_000, tid=thread),
        *step("step[DECODE bs=2]", 100_000, 9_000, 2, 10_000),
    ]


def test_a_collection_between_two_steps(tmp_path: Path) -> None:
    found = idle(between(4242), tmp_path)
    assert found["between steps: garbage collection"] == 50_000
    assert found["between steps: schedule"] == 10_000


def test_another_threads_collection_proves_nothing(tmp_path: Path) -> None:
    found = idle(between(7), tmp_path)
    assert "between steps: garbage collection" not in found
    assert found["between steps: schedule"] == 60_000


def test_a_collection_inside_a_step(tmp_path: Path) -> None:
    events = [
        Built("user_annotation", "step[DECODE bs=2]", 10_000, 90_000),
        call("cudaLaunchKernel", 10_500, 500, 1), kernel(12_000, 10_000, 1),
        Built("user_annotation", "Python GC", 20_000, 40_000),
        call("cudaLaunchKernel", 65_000, 500, 2), kernel(67_000, 10_000, 2),
    ]  # fmt: skip
    found = idle(events, tmp_path)
    # From the end of the first kernel to the end of the collection.
    assert found == {"in step: garbage collection": 38_000, "in step: launch": 7_000}


def test_a_collection_is_on_the_critical_path(tmp_path: Path) -> None:
    (account,) = accounts_of(read_bytes(document(event_texts(between(4242))), tmp_path).traces[0])
    assert account.path is not None
    assert account.path.seconds["host: garbage collection"] == pytest.approx(50e-6)


def test_recorded_stacks_show_both() -> None:
    figures = stack_figures(open_run(SAMPLES / "gc_and_gil.txt").stacks)
    found = {(f.name, f.detail.split(": ")[-1]): f.value for f in figures if f.name in (
        "garbage collection", "waiting for the GIL"
    )}  # fmt: skip
    # 126 samples of the main thread: 59 collect, 30 wait for the lock; 132 of the other one, of which 36 wait.
    assert found == {
        ("garbage collection", "MainThread"): pytest.approx(59 / 126),
        ("waiting for the GIL", "MainThread"): pytest.approx(30 / 126),
        ("waiting for the GIL", "detokenize"): pytest.approx(36 / 132),
    }


def test_stacks_without_native_frames_cannot_tell() -> None:
    path = CORPUS / "pyspy" / "generated-here" / "pyspy_raw.txt"
    if not path.is_file():
        pytest.skip("the corpus of real files is not on this machine")
    (figure,) = (f for f in stack_figures(open_run(path).stacks) if "GIL" in f.name)
    assert figure.value is None and "--native" in figure.detail


def test_a_library_that_waits_is_not_the_interpreter(tmp_path: Path) -> None:
    path = tmp_path / "stacks.txt"
    path.write_text(
        "thread (1): main;run (engine.py:1);cuEventSynchronize (libcuda.so.1);pthread_cond_timedwait (libc.so.6) 5\n"
        "thread (1): main;run (engine.py:2) 5\n"
    )
    assert not any("GIL" in f.name for f in stack_figures(open_run(path).stacks))
