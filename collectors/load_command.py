"""The load of a recording: an external command that is run, watched, and always ended.

``{run}`` in its words stands for the run's folder. In the second pass, the one that is traced, it stands for a folder
that is thrown away, and so does the run's own path where the command names it: the measured result stays the first
pass's.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from profiler.errors import UsageError

MARK: Final = "{run}"
END_SECONDS: Final = 10.0


def placed(words: Sequence[str], run: Path, into: Path) -> list[str]:
    """The command with the run's folder replaced by ``into``."""
    named = sorted({str(run), str(run.absolute())}, key=len, reverse=True)
    out = []
    for word in words:
        for name in named:
            if word == name or word.startswith(f"{name}/") or word.endswith(f"={name}") or f"={name}/" in word:
                word = word.replace(name, str(into), 1)
                break
        out.append(word.replace(MARK, str(into)))
    return out


class Load:
    """A running command, in a group of its own so that an interrupt reaches it once, through ``end``."""

    def __init__(self, words: Sequence[str], heard: bool = True) -> None:
        # What the second pass prints is thrown away like its result.
        output = None if heard else subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        except OSError as error:
            raise UsageError(f"the load can't be started: {words[0]}: {error.strerror}") from None

    @property
    def status(self) -> int | None:
        """Its exit status, None while it runs."""
        return self._process.poll()

    def end(self) -> None:
        """Ask it to end, as Ctrl-C would, then make it."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is not None:
                return
            try:
                os.killpg(self._process.pid, number)
                self._process.wait(timeout=END_SECONDS)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
