"""Sending: each request on time, or as places become free. A late one is sent at once, and never left out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence

from profiler.collectors.client.answer import Answer, Reader
from profiler.collectors.client.connection import Connection, Exchange, Failure, Pool, outcome
from profiler.collectors.client.job import Job, Record, Sent


class Sender:
    """Sends a job's requests and reports every one of them. ``origin`` is the load's zero on the monotonic clock."""

    def __init__(self, job: Job, pool: Pool, report: Callable[[Record], None]) -> None:
        self._job, self._pool, self._report = job, pool, report
        self._reader = Reader(job.places)
        lines = [f"POST {job.path} HTTP/1.1", *(f"{name}: {value}" for name, value in job.headers)]
        self._head = "\r\n".join(lines).encode("latin-1")
        self.origin = time.monotonic_ns()
        self.stopped = asyncio.Event()
        self.unsent = 0

    async def closed_loop(self, requests: Iterable[Sent], places: int, duration: float | None) -> None:
        """``places`` requests in flight, each followed at once by the next, until the duration is over."""
        waiting = iter(requests)

        async def one_place() -> None:
            for request in waiting:
                late = duration is not None and time.monotonic_ns() - self.origin >= duration * 1e9
                if late or self.stopped.is_set():
                    self.unsent += 1
                    break
                await self._one(request)

        await self._until_stopped([asyncio.create_task(one_place()) for _ in range(places)])
        self.unsent += sum(1 for _ in waiting)

    async def open_loop(self, requests: Sequence[Sent], places: int | None) -> None:
        """Each request at its due time; where ``places`` bounds those in flight, it waits, and is late by that."""
        free = None if places is None else asyncio.Semaphore(places)
        running: set[asyncio.Task[None]] = set()

        async def send_all() -> None:
            for request in requests:
                delay = (self.origin + (request.due or 0) - time.monotonic_ns()) / 1e9
                if delay > 0:
                    await asyncio.sleep(delay)
                if free is not None:
                    await free.acquire()
                task = asyncio.create_task(self._one(request, free))
                self.unsent -= 1
                running.add(task)
                task.add_done_callback(running.discard)

        self.unsent += len(requests)
        await self._until_stopped([asyncio.create_task(send_all())])
        await self._until_stopped(running)

    async def _until_stopped(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        """Wait for the tasks; when asked to stop, cancel them: a request in flight is reported as interrupted."""
        pending = set(tasks)
        stop = asyncio.create_task(self._stop())
        while pending - {stop}:
            finished, pending = await asyncio.wait({*pending, stop}, return_when=asyncio.FIRST_COMPLETED)
            for task in finished - {stop}:
                if not task.cancelled():
                    task.result()  # an error of our own must not pass for a silent load
            if stop in finished:
                for task in pending:
                    task.cancel()
                await asyncio.gather(*pending, return_exceptions=True)
                return
        stop.cancel()

    async def _stop(self) -> None:
        await self.stopped.wait()

    async def _one(self, request: Sent, free: asyncio.Semaphore | None = None) -> None:
        sent = time.monotonic_ns()
        exchange: Exchange | None = None
        failure: Failure | None = None
        wrote: int | None = None
        reconnects = 0
        try:
            async with asyncio.timeout(self._job.timeout):
                while True:
                    connection, used = await self._pool.take(fresh=reconnects > 0)
                    exchange = Exchange(Answer(self._reader), asyncio.get_running_loop().create_future())
                    wrote = time.monotonic_ns()
                    try:
                        await self._exchange(connection, request, exchange)
                    except Failure as error:
                        if used and error.kind == "disconnect" and exchange.first_byte is None:
                            reconnects += 1
                            continue
                        raise
                    break
            failure = outcome(exchange)
        except Failure as error:
            failure = error
        except TimeoutError:
            failure = Failure("timeout", f"no complete answer within {self._job.timeout:g} s")
        except asyncio.CancelledError:
            failure = Failure("interrupted", "the load was stopped")
            raise
        finally:
            if free is not None:
                free.release()
            self._report(self._record(request, sent, wrote, exchange, failure, reconnects))

    async def _exchange(self, connection: Connection, request: Sent, exchange: Exchange) -> None:
        body = request.body.encode()
        own = f"\r\nx-request-id: profiler-{request.phase}-{request.i}\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        try:
            connection.start(self._head + own + body, exchange)
            await exchange.done
        finally:
            if exchange.complete:
                self._pool.give_back(connection)
            else:
                connection.close()

    def _record(
        self,
        request: Sent,
        sent: int,
        wrote: int | None,
        exchange: Exchange | None,
        failure: Failure | None,
        reconnects: int,
    ) -> Record:
        answer = Answer(self._reader) if exchange is None else exchange.answer
        end = None if exchange is None else exchange.end
        first = None if exchange is None else exchange.first_byte
        known = bool(answer.tokens) and all(answer.tokens)
        output = answer.counted if answer.counted is not None else len(answer.chunks) or None
        return Record(
            i=request.i,
            phase=request.phase,
            sent=sent - self.origin,
            ok=failure is None,
            due=request.due,
            wrote=None if wrote is None else wrote - sent,
            first_byte=None if first is None else first - sent,
            end=(time.monotonic_ns() if end is None else end) - sent,
            status=0 if exchange is None else exchange.status,
            chunks=tuple(at - sent for at in answer.chunks),
            tokens=tuple(answer.tokens) if known else None,
            input=answer.input,
            output=output,
            counted=None if output is None else "chunks" if answer.counted is None else "usage",
            cached=answer.cached,
            finish=answer.finish,
            kind=None if failure is None else failure.kind,
            error=None if failure is None else failure.detail,
            reconnects=reconnects,
        )
