"""One HTTP/1.1 connection that carries one exchange at a time; times are taken where bytes arrive.

A protocol rather than a stream: ``data_received`` runs as soon as the event loop has read the socket, before any
task that waits for it, so that a time stamp holds no scheduling of our own. Proxies of the environment are not used.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Final

import httptools

from profiler.collectors.client.answer import Answer, message_of

LARGEST_REFUSAL: Final = 1 << 16


class Failure(Exception):
    """A request that failed: ``kind`` is connect, disconnect, timeout, http, stream, protocol, empty or interrupted."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind, self.detail = kind, detail


class Exchange:
    """What is known of one request and its answer. Times are ns of the monotonic clock."""

    def __init__(self, answer: Answer, done: asyncio.Future[None]) -> None:
        self.answer, self.done = answer, done
        self.status = 0
        self.first_byte: int | None = None
        self.end: int | None = None
        self.refusal = b""
        self.streams = True  # unless a header says otherwise
        self.sized = False
        self.complete = False


class Connection(asyncio.Protocol):
    """Sends prepared requests and feeds answers to their exchange."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.usable = True
        self.idle_since = 0
        self._exchange: Exchange | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._now = 0

    def start(self, request: bytes, exchange: Exchange) -> None:
        """Write one request; ``exchange.done`` is set when its answer is complete, or fails."""
        assert self.transport is not None
        self._exchange, self._parser = exchange, httptools.HttpResponseParser(self)
        self.transport.write(request)

    def close(self) -> None:
        """Give the connection up."""
        self.usable = False
        if self.transport is not None:
            self.transport.abort()

    # -------------------------------------------------------------------------------------------------------- asyncio
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Called by the event loop with what it has just read."""
        self._now = time.monotonic_ns()
        exchange = self._exchange
        if exchange is None or self._parser is None:
            self.close()  # bytes that answer no request
            return
        if exchange.first_byte is None:
            exchange.first_byte = self._now
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(Failure("protocol", f"no HTTP answer: {error}"))
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the event loop when the connection is gone, whoever closed it."""
        self.usable = False
        exchange = self._exchange
        if exchange is None:
            return
        if error is None and exchange.status and not exchange.sized:
            self._now = time.monotonic_ns()
            self.on_message_complete()  # an answer without a length ends with the connection
            return
        self._fail(Failure("disconnect", f"the server closed the connection: {error or 'end of data'}"))

    # ------------------------------------------------------------------------------------------------------ httptools
    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser for each header."""
        if self._exchange is None:
            return
        lower = name.lower()
        if lower == b"content-type":
            self._exchange.streams = b"json" not in value.lower()
        elif lower == b"content-length" or (lower == b"transfer-encoding" and b"chunked" in value.lower()):
            self._exchange.sized = True

    def on_headers_complete(self) -> None:
        """Called by the parser behind the last header."""
        if self._exchange is not None and self._parser is not None:
            self._exchange.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        """Called by the parser with each piece of the body."""
        exchange = self._exchange
        if exchange is None:
            return
        if exchange.status == 200 and exchange.streams:
            exchange.answer.feed(body, self._now)
        elif len(exchange.refusal) < LARGEST_REFUSAL:
            exchange.refusal += body

    def on_message_complete(self) -> None:
        """Called by the parser at the end of an answer."""
        exchange = self._exchange
        if exchange is None or exchange.status < 200:
            return
        if self._parser is None or not exchange.sized or not self._parser.should_keep_alive():
            self.usable = False
        self._exchange = None
        exchange.end, exchange.complete, self.idle_since = self._now, True, self._now
        exchange.answer.end(self._now)
        if not exchange.done.done():
            exchange.done.set_result(None)

    def _fail(self, failure: Failure) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.end = time.monotonic_ns()
            if not exchange.done.done():
                exchange.done.set_exception(failure)


class Pool:
    """Connections to one server, kept open between requests for as long as servers surely do."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None, keep: float = 2.0) -> None:
        self._host, self._port, self._tls, self._keep = host, port, tls, int(keep * 1e9)
        self._idle: list[Connection] = []
        self._address: str | None = None

    async def take(self, fresh: bool = False) -> tuple[Connection, bool]:
        """(a connection, whether it was used before). Raises Failure where none can be made."""
        while self._idle and not fresh:
            connection = self._idle.pop()
            if connection.usable and time.monotonic_ns() - connection.idle_since < self._keep:
                return connection, True
            connection.close()
        loop = asyncio.get_running_loop()
        name = None if self._tls is None else self._host
        try:
            _, made = await loop.create_connection(
                Connection, self._address or self._host, self._port, ssl=self._tls, server_hostname=name
            )
        except (OSError, ssl.SSLError) as error:
            raise Failure("connect", f"no connection: {error.strerror or error}") from error
        if self._address is None and made.transport is not None:
            # Looked up once: a request's time must not hold the resolver's.
            self._address = made.transport.get_extra_info("peername")[0]
        return made, False

    def give_back(self, connection: Connection) -> None:
        """Keep a connection whose exchange is complete."""
        if connection.usable:
            self._idle.append(connection)

    def close(self) -> None:
        """Close every idle connection."""
        while self._idle:
            self._idle.pop().close()


def outcome(exchange: Exchange) -> Failure | None:
    """Why a complete answer is no success, or None."""
    answer = exchange.answer
    if exchange.status != 200:
        return Failure("http", f"status {exchange.status}: {message_of(exchange.refusal)}")
    if answer.error is not None:
        return Failure("stream", answer.error)
    if not exchange.streams:
        return Failure("protocol", f"the answer is no stream of events: {message_of(exchange.refusal)}")
    if answer.strange:
        return Failure("protocol", f"{answer.strange} events of the answer are no JSON objects")
    return None if answer.chunks else Failure("empty", "the answer holds no output")
