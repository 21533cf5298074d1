"""A trace of what runs inside this program: torch's profiler around an offline engine's calls. Torch is imported when
a capture begins, never before.

An engine that runs its model in processes of its own is traced by its own ``start_profile`` and ``stop_profile``; it
writes where it was told to when it was made.
"""

from __future__ import annotations

import importlib
import os
import platform
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from profiler.collectors.run_folder import RunFolder
from profiler.errors import UsageError

MOST_BYTES: Final = 4 << 30


class Capture:
    """See ``profiler.capture``. The profiler is stopped and the trace written however the context is left."""

    def __init__(self, out: Path, engine: Any, steps: int | None, skip: int) -> None:
        if (steps is not None and steps < 1) or skip < 0:
            raise UsageError("a capture needs at least one step, and skips none or more")
        if engine is not None and not (hasattr(engine, "start_profile") and hasattr(engine, "stop_profile")):
            raise UsageError("the engine has no start_profile and stop_profile: leave it out to trace this process")
        self._out, self._engine, self._steps, self._skip = out, engine, steps, skip
        self._profile: Any = None
        self._torch: Any = None
        self._count = 0
        self._running = False
        self._began = 0.0

    def __enter__(self) -> Capture:
        try:
            self._torch = importlib.import_module("torch")
        except ImportError:
            raise UsageError("torch is not installed: pip install 'serving-profiler[torch]'") from None
        self._folder = RunFolder(self._out, MOST_BYTES)
        self._began = time.time()
        self._write("recording")
        if self._engine is not None:
            if self._steps is None or self._skip == 0:
                self._start()
            return self
        p = self._torch.profiler
        activities = [p.ProfilerActivity.CPU]
        activities += [p.ProfilerActivity.CUDA] if self._torch.cuda.is_available() else []
        schedule = None
        if self._steps is not None:
            # The first step of a trace carries the profiler's own start: one step before it is run and left out.
            warm = min(self._skip, 1)
            schedule = p.schedule(wait=self._skip - warm, warmup=warm, active=self._steps, repeat=1)
        (self._folder.path / "trace").mkdir()
        self._profile = p.profile(activities=activities, schedule=schedule, on_trace_ready=self._export)
        self._profile.__enter__()
        return self

    def step(self) -> None:
        """Say that a step is over."""
        self._count += 1
        if self._profile is not None:
            self._profile.step()
        elif self._engine is not None and self._steps is not None:
            if self._count == self._skip:
                self._start()
            elif self._count == self._skip + self._steps:
                self._stop()

    @contextmanager
    def range(self, name: str) -> Iterator[None]:
        """A named range in the trace, and for nsys where there is a CUDA device."""
        with ExitStack() as stack:
            stack.enter_context(self._torch.profiler.record_function(name))
            if self._torch.cuda.is_available():
                stack.enter_context(self._torch.cuda.nvtx.range(name))
            yield

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if self._profile is not None:
                self._profile.__exit__(kind, error, at)
            else:
                self._stop()
        finally:
            self._write("done" if kind is None else "interrupted")

    def _start(self) -> None:
        # It may have begun even where this raises.
        self._running = True
        self._engine.start_profile()

    def _stop(self) -> None:
        if self._running:
            self._running = False
            self._engine.stop_profile()

    def _export(self, profile: Any) -> None:
        rank = os.environ.get("RANK", "0")
        number = rank if rank.isdecimal() else "0"
        name = f"rank{number}.{time.time_ns()}.pt.trace.json.gz"
        profile.export_chrome_trace(str(self._folder.path / "trace" / name))

    def _write(self, state: str) -> None:
        cuda = self._torch.cuda
        gpus = cuda.device_count() if cuda.is_available() else 0
        hardware: dict[str, object] = {"host": platform.machine(), "cores": os.cpu_count()}
        hardware |= {"gpu": cuda.get_device_name(0), "count": gpus} if gpus else {"gpu": None}
        self._folder.manifest(
            {
                "hardware": hardware,
                "times": {"t0_epoch": round(self._began, 6)},
                "recording": {"state": state, "steps": self._count},
            }
        )
