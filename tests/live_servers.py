"""Real HTTP servers in this process that answer as engines answered when they were recorded."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from profiler.collectors.http_client import Client
from profiler.collectors.versions import at_least
from tests.strategies import CORPUS

OWN = CORPUS / "own"
Answer = tuple[int, str]
Route = str | Answer | Callable[["Asked"], Answer]


@dataclass(frozen=True)
class Asked:
    """One request that a server got."""

    method: str
    path: str
    body: str
    headers: Mapping[str, str]


@dataclass
class Server:
    """A server that runs; ``asked`` holds every request. A route by path, or by method and path."""

    routes: dict[str, Route]
    key: str | None = None
    asked: list[Asked] = field(default_factory=list)
    url: str = ""

    def paths(self, method: str) -> list[str]:
        return [one.path for one in self.asked if one.method == method]

    def answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        if self.key is not None and asked.headers.get("Authorization") != f"Bearer {self.key}":
            return 401, '{"error": "Unauthorized"}'
        route = self.routes.get(f"{asked.method} {asked.path}")
        if route is None and asked.method == "GET":
            route = self.routes.get(asked.path)
        if route is None:
            return 404, '{"detail": "Not Found"}'
        if isinstance(route, str):
            return 200, route
        return route if isinstance(route, tuple) else route(asked)


@contextmanager
def served(routes: Mapping[str, Route], key: str | None = None, **options: object) -> Iterator[Server]:
    """Serve on a free port of the loopback address, with TLS where a ``context`` is given."""
    server = Server(dict(routes), key)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length).decode()
            status, text = server.answer(Asked(self.command, self.path, body, dict(self.headers)))
            if status == 0:  # a server that dies in the middle
                self.close_connection = True
                return
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _do  # noqa: N815

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = options.get("context")
    if context is not None:
        http.socket = context.wrap_socket(http.socket, server_side=True)  # type: ignore[attr-defined]
    server.url = f"{'http' if context is None else 'https'}://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def client_of(server: Server) -> Client:
    return Client(server.url, server.key)


def recorded(*parts: str) -> str:
    """A recorded answer of the corpus."""
    return Path(OWN, *parts).read_text("utf-8", "replace")


def vllm(settings: bool = True, profiler: bool = True) -> dict[str, Route]:
    """vLLM 0.32.0 as recorded."""
    routes: dict[str, Route] = {
        "/v1/models": recorded("vllm-endpoints", "ep_v1_models"),
        "/version": recorded("vllm-endpoints", "ep_version"),
        "/health": "",
        "/metrics": recorded("vllm-endpoints", "ep_metrics"),
    }
    if settings:
        routes["/server_info?config_format=json"] = recorded("vllm-endpoints", "ep_server_info_config_format_json")
    if profiler:
        routes |= {"GET /start_profile": (405, "{}"), "POST /start_profile": "", "POST /stop_profile": ""}
    return routes


def sglang_spelled(version: str, metrics: str) -> dict[str, Route]:
    """SGLang 0.5.23 as recorded, its metrics replaced by what ``version`` names them; before 0.5.6 its settings had
    their old address."""
    told = json.loads(recorded("sglang-0.5.23-cpu", "ep_server_info")) | {"version": version}
    path = "/server_info" if at_least(version, 0, 5, 6) else "/get_server_info"
    return {
        "/v1/models": recorded("sglang-0.5.23-cpu", "ep_v1_models"),
        "/health": "",
        "/metrics": metrics,
        path: json.dumps(told),
    }


def sglang(old: bool = False) -> dict[str, Route]:
    """SGLang 0.5.23 as recorded; ``old``: with the address of its settings as it was until 0.5.4."""
    return {
        "/v1/models": recorded("sglang-0.5.23-cpu", "ep_v1_models"),
        "/health": "",
        "/metrics": recorded("sglang-0.5.23-cpu", "ep_metrics"),
        "/get_server_info" if old else "/server_info": recorded("sglang-0.5.23-cpu", "ep_server_info"),
        "/v1/loads?include=core": recorded("sglang-0.5.23-cpu", "ep_v1_loads"),
        "POST /start_profile": "Start profiling.\n",
        "POST /stop_profile": "Stop profiling. This will take some time.\n",
    }


def llamacpp(metrics: bool = True) -> dict[str, Route]:
    """llama.cpp's server as recorded; without ``metrics``, as it answers when started without --metrics."""
    routes: dict[str, Route] = {
        "/v1/models": recorded("llama.cpp-server", "ep_v1_models.txt"),
        "/health": recorded("llama.cpp-server", "ep_health.txt"),
        "/props": recorded("llama.cpp-server", "ep_props.txt"),
    }
    text = recorded("llama.cpp-server", "ep_metrics.txt")
    return routes | {"/metrics": text if metrics else (501, '{"error": {"message": "not supported"}}')}


def worker(rate: int, engine: str = "vllm") -> dict[str, Route]:
    """A vLLM that made ``rate`` more tokens, in one request, at each look; it began at a hundred."""
    looks = iter(range(1, 1000000))

    def counted(_: Asked) -> Answer:
        made = 100 + rate * next(looks)
        return 200, (
            f"# TYPE {engine}:num_requests_running gauge\n{engine}:num_requests_running {rate}\n"
            f'{engine}:cache_config_info{{num_gpu_blocks="{rate}"}} 1\n'
            f"{engine}:generation_tokens_total {made}\n{engine}:request_success_total {made // rate}\n"
        )

    return vllm() | {"/metrics": counted}


def trtllm(version: str = "1.2.0", spelled: Mapping[str, object] | None = None) -> dict[str, Route]:
    """trtllm-serve as its source says: each read of /metrics empties the list. ``spelled`` are a step's fields beside
    its batch, as that version has them."""
    own = {"hostStepTimeMS": 4.5} if spelled is None else spelled
    steps = iter(range(1000000))

    def drained(_: Asked) -> Answer:
        first = next(steps)
        return 200, json.dumps(
            [
                {
                    "timestamp": f"11-30-2026 06:00:{first % 60:02d}.{at}00000", "iter": 2 * first + at,
                    "iterLatencyMS": 9.0, "numQueuedRequests": 0, **own,
                    "inflightBatchingStats": {"numContextRequests": 0, "numGenRequests": 3, "numCtxTokens": 0},
                    "kvCacheStats": {"usedNumBlocks": 4, "maxNumBlocks": 40},
                }
                for at in range(2)
            ]
        )  # fmt: skip

    return {
        "/v1/models": '{"object": "list", "data": [{"id": "tiny", "object": "model", "owned_by": "tensorrt_llm"}]}',
        "/version": json.dumps({"version": version}),
        "/metrics": drained,
    }
