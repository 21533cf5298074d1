"""Host stacks of an engine's processes while it runs: py-spy, at a low rate, for a bounded time, in its own process.

py-spy reads the other process's memory without stopping it (``--nonblocking``): a few samples may be torn, the engine
is not held up. It writes collapsed stacks, ``<folder>/<role>-<pid>.txt``.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from profiler.collectors.process_tree import Process
from profiler.collectors.run_folder import RunFolder
from profiler.collectors.sampling import Cost, SampleFailed

RATE: Final = 20
MOST_SECONDS: Final = 60
MOST_PROCESSES: Final = 8
PERIOD: Final = 1.0


def program() -> str | None:
    """Where py-spy is: on the PATH, or beside this interpreter."""
    return shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))


class HostStacks:
    """One py-spy for each process whose stacks tell, at most eight. ``placed`` holds each with the folder of the run
    that its stacks go to."""

    period = PERIOD
    vital = False

    def __init__(self, spy: str, placed: Sequence[tuple[str, Process]], folder: RunFolder) -> None:
        self.cost = Cost("host stacks")
        self._folder = folder
        self._runs: list[tuple[subprocess.Popen[bytes], Path]] = []
        self._before = os.times()
        for into, one in placed[:MOST_PROCESSES]:
            name = (one.role or "process").replace(" ", "-")
            target = folder.path / into / f"{name}-{one.pid}.txt"
            target.parent.mkdir(parents=True, exist_ok=True)
            options = ["--rate", str(RATE), "--duration", str(MOST_SECONDS), "--format", "raw", "--nonblocking"]
            command = [spy, "record", *options, "--output", str(target), "--pid", str(one.pid)]
            run = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                start_new_session=True,
            )  # fmt: skip
            self._runs.append((run, target))

    def take(self, seconds: float) -> None:
        """Nothing is to be done while it runs; one that ended early is told once."""
        for run, _ in self._runs:
            if run.poll() not in (None, 0):
                raise SampleFailed(f"py-spy: {_told(run)}")

    def close(self) -> None:
        """End them by an interrupt, upon which they write what they have."""
        for run, target in self._runs:
            if run.poll() is None:
                run.send_signal(signal.SIGINT)
            try:
                run.wait(timeout=20)
            except subprocess.TimeoutExpired:
                run.kill()
                run.wait()
            if run.stderr is not None:
                run.stderr.close()
            if not target.exists() and not self.cost.problems:
                self.cost.problems.append(f"{target.stem}: no stack was taken before the load ended")
            if target.exists():
                self.cost.written += target.stat().st_size
                self._folder.written += target.stat().st_size
        after = os.times()
        # Children that ended since: the load may be one of them, so this is an upper bound.
        used = after.children_user + after.children_system
        self.cost.cpu_seconds += used - self._before.children_user - self._before.children_system


def _told(run: subprocess.Popen[bytes]) -> str:
    if run.stderr is None or run.stderr.closed:
        return f"ended with status {run.returncode}"
    lines = run.stderr.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else f"ended with status {run.returncode}"
