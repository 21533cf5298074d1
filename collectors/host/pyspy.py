"""Host stacks of an engine's processes while it runs: py-spy, at a low rate, for a bounded time, in its own process.

py-spy reads the other process's memory without stopping it (``--nonblocking``): a few samples may be torn, the engine
is not held up. Native frames can't be had like that: a process has to stand still while its stack is unwound, so they
are taken only where they are asked for, at half the rate. It writes collapsed stacks, ``<folder>/<role>-<pid>.txt``.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from profiler.collectors.process_tree import Process
from profiler.collectors.run_folder import RunFolder
from profiler.collectors.sampling import Cost, SampleFailed

RATE: Final = 20
NATIVE_RATE: Final = 10
MOST_SECONDS: Final = 60
MOST_PROCESSES: Final = 8
PERIOD: Final = 1.0
_END_SECONDS: Final = 20.0


def program() -> str | None:
    """Where py-spy is: on the PATH, or beside this interpreter."""
    return shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))


class HostStacks:
    """One py-spy for each process whose stacks tell, at most eight. ``placed`` holds each with the folder of the run
    that its stacks go to; ``rate`` is in samples a second. Where native frames can't be had, that is told once and
    Python's own are taken."""

    period = PERIOD
    vital = False

    def __init__(
        self,
        spy: str,
        placed: Sequence[tuple[str, Process]],
        folder: RunFolder,
        native: bool = False,
        rate: int | None = None,
    ) -> None:
        self.cost = Cost("host stacks")
        self._spy, self._folder, self._rate = spy, folder, rate
        self._spies: list[_Spy] = []
        for into, one in placed[:MOST_PROCESSES]:
            name = (one.role or "process").replace(" ", "-")
            target = folder.path / into / f"{name}-{one.pid}.txt"
            target.parent.mkdir(parents=True, exist_ok=True)
            self._spies.append(self._begin(target, one.pid, native))

    def _begin(self, target: Path, pid: int, native: bool) -> _Spy:
        rate = self._rate or (NATIVE_RATE if native else RATE)
        options = ["--rate", str(rate), "--duration", str(MOST_SECONDS), "--format", "raw"]
        options.append("--native" if native else "--nonblocking")
        return _Spy([self._spy, "record", *options, "--output", str(target), "--pid", str(pid)], target, pid, native)

    def take(self, seconds: float) -> None:
        """Nothing is to be done while it runs; one that ended early is told once."""
        for at, one in enumerate(self._spies):
            if one.ended() and one.status:
                if not one.native:
                    raise SampleFailed(f"py-spy: {one.said()}")
                self.cost.problems.append(f"native frames: {one.said()}; Python's own are taken of {one.target.stem}")
                self.cost.cpu_seconds += one.close()
                self._spies[at] = self._begin(one.target, one.pid, native=False)

    def close(self) -> None:
        """End them by an interrupt, upon which they write what they have."""
        for one in self._spies:
            one.interrupt()
        for one in self._spies:
            self.cost.cpu_seconds += one.close()
            if not one.target.exists() and not self.cost.problems:
                self.cost.problems.append(f"{one.target.stem}: no stack was taken before the load ended")
            if one.target.exists():
                self.cost.written += one.target.stat().st_size
                self._folder.written += one.target.stat().st_size


class _Spy:
    """One py-spy that runs. It is waited for by its own number, so that its CPU seconds are no other child's."""

    def __init__(self, command: list[str], target: Path, pid: int, native: bool) -> None:
        self.target, self.pid, self.native = target, pid, native
        self.status: int | None = None
        self._cpu = 0.0
        self._run = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip

    def ended(self) -> bool:
        """Whether it has; its status and what it used are known from then on."""
        if self.status is None:
            pid, status, used = os.wait4(self._run.pid, os.WNOHANG)
            if pid:
                self.status = self._run.returncode = os.waitstatus_to_exitcode(status)
                self._cpu = used.ru_utime + used.ru_stime
        return self.status is not None

    def interrupt(self) -> None:
        """Ask it to write and end."""
        if not self.ended():
            self._run.send_signal(signal.SIGINT)

    def close(self) -> float:
        """Wait for it, for a time; the CPU seconds that it used."""
        deadline = time.monotonic() + _END_SECONDS
        while not self.ended():
            if time.monotonic() > deadline:
                self._run.kill()
            time.sleep(0.02)
        if self._run.stderr is not None:
            self._run.stderr.close()
        return self._cpu

    def said(self) -> str:
        """Its last line on standard error."""
        if self._run.stderr is None or self._run.stderr.closed:
            return f"ended with status {self.status}"
        lines = self._run.stderr.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"ended with status {self.status}"
