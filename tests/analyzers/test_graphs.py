"""Graph figures: by hand count on real traces, and what captured sizes make of batches."""

from __future__ import annotations

import numpy as np
import pytest

from profiler.analyzers.device import accounts_of
from profiler.analyzers.graphs import MODES, GraphUse, misses, padding
from tests.strategies import KINETO, reading_of

# Counted by hand in the files: (mode of the step, replays, kernels replayed, kernels).
COUNTED = {
    "vllm-decode-fullgraph-mi300x": ("full", 1, 421, 425),
    "vllm-mixed-piecewise-mi300x": ("pieces", 25, 361, 413),
    "sglang-decode-qwen3-8b-mi300x": ("full", 1, 544, 555),
    "sglang-decode-qwen3-30b-a3b-b300": ("full", 1, 676, 713),
    "sglang-decode-qwen3-30b-a3b-mi300x": ("full", 1, 772, 802),
    "vllm-prefill-eager-b200": ("eager", 0, 0, 768),
}


@pytest.mark.parametrize("name", COUNTED)
def test_graphs_by_hand_count(name: str) -> None:
    path = KINETO / f"{name}.pt.trace.json.gz"
    if not path.is_file():
        pytest.skip("the corpus of real files is not on this machine")
    (account,) = accounts_of(reading_of(path).traces[0])
    use = account.graphs
    assert use is not None
    mode, replays, replayed, kernels = COUNTED[name]
    assert [MODES[m] for m in use.mode.tolist()] == [mode]
    assert (use.replays, use.kernels_replayed, use.kernels) == (replays, replayed, kernels)
    assert use.share("full") == float(mode == "full")
    assert use.pieces == (replays if mode == "pieces" else None)
    assert use.kernel_seconds == pytest.approx(float(use.seconds.sum()))


def steps(*rows: tuple[str, str, int, float]) -> GraphUse:
    """(mode, phase, tokens, seconds) a step."""
    modes, phases, tokens, seconds = zip(*rows, strict=True)
    return GraphUse(
        mode=np.array([MODES.index(m) for m in modes], np.int8),
        phase=phases,
        sequences=np.array(tokens),
        tokens=np.array(tokens),
        seconds=np.array(seconds),
        kernels=0, kernels_replayed=0, kernel_seconds=0.0, replayed_seconds=0.0,
        replays=0, pieces=None, launch_seconds=None, waited_seconds=0.0,
    )  # fmt: skip


def test_padding_is_what_the_captured_size_holds_beyond_the_batch() -> None:
    use = steps(("full", "decode", 5, 0.008), ("full", "decode", 8, 0.008), ("pieces", "mixed", 5, 0.1))
    found = padding(use, (8, 4, 1))
    assert found is not None
    assert (found.tokens, found.real_tokens) == (3, 13)
    assert found.seconds == pytest.approx(0.003)
    assert padding(use, ()) is None


def test_why_steps_ran_eagerly() -> None:
    use = steps(
        ("eager", "decode", 40, 0.1), ("eager", "decode", 4, 0.1), ("eager", "prefill", 400, 0.1), ("full", "decode", 4, 0.1)
    )  # fmt: skip
    assert misses(use, (8, 32), None, None).reasons == {
        "not known": 1, "prefill steps were not captured": 1, "the batch was above the largest captured size, 32": 1,
    }  # fmt: skip
    assert misses(use, (), None, False).reasons == {"graphs are switched off": 3}


def test_shares_leave_out_what_is_not_known() -> None:
    use = steps(("full", "decode", 4, 0.1), ("eager", "prefill", -1, 0.3))
    assert use.share("full") == 0.5
    assert use.share("full", use.tokens) == 1.0
    assert use.share("full", use.seconds) == pytest.approx(0.25)
