"""Files that would fill the memory or the disk: a line of ten gigabytes, a bomb; read in bounds, said, and over soon."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from backports import zstd

from profiler import open_run
from profiler.collectors import bounded_text
from profiler.collectors.bounded_text import whole_bytes
from profiler.errors import BadInput
from profiler.store.source import HARMLESS, MOST_EXPANSION, FileSource
from tests.strategies import ROOT, document, event_texts, expected, rows_of, small_trace

TEN_GB = 10 * 10**9
SAMPLES = ROOT / "tests" / "samples"
# The largest that opening such a run may take: the longest event that is waited for, twice, and the program itself.
MOST_MEMORY = 1_500 << 20
ZEROS = bytes(64 << 20)

EVENTS = small_trace(1, 1)
OPEN_AND_MEASURE = """
import json, resource, sys
from pathlib import Path
from profiler import open_run
run = open_run(Path(sys.argv[1]))
said = {f.path: [f.format, len([p for p in f.problems if p.severity == "error"])] for f in run.files}
print(json.dumps([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, said]))
"""


def with_a_hole(path: Path, data: bytes) -> None:
    """The bytes, then zeros up to ten gigabytes, which take no room on the disk: one line without an end."""
    with path.open("wb") as file:
        file.write(data.rstrip(b"\n"))
        try:
            file.truncate(TEN_GB)
        except OSError as error:
            pytest.skip(f"no sparse files here: {error}")


def test_a_line_of_ten_gigabytes_in_any_text_is_bounded_and_said(tmp_path: Path) -> None:
    lines = (SAMPLES / "server_log/iterations.log").read_bytes()
    with_a_hole(tmp_path / "server.log", lines * (1 + (1 << 17) // len(lines)))
    with_a_hole(tmp_path / "run.pt.trace.json", document(event_texts(EVENTS)))
    others = ("vllm_bench/good.json", "nvidia_smi/two.csv", "collapsed_stacks/utf16.txt", "speedscope/mixed.json",
              "prometheus/good.prom", "manifest/run.json")  # fmt: skip
    for name in others:
        with_a_hole(tmp_path / name.replace("/", "-"), (SAMPLES / name).read_bytes())
    command = [sys.executable, "-c", OPEN_AND_MEASURE, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300, cwd=ROOT)
    memory, said = json.loads(done.stdout)
    assert memory < MOST_MEMORY, memory
    assert {said[name][0] for name in ("server.log", "run.pt.trace.json")} == {"server_log", "torch-profiler trace"}
    assert len(said) == 2 + len(others) and all(errors for _, errors in said.values()), said


def test_what_precedes_an_endless_line_is_kept(tmp_path: Path) -> None:
    with_a_hole(tmp_path / "run.pt.trace.json", document(event_texts(EVENTS), ending=False))
    (trace,) = open_run(tmp_path).traces
    assert rows_of(trace) == expected(EVENTS)


@pytest.mark.parametrize("pack", [lambda b: gzip.compress(b, 9), zstd.compress], ids=["gzip", "zstd"])
def test_a_bomb_is_not_unpacked(pack: object, tmp_path: Path) -> None:
    path = tmp_path / "bench.json.gz"
    path.write_bytes(pack(b'{"x": "' + ZEROS) + pack(ZEROS) * 60)  # type: ignore[operator]
    assert path.stat().st_size * 500 < 61 * len(ZEROS)
    source, total = FileSource(path), 0
    with source.open() as stream:
        while piece := stream.read(1 << 20):
            total += len(piece)
    assert total <= max(HARMLESS, MOST_EXPANSION * path.stat().st_size)
    assert source.broken is not None and "300 times" in source.broken


def test_a_bomb_among_the_files_of_a_run_is_one_problem(tmp_path: Path) -> None:
    (tmp_path / "bench.json.gz").write_bytes(
        gzip.compress((SAMPLES / "vllm_bench/truncated.json").read_bytes()) + gzip.compress(ZEROS, 9) * 40
    )
    (tmp_path / "ok.pt.trace.json").write_bytes(document(event_texts(EVENTS)))
    run = open_run(tmp_path)
    (problem,) = [p for p in run.problems if p.file == "bench.json.gz"]
    assert problem.severity == "error"
    assert rows_of(run.traces[0]) == expected(EVENTS)


def test_what_is_small_may_grow_as_it_likes(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(ZEROS, 9))
    assert path.stat().st_size * MOST_EXPANSION < len(ZEROS)
    assert len(whole_bytes(FileSource(path), bounded_text.LARGEST)) == len(ZEROS)


def test_the_limit_is_exact(tmp_path: Path) -> None:
    for name, data in (("plain", b"x" * 1000), ("packed", gzip.compress(b"x" * 1000))):
        path = tmp_path / name
        path.write_bytes(data)
        assert whole_bytes(FileSource(path), 1000) == b"x" * 1000
        with pytest.raises(BadInput, match="far smaller"):
            whole_bytes(FileSource(path), 999)
