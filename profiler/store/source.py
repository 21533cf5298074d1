"""A file as decompressed bytes: gzip and zstd are recognised by their first bytes, never by the suffix."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from isal import isal_zlib

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# Compressed text of traces and logs shrinks 10 to 100 times. What grows beyond this is no evidence but a bomb; small
# files may, as they harm nobody.
MOST_EXPANSION: Final = 300
HARMLESS: Final = 1 << 30
GZIP: Final = b"\x1f\x8b"
ZSTD: Final = b"\x28\xb5\x2f\xfd"
# Errors that a compressed stream raises where it is cut or damaged; what was decompressed before stays good.
STREAM_ERRORS: Final[tuple[type[Exception], ...]] = (
    EOFError,
    OSError,
    isal_zlib.error,  # type: ignore[assignment]
    zstd.ZstdError,
    ValueError,
)


class FileSource:
    """One file of a run; satisfies ``profiler.model.extension.Source``."""

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path = path
        self.name = path.name if name is None else name
        self.size = path.stat().st_size
        self.broken: str | None = None

    def head(self, size: int = 65536) -> bytes:
        """The first decompressed bytes, at most ``size``."""
        with self.open() as stream:
            return stream.read(size)

    def open(self) -> BinaryIO:
        """A buffered stream of decompressed bytes. It ends where the compression breaks off (see ``broken``)."""
        self.broken = None
        raw = self.path.open("rb", buffering=1 << 20)
        magic = raw.read(4)
        raw.seek(0)
        if magic.startswith(GZIP):
            return io.BufferedReader(_Tolerant(self, _Gzip(raw), raw), 1 << 20)
        if magic == ZSTD:
            return io.BufferedReader(_Tolerant(self, _Zstd(raw), raw), 1 << 20)
        return raw


class _Decompressor(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Gzip:
    """Members of a gzip file one after the other; every byte before a break is given out (``gzip`` drops the last)."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._member = isal_zlib.decompressobj(wbits=31)
        self._pending = b""

    def read(self, size: int, /) -> bytes:
        while True:
            if self._member.eof:
                # Padding after a member is common on tapes and object stores; anything else is the next member.
                rest = (self._member.unused_data or self._raw.read(1 << 18)).lstrip(b"\0")
                if not rest:
                    return b""
                self._member, self._pending = isal_zlib.decompressobj(wbits=31), rest
            data = self._pending or self._raw.read(1 << 18)
            # With no input left the member may still hold output that did not fit before.
            found: bytes = self._member.decompress(data, size)
            self._pending = self._member.unconsumed_tail
            if found:
                return found
            if not data and not self._member.eof:
                raise EOFError("the file ends inside the compressed data")


class _Zstd:
    """Frames of a zstd file one after the other; the module's own file reader would drop what precedes a break."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._frame = zstd.ZstdDecompressor()
        self._begun = True

    def read(self, size: int, /) -> bytes:
        while True:
            data = b""
            if self._frame.eof:
                data = self._frame.unused_data
                self._frame, self._begun = zstd.ZstdDecompressor(), False
            if not data and self._frame.needs_input:
                data = self._raw.read(1 << 18)
                if not data:
                    if self._begun:
                        raise EOFError("the file ends inside the compressed data")
                    return b""
            self._begun = True
            found: bytes = self._frame.decompress(data, size)
            if found:
                return found


class _Tolerant(io.RawIOBase):
    """Passes a decompressor's bytes on and turns its failure into an early end that ``FileSource.broken`` explains."""

    def __init__(self, source: FileSource, stream: _Decompressor, raw: BinaryIO) -> None:
        self._source, self._stream, self._raw = source, stream, raw
        self._left = max(HARMLESS, MOST_EXPANSION * source.size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        try:
            data = self._stream.read(len(view))
        except STREAM_ERRORS as error:
            self._source.broken = f"the compressed data breaks off: {error}"
            return 0
        self._left -= len(data)
        if self._left < 0:
            self._source.broken = (
                f"the compressed data grows to more than {MOST_EXPANSION} times its size, as no real file does; the "
                "rest was not unpacked"
            )
            return 0
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._raw.close()
        super().close()
