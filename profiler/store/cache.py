"""Derived data, kept beside the run: deleting it loses nothing.

A trace's columns go to ``.profiler/`` in the run (see ``column_file``) with its strings and metadata beside them.
The key is the file's path, size and modification time, the format's name and version and this file's own version, so
a changed file or reader never meets an old table. A run that can't be written to uses the user's cache folder.
What each file was taken for is kept too, see ``formats``.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.run import Reading
from profiler.model.trace import DeviceInfo, EventTable, Message, Trace
from profiler.store.column_file import DamagedColumns, read_columns, write_columns

VERSION: Final = 4
FOLDER: Final = ".profiler"
_COLUMNS: Final = ".columns"


class _Sidecar(msgspec.Struct, frozen=True):
    """Everything of a reading but the event columns."""

    path: str
    names: tuple[str, ...]
    processes: tuple[str, ...]
    threads: tuple[str, ...]
    base: int
    rank: int | None
    world_size: int | None
    devices: tuple[DeviceInfo, ...]
    metadata: dict[str, str]
    messages: dict[int, Message]
    facts: dict[str, tuple[str, str, bool]]
    problems: tuple[Problem, ...]
    captured: dict[int, tuple[int, ...]]


class Cache:
    """The derived tables of one run folder (or of the folder that holds a single file)."""

    def __init__(self, root: Path) -> None:
        self.folder = root / FOLDER
        if not _writable(root):
            home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
            self.folder = home / "serving-profiler" / hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:16]

    def load(self, path: Path, reader: str, version: int) -> Reading | None:
        """The reading kept for this very file and reader, or None; a damaged table counts as none."""
        table = self._table(path, reader, version)
        sidecar = table.with_suffix(".json")
        if not table.exists() or not sidecar.exists():
            return None
        try:
            kept = msgspec.json.decode(sidecar.read_bytes(), type=_Sidecar)
            events = EventTable(**read_columns(table))
        except (OSError, msgspec.MsgspecError, DamagedColumns, TypeError):
            return None
        trace = Trace(
            kept.path, events, kept.names, kept.processes, kept.threads, kept.base, kept.rank,
            kept.world_size, kept.devices, kept.metadata, messages=kept.messages, captured=kept.captured,
            kept=table.with_suffix(""),
        )  # fmt: skip
        facts: dict[str, Fact[object]] = {key: Fact(*fact) for key, fact in kept.facts.items()}
        return Reading(traces=(trace,), facts=facts, problems=kept.problems)

    def store(self, path: Path, reader: str, version: int, reading: Reading) -> Reading:
        """Keep a reading of one trace, and return it with the place; a full or read-only disk is no error, the file is
        simply read again."""
        if len(reading.traces) != 1 or reading.totals:
            return reading
        trace = reading.traces[0]
        columns = {name: getattr(trace.events, name) for name in EventTable.__dataclass_fields__}
        facts = {key: (str(f.value), f.source, f.inferred) for key, f in reading.facts.items()}
        kept = _Sidecar(
            trace.path, trace.names, trace.processes, trace.threads, trace.base, trace.rank, trace.world_size,
            trace.devices, dict(trace.metadata), dict(trace.messages), facts, reading.problems, dict(trace.captured),
        )  # fmt: skip
        table = self._table(path, reader, version)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # Each appears whole: another process may read this very run now.
            part, aside = (table.with_suffix(f".{kind}{os.getpid()}") for kind in ("part", "aside"))
            write_columns(part, columns)
            aside.write_bytes(msgspec.json.encode(kept))
            aside.replace(table.with_suffix(".json"))
            part.replace(table)
        except (OSError, UnicodeEncodeError):
            # Also a file name that is no text: it can't be written down as JSON.
            return reading
        return replace(reading, traces=(replace(trace, kept=table.with_suffix("")),))

    def file(self, path: Path, reader: str, version: int, suffix: str) -> Path:
        """Where something that ``reader`` derived from this very file is kept; it need not exist."""
        state = path.stat()
        key = f"{path.resolve()}|{state.st_size}|{state.st_mtime_ns}|{reader}|{version}|{VERSION}"
        return self.folder / f"{hashlib.sha256(os.fsencode(key)).hexdigest()[:24]}{suffix}"

    def _table(self, path: Path, reader: str, version: int) -> Path:
        return self.file(path, reader, version, _COLUMNS)


def kept_events(place: Path) -> EventTable:
    """The events of a trace that is kept at ``place`` (``Trace.kept``). Raises OSError where they are not whole."""
    try:
        return EventTable(**read_columns(place.with_suffix(_COLUMNS)))
    except (DamagedColumns, TypeError) as error:
        raise OSError(f"{place}: its columns are damaged") from error


def _writable(folder: Path) -> bool:
    # root may write anywhere; a folder that nobody was given leave to write to is left alone all the same.
    return bool(folder.stat().st_mode & 0o222) and os.access(folder, os.W_OK)
