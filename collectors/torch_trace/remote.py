"""An engine's own profiler, started and stopped over HTTP in the engine's own way, and told to stop whatever happens.

One session at a time: a lock on this machine, and the engine's own refusal where it has one. A session that the engine
refused belongs to somebody else and is not stopped.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Final

from profiler.collectors.http_client import Client
from profiler.model.live import TraceControl, TraceWindow

START_SECONDS: Final = 60.0
# Traces are written before the answer comes; a large one took a minute on a loaded machine.
STOP_SECONDS: Final = 300.0
_TRIES: Final = 3


class SessionRefused(Exception):
    """The profiler can't be started; the text says what it needs."""


class TraceSession:
    """A context in which the engine's profiler runs. ``problem`` says where it could not be told to stop."""

    def __init__(self, client: Client, control: TraceControl, window: TraceWindow, version: str | None) -> None:
        self._client, self._control, self._window, self._version = client, control, window, version
        self._lock: IO[str] | None = None
        self._running = False
        self.problem: str | None = None
        self.stop_seconds: float | None = None

    def __enter__(self) -> TraceSession:
        self._lock = _locked(self._client.url)
        # From here on the server may have begun, even where its answer is lost.
        self._running = True
        try:
            answer = self._client.post(
                self._control.start, self._control.body(self._window, self._version), START_SECONDS
            )
            if answer.status >= 400:
                self._running = False
                raise SessionRefused(self._refusal(answer.status, answer.text))
            if answer.status == 0:
                raise SessionRefused(f"{self._control.start}: no answer ({answer.text})")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Tell it to stop, once; waits until the traces are written."""
        if self._running:
            self._running = False
            began = time.monotonic()
            for attempt in range(_TRIES):
                answer = self._client.post(self._control.stop, None, STOP_SECONDS)
                # One that ended by itself refuses: it does not run, which is what was wanted.
                if answer.status or time.monotonic() - began > STOP_SECONDS:
                    break
                time.sleep(0.2 * attempt)
            if not answer.status:
                self.problem = (
                    f"the profiler could not be told to stop ({answer.text}): if the server lives, do it with "
                    f"curl -X POST {self._client.url}{self._control.stop}"
                )
            self.stop_seconds = time.monotonic() - began
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _refusal(self, status: int, text: str) -> str:
        if status == 404:
            return f"no profiler at {self._control.start}: {self._control.needs}"
        said = " ".join(text.split())[:200]
        if status in (401, 403):
            return f"{self._control.start} refused the key (status {status}): {self._control.needs}"
        return f"{self._control.start} was refused (status {status}; is another session running?): {said}"


def traces_in(folder: Path, pattern: str, since: float) -> tuple[Path, ...]:
    """The trace files under a folder that were written since a moment (seconds since the epoch)."""
    found = []
    for path in sorted(folder.rglob(pattern)):
        try:
            if path.is_file() and path.stat().st_mtime >= since - 1.0:
                found.append(path)
        except OSError:
            continue
    return tuple(found)


def settled(folder: Path, pattern: str, since: float, seconds: float) -> tuple[Path, ...]:
    """The same, once no file has grown for a second, or after so many seconds."""
    deadline = time.monotonic() + seconds
    before: dict[Path, int] = {}
    quiet = 0
    while True:
        sizes = {path: path.stat().st_size for path in traces_in(folder, pattern, since)}
        quiet = quiet + 1 if sizes and sizes == before else 0
        if quiet >= 4 or time.monotonic() >= deadline:
            return tuple(sizes)
        before = sizes
        time.sleep(0.25)


def _locked(url: str) -> IO[str]:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "serving-profiler" / "sessions"
    base.mkdir(parents=True, exist_ok=True)
    file = (base / hashlib.sha256(url.encode()).hexdigest()[:16]).open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise SessionRefused("another recording on this machine is using this server's profiler") from None
    return file
