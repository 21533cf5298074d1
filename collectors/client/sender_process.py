"""A process that sends: reads its job and requests from standard input, writes records to standard output.

    python -m profiler.collectors.client.sender_process

It does nothing else while the load runs: bodies are finished before, output is buffered by the event loop, and what
was built is kept out of the garbage collector's way. Its own lag is measured all the time.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import signal
import ssl
import sys
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from profiler.collectors.client.connection import Pool
from profiler.collectors.client.job import Done, End, Go, Instruction, Job, Ready, Report, Sent
from profiler.collectors.client.sending import Sender

TICK: Final = 0.01


class LoopLag:
    """How much later than asked a timer of the event loop fires: what every time stamp may be late by."""

    def __init__(self) -> None:
        self._delays: list[float] = []

    async def watch(self) -> None:
        """Run until cancelled."""
        while True:
            asked = time.monotonic() + TICK
            await asyncio.sleep(TICK)
            self._delays.append(time.monotonic() - asked)

    def p99(self) -> float:
        """Seconds; 0 where the load was shorter than a tick."""
        return sorted(self._delays)[int(len(self._delays) * 0.99)] if self._delays else 0.0

    def worst(self) -> float:
        """Seconds."""
        return max(self._delays, default=0.0)


async def send(job: Job, requests: Sequence[Sent]) -> None:
    """Warm up, wait for Go, send the load, report."""
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    out, _ = await loop.connect_write_pipe(asyncio.Protocol, sys.stdout)
    assert isinstance(out, asyncio.WriteTransport)

    def say(report: Report) -> None:
        out.write(msgspec.json.encode(report) + b"\n")

    tls = ssl.create_default_context(cafile=job.ca_file) if job.tls else None
    pool = Pool(job.host, job.port, tls)
    warmup = [one for one in requests if one.phase == "warmup"]
    load = [one for one in requests if one.phase == "load"]
    first = Sender(job, pool, say)
    go = asyncio.create_task(orders.readline())
    go.add_done_callback(lambda _: first.stopped.set())  # before Ready, this is a leader that is gone
    await first.closed_loop(warmup, job.warmup_concurrency, None)
    say(Ready())
    line = await go
    if not line:
        return
    sender = Sender(job, pool, say)
    sender.origin = msgspec.json.decode(line, type=Go).origin
    gone = asyncio.create_task(orders.read())
    gone.add_done_callback(lambda _: sender.stopped.set())
    lag = LoopLag()
    watching = asyncio.create_task(lag.watch())
    await asyncio.sleep(max(sender.origin - time.monotonic_ns(), 0) / 1e9)
    cpu, wall = time.process_time(), time.monotonic()
    if job.closed:
        await sender.closed_loop(load, job.concurrency or 1, job.duration)
    else:
        await sender.open_loop(load, job.concurrency)
    used = (time.process_time() - cpu) / max(time.monotonic() - wall, 1e-9)
    for task in (watching, gone):
        task.cancel()
    pool.close()
    say(Done(sender.unsent, lag.p99(), lag.worst(), used))
    while out.get_write_buffer_size():
        await asyncio.sleep(TICK)


def main() -> None:
    """Read the orders up to End, then send."""
    # A Ctrl-C is the leader's affair: it closes the pipe, and what is in flight is reported.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    decoder = msgspec.json.Decoder(Instruction)
    job: Job | None = None
    requests: list[Sent] = []
    for line in sys.stdin.buffer:
        order = decoder.decode(line)
        if isinstance(order, Job):
            job = order
        elif isinstance(order, Sent):
            requests.append(order)
        elif isinstance(order, End) and job is not None:
            gc.collect()
            gc.freeze()
            asyncio.run(send(job, requests))
            return


if __name__ == "__main__":
    main()
