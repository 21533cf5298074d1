"""The processes that send one load, and what they report; they stop when this one does, however it ends."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from profiler.collectors.client.job import Done, End, Go, Job, Ready, Record, Report, Sent
from profiler.collectors.client.result import Stopped

# So many requests in a row without any answer: the server is gone, and the rest would only be counted as failed.
LOST_AFTER: Final = 20
TRANSPORT: Final = ("connect", "disconnect")
HEAD_START: Final = 50_000_000
GRACE: Final = 5.0
LONGEST_LINE: Final = 1 << 26


class Crew:
    """Runs one load. ``on_record`` gets each record and its bytes as they come, ``on_go`` the load's zero before it."""

    def __init__(self, on_record: Callable[[Record, bytes], None], on_go: Callable[[int], None]) -> None:
        self._on_record, self._on_go = on_record, on_go
        self.done: list[Done] = []
        self.stopped: Stopped | None = None
        self._silent = 0
        self._warmed: set[bool] = set()
        self._lost = asyncio.Event()

    async def run(self, jobs: Sequence[Job], requests: Sequence[Iterable[Sent]]) -> None:
        """Start a process for each job, feed it, and wait for all. When cancelled, what is in flight is reported first;
        then the cancellation goes on."""
        processes = [await _start() for _ in jobs]
        try:
            work = asyncio.create_task(self._lead(processes, jobs, requests))
            lost = asyncio.create_task(self._lost.wait())
            try:
                await asyncio.wait({work, lost}, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                self.stopped = "interrupted"
                await _stop(processes, work)
                raise
            finally:
                lost.cancel()
            if not work.done():
                self.stopped = "server lost"
                await _stop(processes, work)
            elif self._lost.is_set():
                self.stopped = "server lost"
            if work.done() and not work.cancelled():
                work.result()
        finally:
            await asyncio.gather(*map(_end, processes))
            if self.stopped is None and any(process.returncode for process in processes):
                self.stopped = "client failed"

    async def _lead(
        self,
        processes: Sequence[asyncio.subprocess.Process],
        jobs: Sequence[Job],
        requests: Sequence[Iterable[Sent]],
    ) -> None:
        ready = asyncio.Barrier(len(processes) + 1)
        readers = [asyncio.create_task(self._listen(process, ready)) for process in processes]
        await asyncio.gather(*(_feed(*pair) for pair in zip(processes, jobs, requests, strict=True)))
        gate = asyncio.create_task(_pass(ready))
        # A process that ends before it is ready never reaches the barrier.
        await asyncio.wait({gate, *readers}, return_when=asyncio.FIRST_COMPLETED)
        if gate.done() and self._warmed == {False}:
            # Nothing that is sent like this succeeds: the load would tell nothing more.
            self.stopped = "warm-up failed"
            for process in processes:
                _close(process)
        elif gate.done():
            origin = time.monotonic_ns() + HEAD_START
            self._on_go(origin)
            for process in processes:
                await _write(process, msgspec.json.encode(Go(origin)) + b"\n")
        else:
            gate.cancel()
            for process in processes:
                _close(process)
        await asyncio.gather(*readers)

    async def _listen(self, process: asyncio.subprocess.Process, ready: asyncio.Barrier) -> None:
        assert process.stdout is not None
        decoder = msgspec.json.Decoder(Report)
        waiting: asyncio.Task[None] | None = None
        async for line in process.stdout:
            report = decoder.decode(line)
            if isinstance(report, Record):
                self._silent = self._silent + 1 if report.kind in TRANSPORT else 0
                if report.phase == "warmup":
                    self._warmed.add(report.ok)
                if self._silent >= LOST_AFTER:
                    self._lost.set()
                self._on_record(report, line)
            elif isinstance(report, Ready):
                waiting = asyncio.create_task(_pass(ready))
            else:
                self.done.append(report)
        if waiting is not None:
            waiting.cancel()


async def _pass(barrier: asyncio.Barrier) -> None:
    await barrier.wait()


async def _start() -> asyncio.subprocess.Process:
    """A sender that can import us from wherever we are, and that a Ctrl-C at the terminal does not reach directly."""
    # Not by this file's own place: an editable install may have it elsewhere than the package that it belongs to.
    package = sys.modules[__name__.partition(".")[0]].__file__ or ""
    paths = [str(Path(package).resolve().parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "profiler.collectors.client.sender_process",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        start_new_session=True,
        limit=LONGEST_LINE,
    )


async def _feed(process: asyncio.subprocess.Process, job: Job, requests: Iterable[Sent]) -> None:
    await _write(process, msgspec.json.encode(job) + b"\n")
    for request in requests:
        await _write(process, msgspec.json.encode(request) + b"\n")
    await _write(process, msgspec.json.encode(End()) + b"\n")


async def _write(process: asyncio.subprocess.Process, data: bytes) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(data)
        await process.stdin.drain()
    except (BrokenPipeError, ConnectionResetError):
        return  # it has ended: its exit status says so


def _close(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None and not process.stdin.is_closing():
        process.stdin.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Killed only where it does not end by itself: its pipes are closed."""
    _close(process)
    try:
        async with asyncio.timeout(GRACE):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


async def _stop(processes: Sequence[asyncio.subprocess.Process], work: asyncio.Task[None]) -> None:
    """Closed pipes ask the senders to report and end; the work ends with them, or is cancelled after a while."""
    for process in processes:
        _close(process)
    await asyncio.wait({work}, timeout=GRACE)
    if not work.done():
        work.cancel()
        await asyncio.wait({work}, timeout=GRACE)
