"""A server's log while it runs: a file, a container's output, or a unit of the journal.

Of a file the start is kept (up to its first step: settings and version stand there), and what is added during the
recording. Whatever is written is redacted line by line.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import BinaryIO, Final

from profiler.collectors.json_text import decode, mapping, number, parse
from profiler.collectors.redaction import redact_text
from profiler.collectors.run_folder import RunFolder
from profiler.collectors.sampling import Cost
from profiler.errors import UsageError
from profiler.model.extension import Engine

MOST_HEAD: Final = 1 << 20
CHUNK: Final = 1 << 22
LOG: Final = "server.log"
# A step's field: CPU seconds that writing the steps before it took of the server.
OWN: Final = "own_seconds"


class LogTail:
    """Follows a log into ``server.log``, or a file of steps, of which nothing older is kept, into ``target``, a path in
    the run."""

    period = 1.0
    vital = False

    def __init__(self, source: str, engine: Engine | None, folder: RunFolder, target: str = LOG) -> None:
        folder_of, _, name = target.rpartition("/")
        is_log = name == LOG
        self.cost = Cost(f"{'log' if is_log else 'steps'}{folder_of and f' of {folder_of}'}")
        self._folder, self._target = folder, target
        self._first_own: float | None = None
        self._rest = b""
        self._process: subprocess.Popen[bytes] | None = None
        kind, _, unit = source.partition(":")
        if kind in ("docker", "journal") and unit:
            self._process = _follow(kind, unit)
            stream = self._process.stdout
            assert stream is not None
            self._stream: BinaryIO = stream  # type: ignore[assignment]
        else:
            path = Path(source)
            if not path.is_file():
                raise UsageError(f"{source}: no such file. Name the server's log, docker:CONTAINER or journal:UNIT")
            self._stream = path.open("rb")
            if is_log:
                self._keep(self._head(engine))
            self._stream.seek(0, 2)

    def take(self, seconds: float) -> None:
        """Whatever was added."""
        if self._process is None and os.fstat(self._stream.fileno()).st_size < self._stream.tell():
            self._stream.seek(0)  # it was emptied and begins again
        data = self._stream.read(CHUNK)
        while data:
            whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
            self._account(whole)
            self._keep(whole + newline)
            data = self._stream.read(CHUNK)

    def close(self) -> None:
        """Keep the last line, and end the program that was followed."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=10)
        self._keep(self._rest)
        self._stream.close()

    def _account(self, lines: bytes) -> None:
        """What writing the steps took of the server, where they say so: each states what those before it took."""
        for line in (lines[: lines.find(b"\n") + 1 or None], lines[lines.rfind(b"\n") + 1 :]):
            own = number(mapping(parse(decode(line))).get(OWN)) if OWN.encode() in line else None
            if own is not None:
                self._first_own = own if self._first_own is None else self._first_own
                self.cost.server_seconds = own - self._first_own

    def _keep(self, data: bytes) -> None:
        if data:
            text = "".join(redact_text(line) for line in data.decode("utf-8", "replace").splitlines(keepends=True))
            self.cost.received += len(data)
            self.cost.written += self._folder.append(self._target, text.encode())

    def _head(self, engine: Engine | None) -> bytes:
        kept: list[bytes] = []
        room = MOST_HEAD
        for line in self._stream:
            room -= len(line)
            if room < 0 or (engine is not None and engine.log_step(line.decode("utf-8", "replace")) is not None):
                break
            kept.append(line)
        return b"".join(kept)


def _follow(kind: str, name: str) -> subprocess.Popen[bytes]:
    """``docker logs`` or ``journalctl`` from now on; a pipe that is read without waiting."""
    commands = {
        "docker": ["docker", "logs", "--follow", "--since", "0s", "--", name],
        "journal": ["journalctl", "--follow", "--lines", "0", "--output", "cat", "--unit", name],
    }
    try:
        process = subprocess.Popen(
            commands[kind], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0
        )
    except OSError as error:
        raise UsageError(f"{commands[kind][0]}: {error.strerror}. It is needed to follow {kind}:{name}") from None
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    return process
