"""Call stacks: total weights equal an independent count of the same file."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from profiler import open_run
from profiler.model.run import Reading
from profiler.model.stacks import StackTable

Read = Callable[[Path], tuple[str, Reading]]


def content(path: Path) -> str:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8")


def rows(table: StackTable) -> list[tuple[tuple[str, ...], float]]:
    return [(table.texts(row), float(table.weight[row])) for row in range(len(table))]


def consistent(table: StackTable) -> None:
    n = len(table)
    assert n and all(len(column) == n for column in (table.stack, table.weight, table.process, table.thread))
    assert len(set(table.frames)) == len(table.frames) and len(set(table.stacks)) == len(table.stacks)
    assert table.stack.max() < len(table.stacks) and table.process.max() < max(len(table.processes), 1)
    assert all(0 <= frame < len(table.frames) for stack in table.stacks for frame in stack)


def test_collapsed_files_of_the_corpus(corpus: Path, read: Read) -> None:
    paths = [
        *(corpus / "pyspy/speedscope").glob("stackcollapse_*"),
        *(corpus / "pyspy/generated-here").glob("pyspy_raw*"),
        *(corpus / "pyspy/flamegraph").glob("*.txt"),
        *(path for path in (corpus / "own").rglob("*pyspy*raw.txt*")),
    ]
    assert len(paths) == 22
    for path in sorted(paths):
        name, reading = read(path)
        (table,) = reading.stacks
        consistent(table)
        lines = [line.rstrip() for line in content(path).splitlines() if not line.startswith(("#", "//"))]
        counts = [int(found[1]) for line in lines if (found := re.search(r"\S +(\d+)$", line))]
        assert name == "collapsed_stacks" and table.unit == "samples", path
        assert table.weight.sum() == sum(counts) > 0, path
        left_out = sum(problem.count for problem in reading.problems)
        assert left_out == len([line for line in lines if line]) - len(counts), path


def test_processes_and_threads(samples: Path, corpus: Path, read: Read) -> None:
    (table,) = read(samples / "collapsed_stacks/subprocesses.txt")[1].stacks
    assert table.processes == ('10: python -m serve --api-key [redacted] --x {"a": 1}', "11: worker")
    assert table.threads == ("0x1: MainThread", "12", "13: idle")
    assert rows(table) == [
        (("<module> (a b.py:1)", "run (a.py:2)"), 7.0),
        (("step (w.py:9)",), 5.0),
        ((), 1.0),
    ]
    assert table.process.tolist() == [0, 1, -1] and table.tool == "py-spy"
    (table,) = read(corpus / "own/vllm-everything-on/pyspy-all-subprocesses.raw.txt")[1].stacks
    assert len(table.processes) >= 3 and not any(frame.startswith("process ") for frame in table.frames)
    reading = read(samples / "collapsed_stacks/odd.txt")[1]
    assert rows(reading.stacks[0]) == [(("outer", "inner"), 2.0), (("outer",), 1.5)]
    assert (reading.problems[0].place, reading.problems[0].count) == ("line 3", 2)
    assert rows(read(samples / "collapsed_stacks/utf16.txt")[1].stacks[0])[1] == (("outer", "other"), 3.0)


SCALES = {"seconds": 1.0, "milliseconds": 1e-3, "none": 1.0}


def test_speedscope_files_of_the_corpus(corpus: Path, read: Read) -> None:
    paths = [
        *(corpus / "pyspy/speedscope").glob("speedscope_*"),
        corpus / "pyspy/generated-here/pyspy_speedscope.json",
        *(corpus / "own").rglob("*speedscope.json.gz"),
    ]
    assert len(paths) == 10
    for path in sorted(paths):
        name, reading = read(path)
        record = json.loads(content(path))
        total = 0.0
        for profile in record["profiles"]:
            scale = SCALES[profile["unit"]]
            if profile["type"] == "sampled":
                total += sum(profile["weights"]) * scale
                continue
            depth, last = 0, 0.0
            for event in profile["events"]:  # time in which at least one call is open
                total += (event["at"] - last) * scale if depth else 0.0
                depth, last = depth + (1 if event["type"] == "O" else -1), event["at"]
            total += (profile["endValue"] - last) * scale if depth > 0 else 0.0
        (table,) = reading.stacks
        consistent(table)
        assert name == "speedscope"
        told = {problem.detail.split(";")[0] for problem in reading.problems}
        if "out-of-order" in path.name:
            assert told == {"a call ends while calls inside it are open"}
        assert table.weight.sum() == pytest.approx(total, rel=1e-12), path
        assert bool(told) == ("invalid" in path.name)


def test_speedscope_parts(samples: Path, read: Read) -> None:
    reading = read(samples / "speedscope/mixed.json")[1]
    time, size = reading.stacks
    assert (time.unit, size.unit, time.tool) == ("seconds", "bytes", "py-spy")
    assert time.processes == ("5: serve",) and time.threads == ('Thread 6 "main"', "t")
    expected = {
        ("a (a.py:1)", "b"): 0.004 + 0.0002,
        ("a (a.py:1)",): 0.002 + 0.0001,
        ("b",): 0.0001,
        ("a (a.py:1)", "frame 9"): 0.003,
        ("api_key=[redacted]", "b"): 0.0005,
    }
    found: dict[tuple[str, ...], float] = {}
    for stack, weight in rows(time):
        found[stack] = found.get(stack, 0.0) + weight
    assert found == pytest.approx(expected)
    assert rows(size) == [(("a (a.py:1)",), 64.0)]
    told = [(problem.detail.split(" ")[1], problem.count) for problem in reading.problems]
    assert len(told) == 7 and all(count in (1, 2) for _, count in told), told
    reading = read(samples / "speedscope/truncated.json")[1]
    assert reading.problems[0].severity == "error" and reading.stacks[0].weight.sum() == 3.0


def test_perf_files_of_the_corpus(corpus: Path, read: Read) -> None:
    paths = sorted((corpus / "pyspy/speedscope").glob("linux-perf_*"))
    assert len(paths) == 7
    for path in paths:
        name, reading = read(path)
        (table,) = reading.stacks
        consistent(table)
        heads = [line for line in content(path).splitlines() if re.match(r"[^\s#]", line)]
        periods = [re.search(r":\s+(\d+) [\w:-]+:\s*$", line) for line in heads]
        assert name == "perf_script" and not reading.problems, path
        if all(periods):
            assert table.unit == "seconds"
            assert table.weight.sum() == pytest.approx(sum(int(p[1]) for p in periods if p) / 1e9, rel=1e-12)
        else:
            assert table.unit == "samples" and table.weight.sum() == len(heads)
        assert all(stack for stack, _ in rows(table))


def test_perf_order_and_oddities(samples: Path, read: Read) -> None:
    reading = read(samples / "perf_script/mixed.txt")[1]
    (table,) = reading.stacks
    assert rows(table) == [(("[unknown] (/lib/x.so)", "outer", "inner"), 0.001), (("outer",), 0.002)]
    assert table.processes == ("10: serve",) and table.threads == ("11: serve", "12: VLLM Worker")
    assert reading.problems[0].place == "line 9"
    reading = read(samples / "perf_script/counts.txt")[1]
    assert reading.stacks[0].unit == "samples" and rows(reading.stacks[0]) == [(("inner",), 2.0)]
    assert "several events" in reading.problems[0].detail


def test_chrometrace(corpus: Path, samples: Path, read: Read) -> None:
    path = corpus / "pyspy/generated-here/pyspy_chrometrace.json"
    name, reading = read(path)
    (table,) = reading.stacks
    consistent(table)
    depth: dict[int, int] = {}
    last: dict[int, float] = {}
    total = 0.0
    for event in json.loads(content(path)):
        tid = event["tid"]
        total += event["ts"] - last[tid] if depth.get(tid) else 0.0
        depth[tid], last[tid] = depth.get(tid, 0) + (1 if event["ph"] == "B" else -1), event["ts"]
    assert name == "pyspy_chrometrace" and table.weight.sum() == pytest.approx(total / 1e6, rel=1e-9)
    assert any("spin.py" in frame for frame in table.frames)
    reading = read(samples / "pyspy_chrometrace/one.json")[1]
    (table,) = reading.stacks
    told = dict(rows(table))
    assert told == pytest.approx(
        {("run (a.py:3)",): 0.0002, ("run (a.py:3)", "step (a.py:3)"): 0.0001, (): 0.0001, ("late (a.py:3)",): 0.0002}
    )
    assert table.threads == ("2: Main", "7") and reading.problems[0].count == 2


def test_memray(corpus: Path, samples: Path, read: Read) -> None:
    path = corpus / "pyspy/generated-here/memray_stats.json"
    name, reading = read(path)
    (table,) = reading.stacks
    record = json.loads(content(path))
    assert name == "memray_stats" and table.unit == "bytes"
    assert table.weight.sum() == record["total_bytes_allocated"]
    assert rows(table)[0] == (("schedule (spin.py:4)",), 82968576.0)
    reading = read(samples / "memray_stats/stats.json")[1]
    assert rows(reading.stacks[0]) == [(("f (a.py:4)",), 60.0), (("<frozen x>",), 15.0), ((), 25.0)]


def test_memray_csv(corpus: Path, samples: Path, read: Read) -> None:
    path = corpus / "pyspy/generated-here/memray.csv"
    name, reading = read(path)
    (table,) = reading.stacks
    with path.open(newline="") as file:
        listed = list(csv.DictReader(file))
    assert name == "memray_csv" and table.unit == "bytes" and not reading.problems
    assert table.weight.sum() == sum(int(row["size"]) for row in listed)
    assert table.texts(0)[-1].split()[0] == listed[0]["stack_trace"].split(";")[0]
    (table,) = read(samples / "memray_csv/good.csv")[1].stacks
    assert rows(table) == [
        (("main (/a/run.py:7)", "f (/a/model.py:58)"), 5468.0), (("g<int, 2> (/a/model.py:9)",), 100.0), ((), 8.0)]  # fmt: skip
    assert table.threads == ("1 0x1", "2 worker")
    for sample, kept, bad in (("truncated", 1372.0, 1), ("malformed", 10.0, 3)):
        reading = read(samples / f"memray_csv/{sample}.csv")[1]
        assert reading.stacks[0].weight.sum() == kept and [p.count for p in reading.problems] == [bad]


def test_a_run_holds_its_stacks(samples: Path, tmp_path: Path) -> None:
    (tmp_path / "host.txt").write_bytes((samples / "collapsed_stacks/utf16.txt").read_bytes())
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/x.json").write_bytes((samples / "speedscope/mixed.json").read_bytes())
    run = open_run(tmp_path)
    assert [table.path for table in run.stacks] == ["host.txt", "deep/x.json", "deep/x.json"]
    assert all(record.read for record in run.files) and np.isclose(run.stacks[0].weight.sum(), 5.0)
