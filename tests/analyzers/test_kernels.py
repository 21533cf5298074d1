"""Kernel and operator names: the two tables keep their own promises, and real traces are classified."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from profiler.analyzers.device import accounts_of
from profiler.analyzers.kernels import Family, category_of, classify, families, family_of
from tests.strategies import (
    ATTENTION,
    CORPUS,
    GEMM,
    NORM,
    Built,
    document,
    each_trace,
    event_texts,
    read_bytes,
    reading_of,
)

TABLES = ("kernel_families", "operator_families")
ROWS = [pytest.param(table, row, id=f"{table[0]}{i}-{row.category}") for table in TABLES for i, row in
        enumerate(families(table))]  # fmt: skip


@pytest.mark.parametrize(("table", "row"), ROWS)
def test_an_example_falls_into_its_own_rows_category(table: str, row: Family) -> None:
    found = family_of(row.example, table)
    assert found is not None, row.example
    taken = f"{row.example} is taken by {found.pattern.pattern}"
    assert (found.category, found.role) == (row.category, row.role), taken


def test_every_row_is_whole() -> None:
    for table in TABLES:
        for row in families(table):
            assert row.category and row.role and row.library and row.example, row
        patterns = [row.pattern.pattern for row in families(table)]
        assert len(patterns) == len(set(patterns))


@pytest.mark.parametrize(
    ("name", "category"),
    [
        (GEMM, "gemm"),
        (ATTENTION, "attention"),
        (NORM, "norm"),
        ("Memcpy DtoH (Device -> Pinned)", "memcpy"),
        ("Memset (Device)", "memset"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "comm"),
        ("void at::native::(anonymous namespace)::max_pool_backward_nchw<c10::BFloat16, float>(int)", "reduce"),
        ("vectoradd_float(float*, float const*, float const*, int, int)", "elementwise"),
        ("add", "elementwise"),
        ("helloworld(char*, char*)", "elementwise"),
        ("helloworld_server", "other"),
        ("address_sanitizer_kernel", "other"),
        ("a kernel that nobody has seen", "other"),
        ("", "other"),
    ],
)
def test_well_known_kernels(name: str, category: str) -> None:
    assert category_of(name) == category


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("MEMORY_COPY_HOST_TO_DEVICE", "h2d"),
        ("MEMORY_COPY_DEVICE_TO_HOST.kd", "d2h"),
        ("MEMORY_COPY_DEVICE_TO_DEVICE", "d2d"),
        ("MEMORY_COPY_HOST_TO_HOST", "other"),
    ],
)
def test_a_copy_that_an_older_rocm_calls_a_kernel_is_a_copy(name: str, role: str, tmp_path: Path) -> None:
    found = family_of(name)
    assert found is not None and (found.category, found.role) == ("memcpy", role)
    place = {"device": 0, "stream": 7}
    events = [Built("kernel", GEMM, 1_000, 500, 0, 7, place), Built("kernel", name, 1_200, 700, 0, 9, place)]
    (account,) = accounts_of(read_bytes(document(event_texts(events)), tmp_path).traces[0])
    # A copy owns what no kernel of the device runs beside.
    assert account.busy == {"gemm": 500, "memcpy": 400}


def test_every_direction_of_a_copy_in_the_corpus_is_a_copy() -> None:
    tables = sorted((CORPUS / "rocprof").glob("*/memory_copy_trace.csv"))
    if not tables:
        pytest.skip("the corpus of real files is not on this machine")
    directions = {row["Direction"] for path in tables for row in csv.DictReader(path.read_text().splitlines())}
    assert len(directions) >= 2
    assert {category_of(direction) for direction in directions} == {"memcpy"}


def test_only_the_names_in_use_are_classified() -> None:
    names = (GEMM, "unheard of", ATTENTION, NORM)
    found = classify(names, np.array([0, 1, 3]))
    assert [found.categories[c] for c in found.code] == ["gemm", "other", "other", "norm"]
    assert found.known.tolist() == [True, False, False, True]
    assert found.categories[0] == "other" and len(set(found.categories)) == len(found.categories)


@pytest.mark.parametrize("path", each_trace())
def test_every_kernel_of_a_real_trace_is_counted_in_one_category(path: Path) -> None:
    for account in accounts_of(reading_of(path).traces[0]):
        by_category: dict[str, float] = {}
        for total in account.totals:
            by_category[total.category] = by_category.get(total.category, 0.0) + total.seconds
        # Where the trace has steps, the kernels are those of the steps.
        whole = {category: ns / 1e9 for category, ns in account.busy.items()}
        if account.steps is not None:
            whole = {category: float(seconds.sum()) for category, seconds in account.steps.busy.items()}
        assert {c: s for c, s in by_category.items() if s > 0} == pytest.approx(
            {c: s for c, s in whole.items() if s > 0}, abs=2e-9
        )
        if account.device != "cpu":
            copies = sum(t.calls for t in account.totals if t.category in ("memcpy", "memset"))
            assert sum(t.calls for t in account.totals) - copies <= account.kernels
        known = [t for t in account.totals if t.category != "other"]
        assert sum(t.seconds for t in known) >= 0.99 * sum(t.seconds for t in account.totals)
