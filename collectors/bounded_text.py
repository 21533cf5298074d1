"""A whole file as text, up to a size that no file of its kind has: a bomb or a wrong file must not fill the memory."""

from __future__ import annotations

from typing import Final

from profiler.collectors.json_text import decode
from profiler.errors import BadInput
from profiler.model.extension import Source

# The largest result files hold every token of 100,000 requests: some hundred megabytes.
LARGEST: Final = 512 << 20
_PIECE: Final = 16 << 20


def whole_bytes(source: Source, largest: int) -> bytes:
    """Everything that the file holds, decompressed. Raises BadInput beyond ``largest`` bytes."""
    # Hardly anything grows by being compressed, so a file that is too long on the disk needs no reading.
    size = source.size
    pieces: list[bytes] = []
    if size <= largest:
        size = 0
        with source.open() as stream:
            while size <= largest and (piece := stream.read(_PIECE)):
                pieces.append(piece)
                size += len(piece)
    if size > largest:
        raise BadInput(
            source.name,
            f"holds more than {largest >> 20:,} MiB, where a file of this kind is far smaller; nothing of it was read",
            "Check that it is what its name says, or take it out of the run",
        )
    return b"".join(pieces)


def whole_text(source: Source) -> str:
    """The same as text, whatever the bytes. Raises BadInput beyond LARGEST."""
    return decode(whole_bytes(source, LARGEST))
