"""The compiled scanner, where it was built: well-formed chunks at several times the general reader's speed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from profiler.collectors.torch_trace.decode import Event
from profiler.collectors.torch_trace.messages import WORDS
from profiler.model.requests import Ints

try:
    from profiler.collectors.torch_trace import _scan
except ImportError:  # built without a C compiler; the general reader does everything
    _scan = None  # type: ignore[assignment]

compiled: Final[Callable[[bytes, bytes], Mapping[str, Any] | None] | None] = None if _scan is None else _scan.scan
_EVENT: Final = msgspec.json.Decoder(Event, strict=False)
_TEXT: Final = msgspec.json.Decoder(str)
_WANTED: Final = b"".join(word.encode() + b"\0" for word in WORDS)


@dataclass(frozen=True)
class Scanned:
    """A chunk's complete events as columns of one length; texts are ids into the chunk's own lists. Times are ns;
    ``timed`` is False where an event has no duration."""

    start: Ints
    duration: Ints
    timed: NDArray[np.bool_]
    correlation: Ints
    stream: Ints
    device: Ints
    size: Ints
    graph_node: Ints
    name: NDArray[np.int32]
    category: NDArray[np.int32]
    process: NDArray[np.int32]
    thread: NDArray[np.int32]
    names: list[str]
    categories: list[str]
    processes: list[str]
    threads: list[str]
    phases: Mapping[str, int]
    metadata: list[Event]
    # Rows that may state a collective's message, and to each of them the event that states the same.
    message_rows: Ints
    message_codes: NDArray[np.int32]
    messages: list[Event]


def scan(data: bytes) -> Scanned | None:
    """A chunk of comma-separated events, or None where the general reader must decide (or the scanner is not built)."""
    if compiled is None:
        return None
    try:
        # The general reader repairs text that is no UTF-8, wherever in the chunk it lies.
        if not data.isascii():
            data.decode("utf-8")
        found = compiled(data, _WANTED)
        if found is None:
            return None
        columns: dict[str, Any] = {name: np.frombuffer(found[name], np.int64) for name in _INTEGERS}
        columns |= {name: np.frombuffer(found[name], np.int32) for name in _CODES}
        columns |= {name: [_text(text) for text in found[name]] for name in _TEXTS}
        metadata = [_EVENT.decode(text) for text in found["metadata"]]
        messages = [_EVENT.decode(text) for text in found["messages"]]
    except (UnicodeDecodeError, msgspec.MsgspecError):
        return None
    timed = np.frombuffer(found["timed"], np.bool_)
    return Scanned(timed=timed, phases=found["phases"], metadata=metadata, messages=messages, **columns)


_INTEGERS: Final = ("start", "duration", "correlation", "stream", "device", "size", "graph_node", "message_rows")
_CODES: Final = ("name", "category", "process", "thread", "message_codes")
_TEXTS: Final = ("names", "categories", "processes", "threads")


def _text(raw: bytes) -> str:
    return _TEXT.decode(b'"' + raw + b'"') if b"\\" in raw else raw.decode("utf-8")
