"""A streamed answer: server-sent events as they arrive, and what each says of tokens.

A chunk is an event that carries output: text, or by the server's count at least one token. Its time is that of the
read that completed it. Events without output (a role, a keep-alive comment, the final usage) are none.
"""

from __future__ import annotations

from typing import Final

import msgspec

LONGEST_TEXT: Final = 300
# An event of this size is no answer; what claims to be one is not kept in memory.
LONGEST_EVENT: Final = 1 << 24

Path = tuple[str | int, ...]


class Places(msgspec.Struct, frozen=True):
    """The places of ``profiler.model.extension.Endpoint`` that concern the answer."""

    output: tuple[str, ...]
    input_tokens: str
    output_tokens: str
    cached_tokens: str | None = None
    part: str | None = None
    finish: str | None = None
    running: bool = False


def _path(place: str | None) -> Path:
    return tuple(int(key) if key.isdecimal() else key for key in (place or "").split(".") if key)


def _at(value: object, path: Path) -> object | None:
    for key in path:
        if isinstance(key, str):
            if not isinstance(value, dict):
                return None
            value = value.get(key)
        elif isinstance(value, list) and len(value) > key:
            value = value[key]
        else:
            return None
    return value


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62 else None


class Reader:
    """The places of an endpoint as paths, made once for all of its answers."""

    def __init__(self, places: Places) -> None:
        self.output = tuple(_path(place) for place in places.output)
        self.input, self.counts = _path(places.input_tokens), _path(places.output_tokens)
        self.cached, self.part, self.finish = _path(places.cached_tokens), _path(places.part), _path(places.finish)
        self.running = places.running


class Answer:
    """One answer while it streams in. ``chunks`` are times in ns; ``tokens`` how many each chunk brought, 0 where
    that is not known; the counts are the server's, None until it says them."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._rest = b""
        self._data: list[bytes] = []
        self.chunks: list[int] = []
        self.tokens: list[int] = []
        self.counted: int | None = None
        self.input: int | None = None
        self.cached: int | None = None
        self.finish: str | None = None
        self.error: str | None = None
        self.strange = 0

    def feed(self, data: bytes, now: int) -> None:
        """Take the next bytes of the body, read at ``now``."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > LONGEST_EVENT:
            self._rest, self.strange = b"", self.strange + 1
        for line in lines:
            if line.endswith(b"\r"):
                line = line[:-1]
            if line.startswith(b"data:"):
                self._data.append(line[5:].strip())
            elif not line and self._data:
                self._event(b"\n".join(self._data), now)
                self._data = []
            elif line.startswith(b"error:"):
                self._fail(line[6:].decode("utf-8", "replace"))

    def end(self, now: int) -> None:
        """The body is complete: an event without an empty line behind it counts too."""
        self.feed(b"\n\n", now)

    def _event(self, data: bytes, now: int) -> None:
        if data == b"[DONE]":
            return
        try:
            event = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            self.strange += 1
            return
        if not isinstance(event, dict):
            self.strange += 1
            return
        if event.get("error"):
            self._fail(_message(event["error"]))
            return
        reader = self._reader
        counted, before = _count(_at(event, reader.counts)), self.counted or 0
        rise = None if counted is None or not reader.running else max(counted - before, 0)
        if counted is not None:
            self.counted = max(counted, before)
            self.input = _count(_at(event, reader.input)) or self.input
        if reader.cached and (cached := _count(_at(event, reader.cached))) is not None:
            self.cached = cached
        if reader.part and _at(event, reader.part) is None:
            return
        if reader.finish and isinstance(finish := _at(event, reader.finish), str):
            self.finish = finish[:40]
        # Some servers repeat the whole text in every event: there only a count that rose is news.
        if rise if rise is not None else any(_at(event, path) for path in reader.output):
            self.chunks.append(now)
            self.tokens.append(rise or 0)

    def _fail(self, text: str) -> None:
        self.error = self.error or text.strip()[:LONGEST_TEXT] or "an error without a message"


def _message(error: object) -> str:
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return str(error["message"])
    return error if isinstance(error, str) else msgspec.json.encode(error).decode()


def message_of(body: bytes) -> str:
    """What a refused request's body says, in one line."""
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        answer = body.decode("utf-8", "replace")
    if isinstance(answer, dict):
        answer = answer.get("error") or answer.get("message") or answer.get("detail") or answer
    return " ".join(_message(answer).split())[:LONGEST_TEXT]
