"""The formats that a run's files may be of, imported when one is needed, and what each file was taken for before.

To ask every format about a file all of them have to be imported, which takes longer than reading a cached trace. What
the answer was is kept with the run's derived data, and believed for the same file and the same code.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

import msgspec

from profiler.errors import BadInput
from profiler.model.extension import Format
from profiler.store.cache import FOLDER, Cache

# A file that was changed so shortly before (ns) may change once more within the same tick of its file system's clock.
_TICK: Final = 20_000_000


class Taken(msgspec.Struct, frozen=True):
    """What a file was taken for: a format, its version, and the place that it is imported from."""

    name: str
    version: int
    place: str


class Formats:
    """The built-in formats by place ("package.module.NAME": one format or a tuple of them), then ``added`` ones.

    ``code`` says what stands for all that decides which built-in format a file is of; None where that is not known.
    """

    def __init__(
        self, places: Sequence[str], added: Sequence[Format] = (), code: Callable[[], str | None] = lambda: None
    ) -> None:
        self._places = tuple(places)
        self._added = tuple(added)
        self._code = code

    def code(self) -> str | None:
        """What keys the answer of ``surest``; None where it must be asked each time."""
        # What other packages add may change without any sign.
        return None if self._added else self._code()

    def __iter__(self) -> Iterator[Format]:
        return (one for _, one in self._placed())

    def surest(self, head: bytes, name: str) -> Taken | None:
        """The format that is surest of a file, the first among equals; None where none wants it."""
        best, most = None, 0.0
        for place, one in self._placed():
            sure = one.sniff(head, name)
            if sure > most:
                best, most = Taken(one.name, one.version, place), sure
        return best

    def at(self, taken: Taken) -> Format:
        """The format that a file was taken for. Raises BadInput where there is none, as what was kept may be damaged; a
        place that is no format's is never imported."""
        there = self._added if not taken.place else _imported(taken.place) if taken.place in self._places else ()
        for one in there:
            if one.name == taken.name:
                return one
        raise BadInput(FOLDER, f"takes a file for {taken.name!r}, which is no format", f"Delete {FOLDER} in the run")

    def _placed(self) -> Iterator[tuple[str, Format]]:
        for place in self._places:
            for one in _imported(place):
                yield place, one
        for one in self._added:
            yield "", one


def _imported(place: str) -> tuple[Format, ...]:
    module, _, name = place.rpartition(".")
    # Every file that is new asks every format: the import system is asked once.
    found = getattr(sys.modules.get(module) or import_module(module), name)
    return found if isinstance(found, tuple) else (found,)


class _Kept(msgspec.Struct, frozen=True):
    code: str
    files: dict[str, Taken]


class Remembered:
    """What the files of a run were taken for when ``opened`` (its folder, or one file) was opened last."""

    def __init__(self, cache: Cache, opened: Path, formats: Formats) -> None:
        self._cache, self._formats = cache, formats
        self._file = cache.folder / f"{hashlib.sha256(os.fsencode(opened.resolve())).hexdigest()[:24]}.formats"
        self._before: dict[str, Taken] = {}
        self._now: dict[str, Taken] = {}
        try:
            kept = msgspec.json.decode(self._file.read_bytes(), type=_Kept)
        except (OSError, msgspec.MsgspecError):
            return
        if kept.code == formats.code():
            self._before = kept.files

    def identity(self, file: Path, name: str) -> str | None:
        """What tells this state of a file from every other; None where its next change might leave it as it is."""
        if file.stat().st_mtime_ns + _TICK > time.time_ns():
            return None
        return self._cache.file(file, f"format of {name}", 0, "").name

    def of(self, identity: str | None) -> Taken | None:
        """What this very file was taken for; None where it is new, has changed, or other code looked at it."""
        taken = None if identity is None else self._before.get(identity)
        self.keep(identity, taken)
        return taken

    def keep(self, identity: str | None, taken: Taken | None) -> None:
        """Remember what a file was taken for that was in this state before it was looked at."""
        if identity is not None and taken is not None:
            self._now[identity] = taken

    def save(self) -> None:
        """Write it down where that is new; a full or read-only disk is no error."""
        code = None if self._now == self._before else self._formats.code()
        if code is None:
            return
        try:
            self._cache.folder.mkdir(parents=True, exist_ok=True)
            part = self._file.with_suffix(f".part{os.getpid()}")
            part.write_bytes(msgspec.json.encode(_Kept(code, self._now)))
            part.replace(self._file)
        except OSError:
            return
