"""Nsight Systems' reports: exported by a stand-in for ``nsys`` that copies a small database and notes every call."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from profiler import open_run
from profiler.collectors.nsys import report
from profiler.model.trace import Kind
from tests.collectors.test_nsys import export

HEAD = b"NVIDIA Tegra Profiler Report 2025@6@1@190-0\0\1\2"
Install = Callable[[str], Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a program ``nsys`` with this body on the PATH; returns the file that its calls are noted in."""
    calls, database = tmp_path / "calls", export(tmp_path / "small.sqlite")

    def put(body: str) -> Path:
        program = tmp_path / "bin" / "nsys"
        program.parent.mkdir(exist_ok=True)
        start = f"#!{sys.executable}\nimport os, shutil, sys, time\nargs = sys.argv[1:]\n"
        note = f"open({str(calls)!r}, 'a').write(' '.join(args) + chr(10))\nsmall = {str(database)!r}\n"
        program.write_text(start + note + body)
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        return calls

    return put


COPY = "assert args[:3] == ['export', '--type', 'sqlite']\nshutil.copy(small, args[args.index('--output') + 1])\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run" / "profile"
    folder.mkdir(parents=True)
    (folder / "r.nsys-rep").write_bytes(HEAD)
    return folder.parent


def test_a_report_is_exported_once_into_the_derived_data_and_left_as_it_was(install: Install, run: Path) -> None:
    calls = install(COPY)
    path = run / "profile/r.nsys-rep"
    before = path.stat()
    for _ in range(2):
        opened = open_run(run)
        (record,) = opened.files
        assert (record.format, record.path, record.read) == ("nsys_report", "profile/r.nsys-rep", True)
        assert len(opened.traces[0].events.of(Kind.KERNEL))
        assert opened.traces[0].path.startswith("profile/r.nsys-rep")
    assert len(calls.read_text().splitlines()) == 1
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (HEAD, before.st_mtime_ns)
    assert [p.suffix for p in (run / ".profiler").iterdir()] == [".sqlite"]
    assert sorted(p.name for p in run.rglob("*") if ".profiler" not in p.parts) == ["profile", "r.nsys-rep"]
    path.write_bytes(HEAD + b"more")
    open_run(run)
    assert len(calls.read_text().splitlines()) == 2


def test_a_run_that_can_not_be_written_to_uses_the_users_folder(
    install: Install, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(COPY)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run.chmod(0o555)
    try:
        assert open_run(run).traces
    finally:
        run.chmod(0o755)
    assert not (run / ".profiler").exists()
    assert len(list((tmp_path / "cache").rglob("*.sqlite"))) == 1


def test_an_older_exporter_that_has_no_option_for_payloads_is_asked_without(install: Install, run: Path) -> None:
    calls = install("if '--include-blobs=true' in args:\n    sys.exit('unrecognised option')\n" + COPY)
    assert open_run(run).traces
    assert ["--include-blobs=true" in line for line in calls.read_text().splitlines()] == [True, False]


def test_a_compressed_report_is_unpacked_for_the_exporter_only(install: Install, run: Path) -> None:
    calls = install(COPY + "assert open(args[-1], 'rb').read().startswith(b'NVIDIA Tegra')\n")
    path = run / "profile/r.nsys-rep"
    path.write_bytes(gzip.compress(HEAD))
    assert open_run(run).traces and not calls.read_text().splitlines()[0].endswith(str(path))
    assert [p.suffix for p in (run / ".profiler").iterdir()] == [".sqlite"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("print('Unsupported version', file=sys.stderr)\nsys.exit(3)\n", "exit status 3: Unsupported version"),
        ("pass\n", "wrote no file"),
        ("if not os.fork():\n    time.sleep(60)\ntime.sleep(60)\n", "longer than 1 s"),
    ],
)
def test_an_export_that_fails_is_one_line_and_leaves_nothing(
    install: Install, run: Path, monkeypatch: pytest.MonkeyPatch, body: str, said: str
) -> None:
    install(body)
    monkeypatch.setattr(report, "LONGEST_SECONDS", 1.0 if "longer" in said else 60.0)
    opened = open_run(run)
    (problem,) = opened.problems
    assert problem.severity == "error" and said in problem.detail and "nsys export --type sqlite" in problem.detail
    assert not opened.traces and not list((run / ".profiler").iterdir())


def test_without_the_exporter_the_command_is_said(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(run))
    (problem,) = open_run(run).problems
    assert problem.severity == "warning" and "nsys export --type sqlite report.nsys-rep" in problem.detail
    assert not (run / ".profiler").exists()


def test_an_older_report_is_told_by_its_suffix() -> None:
    assert report.FORMAT.sniff(b"\1\0\2", "r.qdrep.gz") > 0.8 and report.FORMAT.sniff(b"text", "r.qdrep") == 0
