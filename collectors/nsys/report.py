"""Nsight Systems' own reports (``.nsys-rep``, formerly ``.qdrep``): exported by ``nsys`` where it is installed.

The export goes to the run's folder of derived data (the user's cache folder where the run can't be written to) and is
used again as long as the report stays the same. The report itself is only read. Without ``nsys`` the command to run
elsewhere is said.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Final

from profiler.collectors.nsys.sqlite import FORMAT as SQLITE
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.run import Reading
from profiler.store.cache import Cache
from profiler.store.source import GZIP, ZSTD, FileSource

MAGIC: Final = b"NVIDIA Tegra Profiler Report"
SUFFIXES: Final = (".nsys-rep", ".qdrep")
# Exporting takes about as long as reading the report; one that takes longer has met something it can't handle.
LONGEST_SECONDS: Final = 600.0
_TOO_LONG: Final = "it took longer than"
_ADVICE: Final = "nsys export --type sqlite report.nsys-rep, then name the .sqlite file"


class NsysReport:
    """The format; see ``profiler.model.extension.Format``."""

    name = "nsys_report"
    version = 2

    def sniff(self, head: bytes, name: str) -> float:
        """By its first words; older ones by suffix."""
        if head.startswith(MAGIC):
            return 0.96
        stem = name.lower().removesuffix(".gz").removesuffix(".zst")
        return 0.9 if stem.endswith(SUFFIXES) and b"\0" in head else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """What the export holds, or one problem that says how to get one."""
        program = shutil.which("nsys")
        if program is None:
            detail = f"an Nsight Systems report, and nsys is not installed here; where it is, convert it: {_ADVICE}"
            return Reading(problems=(Problem(source.name, "warning", detail),))
        root = source.path.parents[len(PurePath(source.name).parts) - 1]
        kept = Cache(root).file(source.path, self.name, self.version, ".sqlite")
        said = None if kept.is_file() else _export(program, source, kept)
        if said is not None:
            detail = f"nsys could not export the report ({said}); try it where the report was written: {_ADVICE}"
            return Reading(problems=(Problem(source.name, "error", detail),))
        return SQLITE.read(FileSource(kept, source.name), engines)


def _export(program: str, source: Source, target: Path) -> str | None:
    """Write the export to ``target``; returns why there is none, in one line."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as name:
            folder = Path(name)
            report, export = _plain(source, folder), folder / "export.sqlite"
            command = [program, "export", "--type", "sqlite", "--force-overwrite", "true", "--output", str(export)]
            # Older versions don't know the option that adds what ranges carry (NCCL's sizes).
            said = _run([*command, "--include-blobs=true", str(report.resolve())], folder)
            if said is not None and not said.startswith(_TOO_LONG):
                said = _run([*command, str(report.resolve())], folder)
            if said is not None:
                return said
            if not export.is_file():
                return "it wrote no file"
            export.replace(target)
    except OSError as error:
        return f"{error.strerror}"
    return None


def _run(command: Sequence[str], folder: Path) -> str | None:
    """Run it in a session of its own, so that nothing it started outlives the time it has; returns what went wrong."""
    said = folder / "said"
    with said.open("wb") as out:
        started = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
        try:
            code = started.wait(LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            return f"{_TOO_LONG} {LONGEST_SECONDS:.0f} s"
        finally:
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)
                started.wait()
    if code == 0:
        return None
    lines = said.read_bytes()[-4096:].decode("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    return f"exit status {code}: {last[:200]}"


def _plain(source: Source, folder: Path) -> Path:
    """The report where it lies, or a copy of one that is compressed."""
    with source.path.open("rb") as raw:
        packed = raw.read(4).startswith((GZIP, ZSTD))
    if not packed:
        return source.path
    copy = folder / "report.nsys-rep"
    with source.open() as stream, copy.open("wb") as target:
        shutil.copyfileobj(stream, target)
    return copy


FORMAT: Final = NsysReport()
