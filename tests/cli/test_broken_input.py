"""Every kind of broken input, once, from the file to what ``inspect`` says: its problem, its count, and no wrong number.

The readers' own tests go into each kind; this table shows that none was forgotten and that all reach the user.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from profiler import open_run
from profiler.analyzers.inspection import inspect
from profiler.model.document import DocumentProblem
from profiler.model.inspection import Inspection
from tests.strategies import Built, document, event_texts, expected, rows_of, small_trace

EPOCH = 1_750_000_000_000_000_000
EVENTS = small_trace(2, 2)
TEXTS = event_texts(EVENTS)
KERNELS = [i for i, event in enumerate(EVENTS) if event.cat == "kernel"]
NAME = "run.pt.trace.json"

Build = Callable[[Path], None]


def trace(data: bytes, name: str = NAME) -> Build:
    return lambda folder: folder.joinpath(name).write_bytes(data) and None


def changed(rows: list[int], pattern: str, text: str) -> bytes:
    """The trace with one field of some events replaced."""
    texts = list(TEXTS)
    for row in rows:
        texts[row], count = re.subn(pattern, text, texts[row], count=1)
        assert count == 1
    return document(texts)


def ranks(*numbers: int, bases: tuple[int | None, ...] = (EPOCH, EPOCH, EPOCH)) -> Build:
    def build(folder: Path) -> None:
        for at, (number, base) in enumerate(zip(numbers, bases, strict=False)):
            text = (
                document(TEXTS, base)
                .decode()
                .replace('"rank": 3, "world_size": 8', f'"rank": {number}, "world_size": 2')
            )
            (folder / f"{at}.pt.trace.json").write_text(text)

    return build


def loop(folder: Path) -> None:
    trace(document(TEXTS))(folder)
    (folder / "again").symlink_to(folder, target_is_directory=True)


def rocm(folder: Path) -> None:
    """Durations of four kernels run 30 ms over the next one."""
    events = [
        Built(e.cat, e.name, e.start, e.duration + 30_000_000 if i in KERNELS[:4] else e.duration, e.pid, e.tid, e.args)
        for i, e in enumerate(EVENTS)
    ]
    (folder / NAME).write_text(document(event_texts(events)).decode().replace("cuda", "hip"))


WHOLE: list[int] = []
# kind: (how it is built, severity and words of its problem, its count, which events are not there; None: all but some)
KINDS: dict[str, tuple[Build, str, str, int, list[int] | None]] = {
    "truncated gzip": (trace(gzip.compress(document(TEXTS))[:-400], NAME + ".gz"), "error", "breaks off", 1, None),
    "truncated JSON": (trace(document(TEXTS)[:-900]), "error", "all complete events were kept", 1, None),
    "unescaped quote": (trace(changed([5], '"name": "', '"name": "f("x") ')), "error", "× lost", 1, [5]),
    "control characters": (trace(changed([0, 5], '"name": "', '"name": "\x01')), "info", "× control characters", 2, WHOLE),
    "bad UTF-8": (trace(document(TEXTS).replace(b"aten::work", b"aten\xff")), "info", "× bad UTF-8", 12, WHOLE),
    "NaN": (trace(changed([3, 4], '"dur": [0-9.]+', '"dur": NaN')), "warning", "× without a time", 2, [3, 4]),
    "Infinity": (trace(changed([3], '"ts": [0-9.]+', '"ts": Infinity')), "error", "× lost", 1, [3]),
    "negative": (trace(changed(KERNELS[:3], '"dur": [0-9.]+', '"dur": -5')), "warning", "× negative", 3, KERNELS[:3]),
    "zero": (trace(changed(KERNELS[:2], '"ts": [0-9.]+, "dur": [0-9.]+', '"ts": 0, "dur": 0')), "warning", "× zero", 2, KERNELS[:2]),
    "236 years": (trace(changed(KERNELS[:2], '"dur": [0-9.]+', '"dur": 7447000000000000.0')), "warning", "× duration above a week", 2, KERNELS[:2]),
    "missing time base": (ranks(0, 1, bases=(EPOCH, None)), "warning", "1 of 2 ranks' traces state no time base", 1, WHOLE),
    "differing time base": (ranks(0, 1, bases=(EPOCH, 2 * EPOCH)), "warning", "share no moment", 2, WHOLE),
    "duplicate rank": (ranks(0, 0, 1), "warning", "once more", 1, WHOLE),
    "missing rank": (ranks(1), "info", "1 of 2 ranks have no trace", 1, WHOLE),
    "second event list": (trace(document(TEXTS).rstrip()[:-1] + b', "traceEvents": [{"ph": "X"}]}'), "warning", "× further event list", 1, WHOLE),
    "nested traceEvents": (trace(b'{"traceEvents": ' + document(TEXTS) + b"}"), "warning", "× top-level keys", 2, WHOLE),
    "directory loop": (loop, "warning", "leads back to a folder already read", 1, WHOLE),
}  # fmt: skip
# These are read as if nothing were wrong, because nothing is lost: each has all events and no word of damage.
HARMLESS: dict[str, Build] = {
    "numbers as strings": trace(re.sub(rb'"(ts|dur|correlation)": ([0-9.]+)', rb'"\1": "\2"', document(TEXTS))),
    "bare array": trace(document(TEXTS, bare=True)),
    "gzip members": trace(gzip.compress(document(TEXTS)[:999]) + gzip.compress(document(TEXTS)[999:]), NAME + ".gz"),
    "plain under .gz": trace(document(TEXTS), NAME + ".gz"),
    "gzip under .json": trace(gzip.compress(document(TEXTS))),
    "any suffix": trace(document(TEXTS), "saved.txt"),
}


def opened(folder: Path) -> tuple[Inspection, list[list[tuple[int, str, int, int, int]]]]:
    run = open_run(folder)
    return inspect(run), [rows_of(t) for t in run.traces]


def damage(document: Inspection) -> list[DocumentProblem]:
    """Problems but for what is true of any part of a job."""
    return [p for p in document.problems if "ranks have no trace" not in p.detail]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_becomes_a_problem_with_its_count(kind: str, tmp_path: Path) -> None:
    build, severity, words, count, lost = KINDS[kind]
    build(tmp_path)
    found, tables = opened(tmp_path)
    said = [p for p in found.problems if words in p.detail]
    assert [(p.severity, p.count) for p in said] == [(severity, count)], (found.problems, words)
    whole = [row[2:] for row in expected(EVENTS)]
    for rows in tables:
        kept = [row[2:] for row in rows]
        if lost is None:
            assert 0 < len(kept) < len(whole) and kept == whole[: len(kept)]
        else:
            assert kept == [row for i, row in enumerate(whole) if i not in lost]


@pytest.mark.parametrize("kind", HARMLESS)
def test_what_loses_nothing_is_read_whole(kind: str, tmp_path: Path) -> None:
    HARMLESS[kind](tmp_path)
    found, (rows,) = opened(tmp_path)
    assert [row[2:] for row in rows] == [row[2:] for row in expected(EVENTS)]
    assert damage(found) == []


def test_durations_of_rocm_that_run_over_the_next_kernel(tmp_path: Path) -> None:
    rocm(tmp_path)
    found, _ = opened(tmp_path)
    (check,) = [t for t in found.trust if t.check == "kernels of a stream follow each other"]
    assert check.passed is False and check.detail.startswith("4 of 12 kernels") and check.concerns == "kernel time"


def test_an_empty_file_and_an_empty_event_list(tmp_path: Path) -> None:
    (tmp_path / "bench.json").write_bytes(b"")
    (tmp_path / NAME).write_text('{"schemaVersion": 1, "traceEvents": []}')
    found, _ = opened(tmp_path)
    assert {p.file for p in found.problems} == {"bench.json", NAME}


def test_numbers_of_a_benchmark_that_are_none_are_not_known(tmp_path: Path) -> None:
    sample = json.loads((Path(__file__).resolve().parents[1] / "samples/vllm_bench/good.json").read_text())
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / "bench.json").write_text(json.dumps(sample))
    for name, value in (("nan", float("nan")), ("text", "many"), ("nothing", None)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "bench.json").write_text(json.dumps(sample | {"mean_ttft_ms": value}))
        (bench,) = open_run(folder).benches
        assert "mean_ttft" not in bench.summary, name
    (bench,) = open_run(whole).benches
    assert bench.summary["mean_ttft"] == sample["mean_ttft_ms"] / 1e3
