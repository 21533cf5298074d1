"""Draft, verification and micro-batches as engines name them, on traces written by hand; silence where none is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from profiler.analyzers.device import DeviceAccount, accounts_of
from tests.analyzers.test_critical_path import call, kernel
from tests.strategies import ATTENTION, GEMM, ROOT, Built, document, each_trace, event_texts, read_bytes, reading_of

REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def account_of(events: list[Built], folder: Path) -> DeviceAccount:
    (account,) = accounts_of(read_bytes(document(event_texts(events)), folder).traces[0])
    return account


def step(name: str, start: int, duration: int, number: int, busy: int) -> list[Built]:
    """An annotated step of one kernel that runs ``busy`` ns from the annotation's start plus 2,000 ns on."""
    launch = call("cudaLaunchKernel", start + 100, 500, number)
    return [Built("user_annotation", name, start, duration), launch, kernel(start + 2_000, busy, number, ATTENTION)]


def test_named_passes_of_draft_and_target(tmp_path: Path) -> None:
    events = step("step[EXTEND bs=2 toks=64]", 10_000, 9_000, 1, 20_000)
    for i in range(3):
        events += step("step[DRAFT bs=2]", 100_000 * (i + 1), 9_000, 10 + i, 10_000)
        events += step("step[VERIFY bs=2 g_sq=8]", 100_000 * (i + 1) + 50_000, 9_000, 20 + i, 30_000)
    account = account_of(events, tmp_path)
    found = account.speculation
    assert found is not None and account.steps is not None
    assert (found.verifications, found.drafts, found.width, found.ranges) == (3, 3, 4.0, 0.0)
    assert found.total == pytest.approx(float(account.steps.seconds.sum()))
    # Busy time, and the idle time that each step ends.
    assert found.draft == pytest.approx((3 * 10_000 + 70_000 + 2 * 20_000) / 1e9)
    assert found.verify == pytest.approx(3 * (30_000 + 40_000) / 1e9)
    assert found.other == pytest.approx(20_000 / 1e9)


def test_a_draft_that_a_host_range_marks(tmp_path: Path) -> None:
    events: list[Built] = []
    for i in range(2):
        start = 100_000 * (i + 1)
        events += step("execute_context_0(0)_generation_4(20)", start, 9_000, 10 + i, 30_000)
        events.append(Built("user_annotation", "gpu_model_runner: draft", start + 10_000, 5_000))
        events += [call("cudaLaunchKernel", start + 11_000, 500, 20 + i), kernel(start + 33_000, 7_000, 20 + i)]
    found = account_of(events, tmp_path).speculation
    assert found is not None
    assert found.draft == found.ranges == pytest.approx(14_000 / 1e9)
    assert (found.verifications, found.drafts, found.width) == (2, 2, 5.0)


def test_passes_in_a_range_of_the_draft_are_the_draft_s_whatever_they_are_called(tmp_path: Path) -> None:
    """As SGLang before 0.5.20 names the passes of its draft model: by their mode, like the target's."""
    events: list[Built] = []
    for i in range(2):
        start = 200_000 * (i + 1)
        events.append(Built("user_annotation", "draft", start - 1_000, 40_000))
        events += step("step[DECODE bs=2]", start, 9_000, 10 + i, 10_000)
        events += step("step[TARGET_VERIFY bs=2 g_sq=8]", start + 50_000, 9_000, 20 + i, 30_000)
        events.append(Built("user_annotation", "draft_extend", start + 99_000, 20_000))
        events += step("step[DRAFT_EXTEND_V2 bs=2]", start + 100_000, 9_000, 30 + i, 5_000)
    account = account_of(events, tmp_path)
    found = account.speculation
    assert found is not None and account.steps is not None
    assert (found.verifications, found.drafts, found.width, found.other) == (2, 4, 4.0, 0.0)
    # The device is done with the draft 27,000 ns before the host leaves its range.
    assert found.ranges == pytest.approx(2 * 27_000 / 1e9)
    assert [label.draft for label in account.steps.spans.labels] == [True, False, True] * 2


def test_a_draft_s_graph_replay_in_its_range(tmp_path: Path) -> None:
    events: list[Built] = []
    for i in range(2):
        start = 200_000 * (i + 1)
        events.append(Built("user_annotation", "draft", start, 10_000))
        events += [call("cudaGraphLaunch", start + 1_000, 2_000, 10 + i), kernel(start + 4_000, 9_000, 10 + i)]
        events += step("step[TARGET_VERIFY bs=2 g_sq=8]", start + 50_000, 9_000, 20 + i, 30_000)
    found = account_of(events, tmp_path).speculation
    assert found is not None
    # The first replay is before the first step, and of none.
    assert (found.verifications, found.drafts, found.draft >= 9_000 / 1e9) == (2, 2, True)


def test_a_recorded_run_that_looks_its_drafts_up_in_the_prompt() -> None:
    """Recorded by us: vLLM 0.32.0 on CPU, ``--speculative-config '{"method": "ngram", "num_speculative_tokens": 3, …}'``,
    ``VLLM_CUSTOM_SCOPES_FOR_PROFILING=1``; six requests of 12 tokens."""
    trace = reading_of(ROOT / "tests" / "samples" / "torch_trace" / "speculative.pt.trace.json.gz").traces[0]
    (account,) = accounts_of(trace)
    found = account.speculation
    assert found is not None and account.steps is not None
    # Of the steps with several tokens a sequence: 9 for 6, 12 for 6, 18 for 6, 24 for 6 and 12 for 3.
    assert (found.verifications, found.drafts, found.width) == (5, 7, pytest.approx(75 / 27))
    assert found.total == pytest.approx(float(account.steps.seconds.sum()))
    # The look-up runs on the host while the device waits: the seven ranges take 1.16 ms.
    assert 0.5e-3 < found.draft == found.ranges < 1.2e-3


def test_plain_decoding_is_not_speculation(tmp_path: Path) -> None:
    events = step("step[DECODE bs=2]", 10_000, 9_000, 1, 20_000)
    assert account_of(events, tmp_path).speculation is None


@pytest.mark.parametrize("path", each_trace())
def test_no_real_trace_of_the_corpus_speculates_or_cuts_its_steps(path: Path) -> None:
    for account in accounts_of(reading_of(path).traces[0]):
        assert account.speculation is None
        assert account.micro_batches is None


def halves(first: str, second: str, kind: str, threads: tuple[int, int]) -> list[Built]:
    """Compute of each half under the other's collective: 10 us of 20 are covered."""
    events = step("step[DECODE bs=64]", 10_000, 90_000, 1, 1_000)
    rows = (
        (first, threads[0], 20_000, 2, GEMM, 30_000, 20_000, 7), (second, threads[1], 30_000, 3, REDUCE, 40_000, 20_000, 8),
        (first, threads[0], 40_000, 4, GEMM, 70_000, 5_000, 7),
    )  # fmt: skip
    for name, thread, start, number, work, at, busy, stream in rows:
        launch = Built("cuda_runtime", "cudaLaunchKernel", start + 100, 500, tid=thread, args={"correlation": number})
        args: dict[str, object] = {"device": 0, "stream": stream, "correlation": number}
        events += [
            # A stage is over when the other half's begins; threads run beside each other.
            Built(kind, name, start, 1_000 if kind == "user_annotation" else 25_000, tid=thread),
            launch,
            Built("kernel", work, at, busy, 0, stream, args),
        ]
    return events


@pytest.mark.parametrize(
    ("names", "kind", "threads", "expected"),
    [
        (("a0", "b0"), "user_annotation", (1, 1), ("a", "b")),
        (("vllm/v1/worker/gpu_ubatch_wrapper.py(300): _ubatch_thread",) * 2, "python_function", (1, 2), None),
        (("vllm/v1/worker/gpu/ubatch_utils.py(420): run_ubatch",) * 2, "python_function", (1, 2), None),
    ],
)
def test_micro_batches_and_what_they_hide(
    names: tuple[str, str], kind: str, threads: tuple[int, int], expected: tuple[str, str] | None, tmp_path: Path
) -> None:
    found = account_of(halves(*names, kind, threads), tmp_path).micro_batches
    assert found is not None
    assert tuple(found.busy) == (expected or ("micro-batch 1", "micro-batch 2"))
    assert list(found.busy.values()) == pytest.approx([25e-6, 20e-6])
    assert (found.together, found.communication, found.covered) == pytest.approx((10e-6, 20e-6, 10e-6))
    assert (found.steps, found.of) == (1, 1)


def test_threads_that_are_new_in_each_step_are_the_same_halves(tmp_path: Path) -> None:
    frame = "vllm/v1/worker/gpu_ubatch_wrapper.py(300): _ubatch_thread"
    events: list[Built] = []
    for i in range(3):
        start, number = 200_000 * (i + 1), 10 * i
        events += step("step[DECODE bs=64]", start, 90_000, number + 1, 1_000)
        for half, tid in ((0, 100 + 2 * i), (1, 101 + 2 * i)):
            at = start + 10_000 + 2_000 * half
            events.append(Built("python_function", frame, at, 50_000, tid=tid))
            work = (
                call("cudaLaunchKernel", at + 5_000, 500, number + 2 + half),
                kernel(at + 6_000, 3_000 + half, number + 2 + half),
            )
            events += [replace(work[0], tid=tid), work[1]]
    found = account_of(events, tmp_path).micro_batches
    assert found is not None
    assert {name: round(seconds * 1e9) for name, seconds in found.busy.items()} == {
        "micro-batch 1": 9_000,
        "micro-batch 2": 9_003,
    }
    assert (found.steps, found.of) == (3, 3)


def test_one_half_alone_is_no_cut(tmp_path: Path) -> None:
    assert account_of(halves("a0", "a1", "user_annotation", (1, 1)), tmp_path).micro_batches is None
