"""Forward-pass metrics as they are published while a server runs: one message a step, over ZeroMQ.

Nothing is sent but the subscription. Each message is kept as a line of the form that Dynamo itself writes to files
(``profiler.collectors.scheduler.forward_pass`` reads it). Its last frame is MessagePack: the metrics themselves, as an
engine publishes them (topic, sequence, metrics), or Dynamo's event around them (topic, publisher, sequence, and the
event behind one byte of version and four of length). Seen of Dynamo 1.6.1; of an engine by itself read off its source.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Final

import msgspec

from profiler.collectors.json_text import mapping, number
from profiler.collectors.run_folder import RunFolder
from profiler.collectors.sampling import Cost, SampleFailed

NAME: Final = "forward passes"
FILE: Final = "forward_pass.jsonl"
EXTRA: Final = "pip install 'serving-profiler[zmq]'"
# Messages that may wait for us between two looks; a publisher drops what is beyond its own bound.
MOST_WAITING: Final = 100_000
LARGEST: Final = 1 << 20
_EVENT_FRAMES: Final = 4
_EVENT_HEAD: Final = 5


def available() -> bool:
    """Whether ZeroMQ is installed."""
    return find_spec("zmq") is not None


class ForwardPassStream:
    """What publishers at ``addresses`` say. ``place`` gives, for the number that a worker calls itself by, the folder
    of the run that its lines go to ("": the run's own), None where they are not kept."""

    period = 0.5
    vital = False

    def __init__(self, addresses: Sequence[str], folder: RunFolder, place: Callable[[str], str | None]) -> None:
        import zmq

        self.cost = Cost(NAME)
        self._folder, self._place, self._again = folder, place, zmq.Again
        self._addresses, self._now = tuple(addresses), zmq.NOBLOCK
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.SUB)
        self._socket.setsockopt(zmq.RCVHWM, MOST_WAITING)
        self._socket.setsockopt(zmq.MAXMSGSIZE, LARGEST)
        self._socket.setsockopt(zmq.SUBSCRIBE, b"")
        for address in self._addresses:
            self._socket.connect(address)

    def take(self, seconds: float) -> None:
        """Whatever came since the last time. Idle publishers send a message a second."""
        lines: dict[str, list[str]] = {}
        while True:
            try:
                frames = self._socket.recv_multipart(self._now)
            except self._again:
                break
            self.cost.received += sum(map(len, frames))
            line = line_of(frames)
            into = None if line is None else self._place(line[0])
            if line is not None and into is not None:
                lines.setdefault(into, []).append(line[1])
        for into, texts in lines.items():
            name = f"{into}/{FILE}" if into else FILE
            self.cost.written += self._folder.append(name, "".join(texts).encode())
        if not self.cost.written:
            raise SampleFailed(f"nothing came from {', '.join(self._addresses)}")

    def close(self) -> None:
        """Drop the subscription."""
        self._socket.close(linger=0)
        self._context.term()


def line_of(frames: Sequence[bytes]) -> tuple[str, str] | None:
    """(the worker's number, a line of JSON) of a message; None where it is something else."""
    if not frames:
        return None
    stated, published = _decoded(frames[-1]), None
    if len(frames) == _EVENT_FRAMES:
        event = _decoded(frames[-1][_EVENT_HEAD:])
        payload = event.get("payload")
        stated = _decoded(payload) if isinstance(payload, bytes) else {}
        published = number(event.get("published_at"))
    if not mapping(stated.get("scheduled_requests")) or number(stated.get("wall_time")) is None:
        return None
    at = published if published is not None else round(time.time() * 1e3)
    told = {"schema": "dynamo.fpm.trace.v1", "capture_mode": "full", "observed_at_unix_ms": at, "fpm": stated}
    try:
        # Compact, as the writer of the files does it: the reader tells them by the first characters.
        return str(stated.get("worker_id", "")), json.dumps(
            {"timestamp": at, "event": told}, separators=(",", ":")
        ) + "\n"
    except (TypeError, ValueError):
        return None


def _decoded(data: bytes) -> Mapping[str, object]:
    try:
        return mapping(msgspec.msgpack.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
