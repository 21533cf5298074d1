"""The compiled scanner against the general reader, which is its oracle: equal tables or no answer, on anything."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.collectors.torch_trace import scan as scanner
from profiler.collectors.torch_trace.chunks import pieces
from profiler.collectors.torch_trace.columns import Columns
from profiler.collectors.torch_trace.decode import Damage, decode
from profiler.model.trace import EventTable
from profiler.store.source import FileSource

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus"
SOURCE = Path(__file__).parents[2] / "collectors" / "torch_trace" / "_scan.c"
TRACES = sorted([*CORPUS.glob("kineto/*.gz"), *CORPUS.glob("own/*/*/trace/*.gz"), *CORPUS.glob("own/*/trace/*.gz")])

needs_scanner = pytest.mark.skipif(scanner.compiled is None, reason="the scanner was not built (no C compiler)")


def both(data: bytes) -> tuple[Columns | None, Columns]:
    found = scanner.scan(data)
    quick = None
    if found is not None:
        quick = Columns(Damage())
        quick.add_scanned(found, 0)
    slow = Columns(Damage())
    slow.add(*decode(data, 0, slow.damage), 0)
    return quick, slow


def assert_same(quick: Columns, slow: Columns) -> None:
    assert list(quick.names) == list(slow.names) or set(quick.names) >= set(slow.names)
    ours, theirs = quick.table(), slow.table()
    ours_names, theirs_names = list(quick.names), list(slow.names)
    assert [ours_names[i] for i in ours.name] == [theirs_names[i] for i in theirs.name]
    for text in ("processes", "threads"):
        column = {"processes": "process", "threads": "thread"}[text]
        one, two = list(getattr(quick, text)), list(getattr(slow, text))
        assert [one[i] for i in getattr(ours, column)] == [two[i] for i in getattr(theirs, column)]
    for field in EventTable.__dataclass_fields__:
        if field not in ("name", "process", "thread"):
            assert np.array_equal(getattr(ours, field), getattr(theirs, field)), field
    assert quick.messages.rows.tolist() == slow.messages.rows.tolist()
    stated = [[one.messages.kinds[code] for code in one.messages.codes.tolist()] for one in (quick, slow)]
    assert stated[0] == stated[1]
    assert quick.phases == slow.phases
    assert quick.process_labels == slow.process_labels
    assert quick.thread_labels == slow.thread_labels
    assert quick.damage.counts == slow.damage.counts


@needs_scanner
@pytest.mark.skipif(not TRACES, reason="the corpus is not beside the checkout")
@pytest.mark.parametrize("path", TRACES, ids=lambda p: f"{p.parent.parent.name}-{p.name[:40]}")
def test_every_whole_chunk_of_a_real_trace_is_accepted_and_equal(path: Path) -> None:
    with FileSource(path).open() as stream:
        chunks = [piece.data for piece in pieces(stream, 1 << 19) if piece.kind == "events"]
    for data in chunks[:6]:
        quick, slow = both(data)
        assert quick is not None
        assert_same(quick, slow)


numbers = st.one_of(
    st.integers(-(10**17), 10**17),
    st.decimals(-(10**7), 10**7, places=3).map(float),
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(0, 10**6).map(str),
    st.none(),
)
texts = st.one_of(
    st.text(max_size=12), st.sampled_from(["kernel", "cpu_op", "cuda_runtime", "gpu_memcpy", 'a"b', "ü", "\\"])
)
arguments = st.dictionaries(
    st.one_of(st.sampled_from(["correlation", "stream", "device", "bytes", "graph node id", "name", "labels"]), texts),
    st.one_of(numbers, texts, st.lists(numbers, max_size=3), st.booleans()),
    max_size=5,
)
events = st.fixed_dictionaries(
    {"ph": st.sampled_from(["X", "X", "X", "M", "i", "s"])},
    optional={
        "name": texts,
        "cat": texts,
        "ts": numbers,
        "dur": numbers,
        "pid": st.one_of(numbers, texts),
        "tid": st.one_of(numbers, texts),
        "args": st.one_of(arguments, arguments, texts, st.none()),
        "id": numbers,
        "extra": st.recursive(numbers, lambda inner: st.lists(inner, max_size=3), max_leaves=6),
    },
)


@needs_scanner
@settings(max_examples=400, deadline=None)
@given(rows=st.lists(events, min_size=1, max_size=6), indent=st.sampled_from([None, 1]), ascii_only=st.booleans())
def test_what_the_scanner_accepts_it_reads_as_the_general_reader_does(
    rows: list[dict[str, object]], indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(rows, indent=indent, ensure_ascii=ascii_only)
    quick, slow = both(text[1:-1].encode("utf-8", "surrogatepass"))
    if quick is not None:
        assert_same(quick, slow)


shapes = st.lists(st.lists(st.integers(1, 3), max_size=2), max_size=2)
messages = st.fixed_dictionaries(
    {"ph": st.just("X"), "dur": st.just(1), "ts": st.sampled_from([1, 1, -1e20])},
    optional={
        "name": st.sampled_from(
            ["nccl:all_reduce", "nccl:all_gather", "aten::mm", "c10d::allreduce_", "allgath\u00e9r"]
        ),
        "args": st.fixed_dictionaries(
            {},
            optional={
                "External id": st.integers(0, 9),
                "In msg nelems": st.sampled_from([16, "16", 32, None, "x"]),
                "Out msg nelems": st.sampled_from([16, 128]),
                "Collective name": st.sampled_from(["allreduce", "_allgather_base", "barrier"]),
                "dtype": st.sampled_from(["BFloat16", "Float", "Bits"]),
                "Group size": st.sampled_from([8, "8", 4]),
                "Input Dims": shapes,
                "Input type": st.sampled_from([["float"], ["c10::BFloat16", "Scalar"], []]),
            },
        ),
    },
)


@needs_scanner
@settings(max_examples=400, deadline=None)
@given(rows=st.lists(messages, min_size=1, max_size=12), indent=st.sampled_from([None, 1]))
def test_messages_are_those_that_the_general_reader_finds(rows: list[dict[str, object]], indent: int | None) -> None:
    quick, slow = both(json.dumps(rows, indent=indent, ensure_ascii=False)[1:-1].encode())
    if quick is not None:
        assert_same(quick, slow)


@needs_scanner
def test_calls_that_state_alike_are_looked_at_once() -> None:
    args = {"In msg nelems": 16, "dtype": "BFloat16", "Collective name": "allreduce", "Group size": 8}
    rows = [
        {"ph": "X", "name": "nccl", "cat": "kernel", "ts": i, "dur": 1, "args": args | {"External id": i, "stream": i}}
        for i in range(100)
    ]
    rows[70]["args"] = args | {"Group size": 4}
    found = scanner.scan(json.dumps(rows)[1:-1].encode())
    assert found is not None
    assert len(found.messages) == 2
    quick, slow = both(json.dumps(rows)[1:-1].encode())
    assert quick is not None
    assert_same(quick, slow)
    assert [quick.messages.kinds[code].ranks for code in quick.messages.codes[68:72].tolist()] == [8, 8, 4, 8]


@needs_scanner
@settings(max_examples=400, deadline=None)
@given(
    rows=st.lists(events, min_size=1, max_size=3),
    cuts=st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=2)), max_size=4),
)
def test_broken_text_is_refused_or_read_alike(rows: list[dict[str, object]], cuts: list[tuple[int, bytes]]) -> None:
    data = bytearray(json.dumps(rows)[1:-1].encode())
    for position, replacement in cuts:
        place = position % max(len(data), 1)
        data[place : place + 1] = replacement
    quick, slow = both(bytes(data))
    if quick is not None:
        assert_same(quick, slow)


FUZZ = """
import importlib.util, json, random, sys, time
spec = importlib.util.spec_from_file_location("_scan", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
rng = random.Random(int(sys.argv[2]))
seeds = [json.dumps({"ph": "X", "name": "kernel<a, b>", "cat": "kernel", "ts": 7656582823613.583, "dur": 5.981, "pid": 0,
         "tid": 7, "args": {"correlation": 519, "stream": 7, "device": 0, "grid": [1, 2, 3], "x": {"y": [True, None]}}}),
         json.dumps({"ph": "X", "name": "nccl:all_reduce", "cat": "user_annotation", "ts": 1.5, "dur": 2, "pid": 0, "tid": 7,
                     "args": {"Input Dims": [[3, 4], []], "Input type": ["float", ""], "In msg nelems": 12}}),
         json.dumps({"ph": "M", "name": "thread_name", "pid": "a", "tid": 1, "args": {"name": "t\\u00e9\\n"}})]
end, count = time.monotonic() + float(sys.argv[3]), 0
while time.monotonic() < end:
    data = bytearray(", ".join(rng.choices(seeds, k=rng.randint(1, 5))).encode())
    for _ in range(rng.randint(0, 6)):
        kind, at = rng.random(), rng.randrange(len(data) + 1)
        if kind < 0.3: data[at:at + 1] = bytes([rng.randrange(256)])
        elif kind < 0.6: data[at:at] = rng.choice([b'"', b"\\\\", b"{", b"}", b"[", b"]", b",", b"\\x00", b"9" * 30, b"\\\\u12", b"-"])
        elif kind < 0.8: del data[at:at + rng.randint(1, 40)]
        else: data = data[:at]
        if not data: data = bytearray(b" ")
    module.scan(bytes(data), b"nccl:\\0c10d::\\0"); count += 1
print(count)
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_the_scanner_survives_mutated_text_under_the_address_and_undefined_behaviour_sanitizers(tmp_path: Path) -> None:
    library = tmp_path / "_scan.so"
    flags = ["-O1", "-g", "-shared", "-fPIC", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    include = sysconfig.get_paths()["include"]
    build = subprocess.run(
        ["gcc", *flags, f"-I{include}", str(SOURCE), "-o", str(library)], capture_output=True, text=True
    )
    if build.returncode:
        pytest.skip(f"the sanitizers or Python's headers are missing: {build.stderr.strip()[-200:]}")
    asan = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    environment = os.environ | {"LD_PRELOAD": asan, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    run = subprocess.run(
        [sys.executable, "-c", FUZZ, str(library), str(random.randrange(2**31)), os.environ.get("FUZZ_SECONDS", "5")],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-4000:]
    assert int(run.stdout) > 1000
