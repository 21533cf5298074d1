"""The frame of a Perfetto trace: packets one after the other, read without holding the file, up to where it breaks.

A trace is the protobuf message ``Trace``, whose only field (1) repeats ``TracePacket``: tag, length, bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final

TAG: Final = b"\x0a"
# The writer's own limit of one packet is far below; a length beyond this is no length.
LARGEST_PACKET: Final = 1 << 28
_FIXED: Final = {1: 8, 5: 4}


class BrokenPackets(Exception):
    """The bytes at this offset are no packet: the file is cut or damaged there."""


def packets(stream: BinaryIO) -> Iterator[bytes]:
    """The packets' bytes. Raises BrokenPackets, after those before it, where the frame ends within one."""
    at = 0
    while tag := stream.read(1):
        length, digits = _length(stream) if tag == TAG else (None, 0)
        if length is None or length > LARGEST_PACKET:
            raise BrokenPackets(f"byte {at}")
        body = stream.read(length)
        if len(body) < length:
            raise BrokenPackets(f"byte {at}")
        at += 1 + digits + length
        yield body


def unpacked(body: bytes) -> bytes:
    """The packets inside a packet that the writer compressed. Raises BrokenPackets where it does not decompress."""
    try:
        return zlib.decompressobj().decompress(body, LARGEST_PACKET)
    except zlib.error as error:
        raise BrokenPackets("a compressed packet") from error


def framed(head: bytes) -> int:
    """How many whole packets a file begins with, each of which is made of protobuf fields; 0 where it is no trace."""
    at = found = 0
    while at < len(head) and found < 8:
        length, begin = _number(head, at + 1)
        if head[at : at + 1] != TAG or length is None:
            return 0
        if begin + length > len(head):
            break
        if not _fields(head[begin : begin + length]):
            return 0
        at, found = begin + length, found + 1
    return found


def _length(stream: BinaryIO) -> tuple[int | None, int]:
    digits = b""
    while len(digits) < 10 and (digit := stream.read(1)):
        digits += digit
        if digit[0] < 0x80:
            return _number(digits, 0)[0], len(digits)
    return None, len(digits)


def _number(data: bytes, at: int) -> tuple[int | None, int]:
    """A varint and where it ends; None where the data ends within it."""
    value = 0
    for shift in range(10):
        if at >= len(data):
            return None, at
        value |= (data[at] & 0x7F) << (7 * shift)
        at += 1
        if data[at - 1] < 0x80:
            return value, at
    return None, at


def _fields(body: bytes) -> bool:
    """Whether the bytes are protobuf fields from end to end."""
    at = 0
    while at < len(body):
        key, at = _number(body, at)
        if key is None or key < 8:
            return False
        kind = key & 7
        if kind == 0:
            value, at = _number(body, at)
        elif kind == 2:
            value, at = _number(body, at)
            at += value or 0
        else:
            value, at = _FIXED.get(kind), at + _FIXED.get(kind, 0)
        if value is None or at > len(body):
            return False
    return bool(body)
