"""The miniature engine behind an address: streamed completions, metrics, settings, health and the torch profiler.

    python -m profiler.examples.miniature_server --switches '{"max_num_seqs": 4}' --traces DIR

It answers as vLLM 0.32 does, so that what records and loads an engine needs to know no other, and says what it is in
its version. One thread runs the engine; each connection has one, and is the frontend: ``frontend_delay`` is its sleep.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, Final

import torch
from torch.profiler import profile

from profiler.examples.miniature_clock import Clock
from profiler.examples.miniature_engine import Engine, Model, Running
from profiler.examples.miniature_run import MODEL, SHAPES, Load, annotation, settings_line, started
from profiler.examples.miniature_settings import Request, Settings

VERSION: Final = "0.32.0+miniature"
# Prompts whose first tokens are alike, so many, share a prefix.
PREFIX: Final = 200
LONGEST_BODY: Final = 1 << 22
TRACED_STEPS: Final = 20


class Serving:
    """An engine on this thread (``run``), and what other threads may ask of it."""

    def __init__(self, settings: Settings, model: Model, device: str, traces: Path) -> None:
        # The frontend is not the engine's own: it is late before the engine is asked.
        self.settings, self.device, self.traces = settings, device, traces
        self.engine = Engine(
            replace(settings, frontend_delay=0.0), model, self._annotated, Clock(), self._answered, self._logged
        )
        self.asked: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.streams: dict[int, SimpleQueue[int]] = {}
        self.profiler: Any = None
        self.prefix, self.until = "", 0
        self.annotate: Callable[[str], AbstractContextManager[object]] = lambda _: nullcontext()

    def run(self) -> None:
        """Serve until the process ends."""
        while True:
            while self.engine.idle or not self.asked.empty():
                self.asked.get()()
            self.engine.step()
            if self.profiler is not None and self.engine.steps >= self.until:
                self._stop()

    def stream(self, request: Request) -> SimpleQueue[int]:
        """Send a request; its tokens come as they are computed."""
        tokens: SimpleQueue[int] = SimpleQueue()
        self.asked.put(lambda: self.streams.__setitem__(id(self.engine.send(request)), tokens))
        return tokens

    def start_profile(self, prefix: str, steps: int) -> bool:
        """Trace so many steps, unless a trace is being taken."""

        def start() -> bool:
            if self.profiler is not None:
                return False
            self.prefix, self.until = prefix, self.engine.steps + steps
            self.annotate, self.profiler = annotation(self.device), profile()
            self.profiler.start()
            return True

        return self._there(start)

    def stop_profile(self) -> bool:
        """End the trace, and write it; False where none is being taken."""
        return self._there(self._stop)

    def _there(self, what: Callable[[], bool]) -> bool:
        """Do it on the engine's thread, between two steps."""
        over, said = Event(), list[bool]()

        def done() -> None:
            said.append(what())
            over.set()

        self.asked.put(done)
        over.wait()
        return said[0]

    def _stop(self) -> bool:
        if self.profiler is None:
            return False
        self.profiler.stop()
        with tempfile.TemporaryDirectory() as folder:
            written = Path(folder) / "trace.json"
            self.profiler.export_chrome_trace(str(written))
            # Under its name only when it is whole.
            packed = written.with_suffix(".gz")
            with written.open("rb") as source, gzip.open(packed, "wb", compresslevel=1) as target:
                shutil.copyfileobj(source, target)
            shutil.move(packed, self.traces / f"{self.prefix}-rank-0.{time.time_ns()}.pt.trace.json.gz")
        self.profiler, self.annotate = None, lambda _: nullcontext()
        return True

    def _annotated(self, name: str) -> AbstractContextManager[object]:
        return self.annotate(name)

    def _answered(self, one: Running) -> None:
        tokens = self.streams[id(one)]
        if len(one.tokens) == one.request.output:
            del self.streams[id(one)]
        tokens.put(one.tokens[-1])

    def _logged(self, line: str) -> None:
        _say(line.replace("{device}", "GPU" if self.device == "cuda" else "CPU"))


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    serving: Serving

    def do_GET(self) -> None:
        """Health, list of models, version, settings, metrics."""
        serving = self.serving
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._answer(200, serving.engine.metrics(), "text/plain; version=0.0.4")
        elif path == "/health":
            self._answer(200, "")
        elif path == "/v1/models":
            self._json(200, {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "vllm"}]})
        elif path == "/version":
            self._json(200, {"version": VERSION})
        elif path == "/server_info":
            self._json(200, {"vllm_config": _config(serving)})
        else:
            known = path in ("/v1/completions", "/start_profile", "/stop_profile")
            self._json(405 if known else 404, {"error": "Method Not Allowed" if known else "Not Found"})

    def do_POST(self) -> None:
        """Completions, and the profiler."""
        size = int(self.headers.get("Content-Length") or 0)
        if size > LONGEST_BODY:
            self.close_connection = True
            self._json(413, {"error": f"at most {LONGEST_BODY} bytes"})
            return
        try:
            body = json.loads(self.rfile.read(size) or b"{}")
        except ValueError:
            body = None
        if not isinstance(body, dict):
            self._json(400, {"error": "the body is no JSON object"})
        elif self.path == "/v1/completions":
            self._complete(body)
        elif self.path == "/start_profile":
            prefix, steps = body.get("profile_prefix"), body.get("max_iterations")
            began = self.serving.start_profile(
                prefix if isinstance(prefix, str) and prefix.isidentifier() else "trace",
                steps if isinstance(steps, int) and steps > 0 else TRACED_STEPS,
            )
            self._json(200 if began else 409, {"error": None if began else "a trace is being taken"})
        elif self.path == "/stop_profile":
            self._json(200 if self.serving.stop_profile() else 409, {})
        else:
            self._json(404, {"error": "Not Found"})

    def log_message(self, *_: object) -> None:
        """Nothing: the log is the engine's."""

    def _complete(self, body: Mapping[str, Any]) -> None:
        request = _request(body, self.serving)
        if isinstance(request, str):
            self._json(400, {"error": {"message": request}})
            return
        time.sleep(self.serving.settings.frontend_delay)
        tokens = self.serving.stream(request)
        try:
            self._stream(request, tokens)
        except ConnectionError:
            # Whoever asked is gone; the engine answers to the end.
            self.close_connection = True

    def _stream(self, request: Request, tokens: SimpleQueue[int]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for count in range(1, request.output + 1):
            part = {"index": 0, "text": f" {tokens.get()}", "finish_reason": None}
            if count == request.output:
                part["finish_reason"] = "length"
            usage = {"prompt_tokens": len(request.prompt), "completion_tokens": count}
            self._event({"object": "text_completion", "model": MODEL, "choices": [part], "usage": usage})
        self._event({"object": "text_completion", "model": MODEL, "choices": [], "usage": usage})
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _event(self, event: object) -> None:
        self._chunk(b"data: " + json.dumps(event).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _json(self, status: int, document: object) -> None:
        self._answer(status, json.dumps(document), "application/json")

    def _answer(self, status: int, text: str, kind: str = "text/plain") -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _say(line: str) -> None:
    """A line of the log, at once: it is read while it is written."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _request(body: Mapping[str, Any], serving: Serving) -> Request | str:
    """A request, or what is wrong with it. There is no tokenizer: bytes of a text are its tokens."""
    given, output, shape = body.get("prompt"), body.get("max_tokens", 16), SHAPES[serving.device]
    tokens = list(given.encode()) if isinstance(given, str) else given
    if not isinstance(tokens, list) or not tokens or not all(type(token) is int and token >= 0 for token in tokens):
        return "prompt is neither text nor a list of token ids"
    if type(output) is not int or output < 1:
        return "max_tokens is no positive number"
    most = min(shape.longest, serving.settings.kv_cache_tokens)
    if len(tokens) + output > most:
        return f"{len(tokens)} prompt tokens and {output} more are above the {most} that a sequence can have"
    prompt = tuple(token % shape.vocabulary for token in tokens)
    shared = PREFIX if len(prompt) > PREFIX else len(prompt) - 1
    return Request(prompt, shared, hash(prompt[:shared]), output)


def _config(serving: Serving) -> dict[str, object]:
    """Settings as vLLM's development mode tells them."""
    settings = serving.settings
    return {
        "model_config": {"model": MODEL, "enforce_eager": serving.device != "cuda" or not settings.graphs},
        "cache_config": {"enable_prefix_caching": settings.prefix_cache, "num_gpu_blocks": settings.kv_cache_tokens,
                         "block_size": 1},
        "parallel_config": {"tensor_parallel_size": settings.ranks},
        "scheduler_config": {"max_num_seqs": settings.max_num_seqs, "async_scheduling": settings.overlap,
                             "max_num_batched_tokens": settings.max_num_batched_tokens},
        "observability_config": {"enable_logging_iteration_details": True},
        "device_config": {"device": serving.device},
        "profiler_config": {"torch_profiler_dir": str(serving.traces)},
    }  # fmt: skip


def main() -> None:
    """Serve on a free port, or the one that is asked for; the first line of the log names it."""
    parser = argparse.ArgumentParser(description="The miniature engine behind an address.")
    parser.add_argument("--port", type=int, default=0, help="a free one where it is not given")
    parser.add_argument("--switches", type=json.loads, default={}, help="fields of Settings, as JSON")
    parser.add_argument("--traces", type=Path, required=True, help="the folder for traces")
    given = parser.parse_args()
    settings = Settings(**given.switches)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with started(settings, Load(requests=4, concurrency=4), device, Clock()) as (model, _):
        serving = Serving(settings, model, device, given.traces.resolve())
        Handler.serving = serving
        server = ThreadingHTTPServer(("127.0.0.1", given.port), Handler)
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        _say(settings_line(settings, device))
        _say(f"listening on http://127.0.0.1:{server.server_port}")
        serving.run()


if __name__ == "__main__":
    main()
