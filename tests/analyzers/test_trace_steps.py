"""Steps where no annotation marks them: from Python frames, graph launches, or the order of the kernels alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from profiler.analyzers.trace_steps import spans_of
from profiler.model.trace import Kind, Trace
from tests.conftest import Lab
from tests.strategies import KINETO, reading_of


def without(trace: Trace, *kinds: Kind) -> Trace:
    events = trace.events
    return replace(trace, events=events.select(~np.isin(events.kind, np.array(kinds, np.uint8))))


@pytest.mark.parametrize(
    "name", ["sglang-decode-qwen3-8b-mi300x", "sglang-mixed-qwen3-8b-mi300x", "vllm-mixed-piecewise-mi300x"]
)
def test_python_frames_of_real_traces(name: str) -> None:
    path = KINETO / f"{name}.pt.trace.json.gz"
    if not path.is_file():
        pytest.skip("the corpus of real files is not on this machine")
    bare = without(reading_of(path).traces[0], Kind.ANNOTATION, Kind.DEVICE_ANNOTATION, Kind.OPERATOR)
    found = spans_of(bare)
    assert (len(found), found.source, found.inferred) == (1, "Python frames", True)


@pytest.mark.parametrize(("case", "side"), [("graphs-off", "a"), ("graphs-off", "b"), ("piecewise", "b")])
def test_the_order_of_the_kernels_finds_the_annotated_steps(case: str, side: str, lab: Lab) -> None:
    trace = getattr(lab(case), side).traces[0]
    stated = spans_of(trace)
    marks = (Kind.ANNOTATION, Kind.DEVICE_ANNOTATION, Kind.OPERATOR)
    for bare in (without(trace, *marks), without(trace, *marks, Kind.LAUNCH)):
        found = spans_of(bare)
        assert (len(found), found.source, found.inferred) == (len(stated), "kernel order", True)


def test_kernels_that_are_no_model_have_no_steps() -> None:
    path = KINETO / "gpu-only-mi210.pt.trace.json.gz"
    if not path.is_file():
        pytest.skip("the corpus of real files is not on this machine")
    assert len(spans_of(reading_of(path).traces[0])) == 0
