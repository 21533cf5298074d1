"""Every real file opens with an answer, and real pairs get the verdict that is known of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import profiler
from profiler import open_run
from profiler.analyzers.checking import check
from profiler.analyzers.compared_loads import curves
from profiler.analyzers.inspection import inspect
from profiler.analyzers.run_names import told_apart
from profiler.model.diagnosis import Diagnosis, Gap
from profiler.reports.check import print_check
from profiler.reports.goodput import print_goodput
from tests.reports.chinese import missed, untranslated, untranslated_inspection
from tests.strategies import CORPUS, KINETO, OWN

SIDE = OWN / "vllm-vs-sglang"


def folders() -> list[Path]:
    """The corpus in portions that are reported one by one."""
    if not CORPUS.is_dir():
        return []
    return [p for top in sorted(CORPUS.iterdir()) for p in (sorted(OWN.iterdir()) if top == OWN else [top])]


def files_under(folder: Path) -> Iterator[Path]:
    """Its files; of those that lie in several runs (by name and size) one is enough."""
    for path in sorted(folder.rglob("*")):
        key = path.name, path.stat().st_size
        if path.is_file() and ".profiler" not in path.parts and key not in _seen:
            _seen.add(key)
            yield path


_seen: set[tuple[str, int]] = set()


@pytest.mark.parametrize("folder", folders(), ids=lambda p: p.name)
def test_every_file_is_read_or_says_why_not(folder: Path) -> None:
    for path in files_under(folder):
        document = inspect(open_run(path))
        (record,) = document.files
        assert record.path == path.name and record.bytes == path.stat().st_size
        assert record.format not in ("", "unreadable"), (path, record.problems)
        assert record.read or record.problems, f"{path}: nothing was read and nothing says why"
        assert all(p.detail and "\n" not in p.detail for p in record.problems)
        assert untranslated_inspection(document) == set(), path
        assert not any(p.severity == "error" for p in record.problems), (path, record.problems)
        for device in document.devices:
            total = sum(device.categories.values()) + sum(device.idle.values())
            assert total == pytest.approx(device.window_seconds, abs=1e-9)


# --------------------------------------------------------------------------------------------------------- real pairs
@cache
def pair(a: Path, b: Path) -> Diagnosis:
    return profiler.diagnose(a, b)


def diagnosed(a: Path, b: Path) -> Diagnosis:
    if not a.exists() or not b.exists():
        pytest.skip("the corpus of real files is not on this machine")
    document = pair(a, b)
    assert untranslated(document) == set()
    for gap in document.gaps:
        assert sum(c.gap for c in gap.causes) + gap.unexplained.gap == pytest.approx(
            gap.gap, abs=1e-9 * max(abs(gap.a), abs(gap.b))
        )
    return document


def throughput(document: Diagnosis) -> Gap:
    assert document.gaps[0].metric == "output_throughput"
    return document.gaps[0]


@pytest.mark.parametrize(
    ("folder", "a", "b", "winner", "first"),
    [
        ("vllm-sequences", "max-num-seqs-16", "max-num-seqs-2", "a", "batching"),
        ("vllm-budget", "max-num-batched-tokens-2048", "max-num-batched-tokens-64", "a", "batching"),
        ("vllm-prefix-cache-70m", "off", "on", "b", "memory"),
    ],
)
def test_one_flag_changed_is_found(folder: str, a: str, b: str, winner: str, first: str) -> None:
    document = diagnosed(OWN / folder / a, OWN / folder / b)
    assert (document.verdict.status, document.verdict.winner) == ("winner", winner), document.verdict.text
    gap = throughput(document)
    assert gap.winner == winner
    assert gap.causes[0].cause == first, [(c.cause, c.share) for c in gap.causes]
    assert gap.causes[0].share is not None and gap.causes[0].share > 0.5


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (OWN / "vllm-compile/compiled", OWN / "vllm-compile/eager"),
        (OWN / "vllm-prefix-cache-tiny/off", OWN / "vllm-prefix-cache-tiny/on"),
        (SIDE / "vllm-1/c16", SIDE / "vllm-2/c16"),
        (SIDE / "sglang-1/c16", SIDE / "sglang-2/c16"),
    ],
    ids=["compile", "prefix-cache-tiny", "vllm twice", "sglang twice"],
)
def test_what_starts_of_one_engine_differ_by_carries_no_winner(a: Path, b: Path) -> None:
    document = diagnosed(a, b)
    assert document.verdict.winner is None, document.verdict.text
    assert document.verdict.status == "no difference"


@pytest.mark.parametrize("load", ["c16", "c1"])
def test_vllm_leads_sglang_on_this_machine_by_its_kernels_and_not_by_batching(load: str) -> None:
    document = diagnosed(SIDE / "vllm-1" / load, SIDE / "sglang-1" / load)
    assert (document.verdict.status, document.verdict.winner) == ("winner", "a"), document.verdict.text
    gap = throughput(document)
    assert gap.causes[0].cause == "kernel"
    batching = next(c for c in gap.causes if c.cause == "batching")
    assert batching.share is not None and abs(batching.share) <= 0.05
    engines = [run.engine for run in document.runs]
    assert [e.name for e in engines] == ["vllm", "sglang"]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("sglang-decode-qwen3-30b-a3b-b300", "sglang-decode-qwen3-30b-a3b-mi300x"),
        ("hf-qwen1.5-0.5b-h100", "hf-qwen1.5-0.5b-mi300x"),
    ],
)
def test_traces_alone_are_compared_without_a_verdict(a: str, b: str) -> None:
    document = diagnosed(*(KINETO / f"{name}.pt.trace.json.gz" for name in (a, b)))
    assert (document.verdict.status, document.verdict.winner) == ("insufficient evidence", None)
    assert document.missing and document.verdict.reasons
    (gap,) = document.gaps
    assert gap.metric == "device_seconds_per_step" and gap.winner is None and gap.unit == "s"
    for cause in gap.causes:
        if cause.parts:
            assert sum(p.gap for p in cause.parts) == pytest.approx(cause.gap, abs=1e-12)
    tops = {row.category: row for row in document.kernels if row.name is None}
    for category, top in tops.items():
        rows = [row for row in document.kernels if row.category == category and row.name is not None]
        for side in ("a_seconds", "b_seconds", "a_calls", "b_calls"):
            assert sum(getattr(r, side) or 0.0 for r in rows) == pytest.approx(getattr(top, side) or 0.0, abs=1e-12)
    for side, whole in (("a_seconds", gap.a), ("b_seconds", gap.b)):
        assert sum(getattr(t, side) or 0.0 for t in tops.values()) <= whole + 1e-9, side


def test_the_kernel_table_and_the_rows_of_the_gap_are_the_same_numbers() -> None:
    paths = [KINETO / f"sglang-decode-qwen3-30b-a3b-{gpu}.pt.trace.json.gz" for gpu in ("b300", "mi300x")]
    document = diagnosed(*paths)
    (gap,) = document.gaps
    kernel = next(c for c in gap.causes if c.cause == "kernel")
    tops = {r.category: (r.b_seconds or 0.0) - (r.a_seconds or 0.0) for r in document.kernels if r.name is None}
    parts = {part.name: part.gap for part in kernel.parts}
    assert {name: parts[name] for name in tops} == pytest.approx(tops, abs=1e-12)
    assert set(parts) - set(tops) <= {"gaps between kernels"}


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("bench/inference-perf/vllm", "bench/inference-perf/vllm+quantization"),
        ("bench/aiperf/c1", "bench/llm-d/br_v0_2_example.yaml"),
        ("bench/llm-d/guidellm_report_v2.json", "bench/llm-d/inference_perf_lifecycle.yaml"),
        ("bench/dstack-pd/3p1d_conc64_in2048_out128_20250917_065754.json", "bench/llmperf/summary_groq_70b.json"),
        ("own/vllm-vs-sglang/vllm-1", "own/vllm-vs-sglang/sglang-1"),
        ("own/vllm-compile/compiled", "own/vllm-compile/eager"),
    ],
)
def test_everything_about_a_real_pair_is_said_in_chinese(a: str, b: str, corpus: Path) -> None:
    one, two = open_run(corpus / a), open_run(corpus / b)
    assert untranslated(profiler.diagnose(corpus / a, corpus / b)) == set()
    rules, loads = check(one, two), curves(told_apart((one, two)), {"ttft": 0.5})
    shown = (
        lambda console: print_check(rules, console, verbose=True),
        lambda console: print_goodput(loads, console, verbose=True),
    )
    assert missed(*shown) == set()
