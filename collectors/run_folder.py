"""The folder that a recording writes: within a bound of bytes, and readable whatever ends it.

``run.json`` is there from the first moment and is replaced as a whole, so a recording that is killed leaves a run.
"""

from __future__ import annotations

import errno
import json
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from profiler.errors import UsageError

# Left free for whatever else writes to the disk, the engine before all.
LEAST_FREE: Final = 256 << 20


class OutOfSpace(OSError):
    """The disk is full, or the bound that the user set is reached."""


class RunFolder:
    """A new or empty folder. Raises UsageError where something lies in it, OutOfSpace where nothing more may."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UsageError(f"{path}: is not empty. Name a new folder for the run")
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.most_bytes = most_bytes
        self.written = 0
        self._lock = threading.Lock()

    def write(self, name: str, data: bytes) -> int:
        """Write a whole file, which is there completely or not at all."""
        target = self._room(name, len(data))
        beside = target.with_name(f".{target.name}.part")
        try:
            beside.write_bytes(data)
            beside.replace(target)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise _told(error) from error
        return len(data)

    def append(self, name: str, data: bytes) -> int:
        """Add to a file."""
        target = self._room(name, len(data))
        try:
            with target.open("ab") as file:
                file.write(data)
        except OSError as error:
            raise _told(error) from error
        return len(data)

    def manifest(self, document: Mapping[str, object]) -> None:
        """Replace ``run.json``; the bound does not hold for it."""
        text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
        with self._lock:
            self.written -= len(text)
        self.write("run.json", text.encode("utf-8", "replace"))

    def _room(self, name: str, size: int) -> Path:
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._lock:
            if self.written + size > self.most_bytes:
                raise OutOfSpace(errno.EDQUOT, f"the run has reached its bound of {self.most_bytes >> 20} MiB")
            if name != "run.json" and shutil.disk_usage(self.path).free < LEAST_FREE + size:
                raise OutOfSpace(errno.ENOSPC, f"less than {LEAST_FREE >> 20} MiB are free on the disk")
            self.written += size
        return target


def _told(error: OSError) -> OSError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return OutOfSpace(error.errno, "the disk is full") if full else error
