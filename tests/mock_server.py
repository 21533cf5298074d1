"""An OpenAI-like streaming server of known timing, which remembers what it was asked and when it wrote each chunk.

In a test it runs in a thread of the test's own process (``serving``); as a program it has a process to itself:

    python tests/mock_server.py --port 8100 --ttft 0.1 --itl 0.01
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Script:
    """How answers go. Times are seconds; ``pack`` tokens a chunk; ``usage`` says when counts are sent. ``trouble``
    comes after ``after`` chunks. ``owner`` is what the list of models says."""

    ttft: float = 0.0
    itl: float = 0.0
    pack: int = 1
    usage: str = "end"  # or "running", "never"
    role_first: bool = False
    comments: bool = False
    trouble: str = ""  # status, error, cut, stall, garbage, no stream, empty, no http, until close
    after: int = 0
    only: int | None = None  # trouble for this request of the load alone
    owner: str = "somebody"
    always: bool = False  # trouble in the warm-up too
    gather: int = 0  # nothing is answered until so many requests of the load are there
    close_idle: bool = False
    needs_key: str = ""


@dataclass
class Seen:
    """One request, and when (monotonic ns) each of its chunks was written."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    arrived: int
    writes: list[int] = field(default_factory=list)


class MockServer:
    """Answers by its script; ``script`` may be changed while it runs."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.seen: list[Seen] = []
        self.port = 0

    def of_load(self) -> list[Seen]:
        """The requests of the load, in the order of the plan."""
        found = [one for one in self.seen if one.headers.get("x-request-id", "").startswith("profiler-load-")]
        return sorted(found, key=lambda one: int(one.headers["x-request-id"].rpartition("-")[2]))

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client: requests until it hangs up."""
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while True:
                    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                    first, *lines = head.split("\r\n")
                    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}
                    body = await reader.readexactly(int(headers.get("content-length", "0")))
                    method, path, _ = first.split(" ")
                    if self.script.needs_key and headers.get("authorization") != f"Bearer {self.script.needs_key}":
                        self._plain(writer, 401, {"error": {"message": "no entry"}})
                    elif method == "GET":
                        self._get(writer, path)
                    else:
                        await self._post(writer, path, headers, body)
                    await writer.drain()
                    if self.script.close_idle and method == "POST":
                        break
            writer.close()
        except asyncio.CancelledError:
            writer.transport.abort()

    def _get(self, writer: asyncio.StreamWriter, path: str) -> None:
        if path == "/truth":
            self._plain(writer, 200, {one.headers["x-request-id"]: one.writes for one in self.of_load()})
        else:
            self._plain(writer, 200, {"object": "list", "data": [{"id": "mock", "owned_by": self.script.owner}]})

    def _plain(self, writer: asyncio.StreamWriter, status: int, document: object) -> None:
        data = json.dumps(document).encode()
        writer.write(
            b"HTTP/1.1 %d x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(data))
            + data
        )

    async def _post(self, writer: asyncio.StreamWriter, path: str, headers: dict[str, str], body: bytes) -> None:
        request = json.loads(body)
        seen = Seen(path, headers, request, time.monotonic_ns())
        self.seen.append(seen)
        script = self.script
        mine = headers.get("x-request-id", "")
        whose = ("profiler-load-", "profiler-warmup-") if script.always else ("profiler-load-",)
        if not mine.startswith(whose) or script.only not in (None, int(mine.rpartition("-")[2])):
            script = replace(script, trouble="")
        if script.trouble == "status":
            return self._plain(writer, 503, {"error": {"message": "too many requests, Bearer PLANTED-SECRET"}})
        if script.trouble == "no stream":
            return self._plain(writer, 200, {"choices": [{"text": "all at once"}]})
        if script.trouble == "no http":
            writer.write(b"SSH-2.0-server\r\n\r\n")
            return None
        await self._stream(writer, path, request, seen, script)
        return None

    async def _stream(
        self, writer: asyncio.StreamWriter, path: str, request: dict[str, Any], seen: Seen, script: Script
    ) -> None:
        chunked = script.trouble != "until close"
        coding = b"transfer-encoding: chunked\r\n" if chunked else b""
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n" + coding + b"\r\n")

        def send(data: bytes) -> None:
            writer.write(b"%x\r\n%s\r\n" % (len(data), data) if chunked else data)

        chat, native = "chat" in path, "choices" not in _event(path, "", 0)
        wanted = request.get("max_tokens") or request.get("sampling_params", {}).get("max_new_tokens") or 4
        prompt = _length(request)
        if script.role_first and chat:
            send(b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n')
        made, chunks, text = 0, 0, ""
        running = script.usage == "running"
        while script.gather and len(self.of_load()) < script.gather and not writer.is_closing():
            await asyncio.sleep(0.005)
        while made < wanted and script.trouble != "empty":
            await _until(seen.arrived, script.ttft + chunks * script.itl * script.pack)
            if writer.is_closing():
                return  # the client hung up
            if script.trouble and chunks == script.after:
                if script.trouble == "error":
                    send(b'data: {"error":{"message":"out of memory","code":500}}\n\n')
                    break
                if script.trouble == "cut":
                    writer.transport.abort()
                    return
                if script.trouble == "stall":
                    await asyncio.sleep(3600)
                if script.trouble == "garbage":
                    send(b"data: {not json\n\n")
            if script.comments:
                send(b": keep-alive\n\n")
            made += (take := min(script.pack, wanted - made))
            chunks += 1
            text += " the" * take
            event = _event(path, text if native else " the" * take, made)
            if running or native:
                event |= _usage(path, prompt, made)
            send(b"data: " + json.dumps(event).encode() + b"\n\n")
            seen.writes.append(time.monotonic_ns())
        if script.usage == "end" and not native:
            send(b"data: " + json.dumps({"choices": [], **_usage(path, prompt, made)}).encode() + b"\n\n")
        send(b"data: [DONE]\n\n")
        if chunked:
            writer.write(b"0\r\n\r\n")
        else:
            await writer.drain()
            writer.close()


def _event(path: str, text: str, made: int) -> dict[str, Any]:
    if path.endswith("/generate"):
        return {"text": text}
    if "chat" in path:
        return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
    return {"choices": [{"index": 0, "text": text, "finish_reason": None}]}


def _usage(path: str, prompt: int, made: int) -> dict[str, Any]:
    counts = {"prompt_tokens": prompt, "completion_tokens": made}
    return {"meta_info": counts} if path.endswith("/generate") else {"usage": counts}


def _length(request: dict[str, Any]) -> int:
    prompt = request.get("prompt", request.get("input_ids", request.get("text")))
    if prompt is None:
        prompt = " ".join(str(one["content"]) for one in request["messages"])
    return len(prompt.split()) if isinstance(prompt, str) else len(prompt)


async def _until(start: int, seconds: float) -> None:
    delay = seconds - (time.monotonic_ns() - start) / 1e9
    if delay > 0:
        await asyncio.sleep(delay)


@contextlib.contextmanager
def serving(script: Script, tls: ssl.SSLContext | None = None) -> Iterator[MockServer]:
    """A server in a thread, gone when the block ends."""
    mock, started = MockServer(script), threading.Event()
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def run() -> None:
        server = await asyncio.start_server(mock.connection, "127.0.0.1", 0, ssl=tls, backlog=1024, limit=1 << 24)
        mock.port = server.sockets[0].getsockname()[1]
        started.set()
        await ended.wait()
        server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0.01)  # for the transports to close their sockets

    def thread() -> None:
        loop.run_until_complete(run())
        loop.close()

    worker = threading.Thread(target=thread)
    worker.start()
    started.wait()
    try:
        yield mock
    finally:
        loop.call_soon_threadsafe(ended.set)
        worker.join()


async def _serve(port: int, script: Script) -> None:
    server = await asyncio.start_server(MockServer(script).connection, "127.0.0.1", port, backlog=1024, limit=1 << 24)
    async with server:
        await server.serve_forever()


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8100)
    parser.add_argument("--ttft", type=float, default=0.1)
    parser.add_argument("--itl", type=float, default=0.01)
    options = parser.parse_args()
    asyncio.run(_serve(options.port, Script(ttft=options.ttft, itl=options.itl)))


if __name__ == "__main__":
    main()
