"""A router as small as one can be: it names its workers and sends them the requests in turns."""

from __future__ import annotations

import http.client
import itertools
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@contextmanager
def router(workers: Sequence[str]) -> Iterator[str]:
    """Its address. What is posted is answered by a worker, chunk by chunk as it comes."""
    turns = itertools.cycle(workers)
    lock = threading.Lock()
    own = {
        "/workers": json.dumps({"workers": [{"url": url} for url in workers], "stats": {}}),
        "/metrics": "# TYPE smg_worker_requests_active gauge\nsmg_worker_requests_active 0\n",
    }

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path in own:
                self._answer(200, own[self.path].encode())
            else:
                self._forward(workers[0], None)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with lock:
                worker = next(turns)
            self._forward(worker, body)

        def _answer(self, status: int, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _forward(self, worker: str, body: bytes | None) -> None:
            connection = http.client.HTTPConnection(urlsplit(worker).netloc, timeout=300)
            # The load of the second pass leaves in the middle of its answers.
            with closing(connection), suppress(ConnectionError):
                connection.request(self.command, self.path, body, {"Content-Type": "application/json"})
                with connection.getresponse() as answer:
                    self.send_response(answer.status)
                    self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    while data := answer.read1(65536):
                        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                    self.wfile.write(b"0\r\n\r\n")
                return
            self.close_connection = True

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
