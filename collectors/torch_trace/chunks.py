"""A Kineto file as pieces: the text before the events, lists of whole events, the text after them.

The events are never searched for by parsing: a chunk is cut at what looks like the border between two events, and
the decoder proves the guess (a wrong cut leaves an unbalanced text, which does not decode).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO, Final, Protocol

CHUNK: Final = 4 << 20
# A header or footer above this is no header: give up looking for its end.
LONGEST_FRAME: Final = 64 << 20
# The longest event that is waited for before the text is called broken.
LONGEST_EVENT: Final = 256 << 20

_EVENTS_KEY: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_BORDER: Final = re.compile(rb'\}\s*,\s*\{\s*"')
_ARRAY_END: Final = re.compile(rb"\}\s*\]")


@dataclass(frozen=True)
class Piece:
    """``kind`` is "header", "events", "tail" or "unread"; ``offset`` counts decompressed bytes from the start.

    "events" holds whole events separated by commas, without the brackets. "tail" is the last of them: it may end in
    the closing bracket and everything after it, or break off anywhere. "unread", without data, says that the file goes
    on where nothing that looks like an event has come for LONGEST_EVENT bytes.
    """

    kind: str
    data: bytes
    offset: int


class Readable(Protocol):
    """What pieces are cut from."""

    def read(self, size: int, /) -> bytes:
        """The next bytes; empty at the end."""
        ...


class ReadAhead:
    """A stream that is read, and unpacked, one chunk ahead on a thread of its own. Close it before the stream."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._thread = ThreadPoolExecutor(1)
        self._next = self._thread.submit(stream.read, CHUNK)

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.shutdown()

    def read(self, size: int, /) -> bytes:
        """The next chunk; ``size`` bytes are read after it. Raises what reading raised."""
        found = self._next.result()
        if found:
            self._next = self._thread.submit(self._stream.read, size)
        return found


def pieces(stream: Readable, chunk: int = CHUNK) -> Iterator[Piece]:
    """Cut a decompressed Kineto file (object or bare array) into pieces, holding about one chunk in memory."""
    buffer = stream.read(chunk)
    offset = 0
    match = _EVENTS_KEY.search(buffer)
    bare = buffer.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
    while match is None and not bare and len(buffer) < LONGEST_FRAME:
        more = stream.read(chunk)
        if not more:
            break
        buffer += more
        match = _EVENTS_KEY.search(buffer)
    while match is not None and not bare:
        # A list of event lists, or an empty one before the real one: the events are in the innermost.
        inner = _EVENTS_KEY.search(buffer, match.end())
        if inner is None or b'"ph"' in buffer[match.end() : inner.start()]:
            break
        match = inner
    if match is not None and not bare:
        yield Piece("header", buffer[: match.start()], 0)
        offset = match.end()
    elif bare:
        offset = buffer.index(b"[") + 1
    else:
        yield Piece("header", buffer, 0)
        return
    # What the last piece left over, and what was read behind it: joined once, when it is known how much of it is whole.
    left, buffer = b"", buffer[offset:]
    while True:
        more = stream.read(chunk)
        if not more:
            yield Piece("tail", left + buffer, offset)
            return
        cut = _last_border(buffer)
        if cut < 0:
            # The border may lie across both.
            left, buffer = b"", left + buffer
            cut = _last_border(buffer)
        if cut < 0:
            buffer += more
            if len(buffer) > LONGEST_EVENT:
                yield Piece("tail", buffer, offset)
                yield Piece("unread", b"", offset + len(buffer))
                return
            continue
        yield Piece("events", b"".join((left, memoryview(buffer)[: cut + 1])), offset)
        rest = buffer.index(b",", cut + 1) + 1
        offset += len(left) + rest
        left, buffer = buffer[rest:], more


def _last_border(buffer: bytes) -> int:
    """The position of the last ``}`` that is followed by ``, {"``, or -1."""
    end = len(buffer)
    while (cut := buffer.rfind(b"}", 0, end)) >= 0:
        if _BORDER.match(buffer, cut):
            return cut
        end = cut
    return -1


def array_ends(data: bytes, limit: int = 200) -> Iterator[tuple[int, int]]:
    """Where the event array may end: (end of the last event, start of what follows the bracket), first guess first."""
    stripped = len(data) - len(data.lstrip())
    if data[stripped : stripped + 1] == b"]":
        yield 0, stripped + 1
    for count, match in enumerate(_ARRAY_END.finditer(data)):
        if count >= limit:
            return
        yield match.start() + 1, match.end()


def split_events(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Single events of a text that does not decode as a whole: (offset, bytes), cut where one seems to begin."""
    start = 0
    for match in _EVENT_START.finditer(data):
        yield start, data[start : match.start() + 1]
        start = match.end() - len(match.group(1))
    yield start, data[start:]


# Keys that Kineto or a json.dump of its dictionaries writes first; at the end, what a cut left of the first key.
_EVENT_START: Final = re.compile(
    rb'\}\s*,\s*(\{\s*(?:"(?:ph|name|cat|pid|tid|ts|dur|args|id|bp|s)"\s*:|(?:"\w*"?\s*)?\Z))'
)
