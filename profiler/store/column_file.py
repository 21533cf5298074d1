"""Columns of one length in one file, written and read back without a data-frame library (whose import alone takes
longer than reading a million rows).

Layout: MAGIC, zstd frames (one a column and block of ``BLOCK`` rows, with a checksum), one more frame
that is the footer (JSON: what each frame is), its length in eight bytes, MAGIC again. Numbers are little-endian. A
block is written in the narrowest type that holds it, 64-bit numbers as they are or as the steps from one row to the
next: the time of unpacking follows the bytes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from profiler.store.growing import GrowingColumn, let_go

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAGIC: Final = b"\x89columns\n"
# Rows that are compressed at once: so few that a block stays in the processor's cache while it is unpacked and placed,
# and that its memory is used again, which takes half the time of larger ones.
BLOCK: Final = 1 << 16
_NARROWER: Final = ("<i1", "<i2", "<i4")
_OPTIONS: Final[dict[int, int]] = {
    zstd.CompressionParameter.compression_level: 1,
    zstd.CompressionParameter.checksum_flag: 1,
}


class _Frame(msgspec.Struct, frozen=True, array_like=True):
    """One block: its size in bytes and numpy type; with ``first`` it holds the steps behind this first value."""

    size: int
    dtype: str
    first: int | None = None


class _Column(msgspec.Struct, frozen=True):
    """A column's numpy type and its frames."""

    name: str
    dtype: str
    frames: tuple[_Frame, ...]


class _Footer(msgspec.Struct, frozen=True):
    rows: int
    columns: tuple[_Column, ...]


class DamagedColumns(Exception):
    """The file is no whole column file."""


def write_columns(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write the columns, which are of one length and hold integers. Raises OSError."""
    rows = len(next(iter(columns.values())))
    described = []
    with path.open("wb") as out:
        out.write(MAGIC)
        for name, column in columns.items():
            dtype = column.dtype.newbyteorder("<")
            frames = []
            for at in range(0, rows, BLOCK):
                block, first = _narrowed(column[at : at + BLOCK].astype(dtype, copy=False))
                size = out.write(zstd.compress(np.ascontiguousarray(block).data, options=_OPTIONS))
                frames.append(_Frame(size, block.dtype.str, first))
                let_go(column)
            described.append(_Column(name, dtype.str, tuple(frames)))
        footer = zstd.compress(msgspec.json.encode(_Footer(rows, tuple(described))), options=_OPTIONS)
        out.write(footer + len(footer).to_bytes(8, "little") + MAGIC)


def read_columns(path: Path) -> dict[str, NDArray[Any]]:
    """The columns of a file that ``write_columns`` wrote. Raises DamagedColumns or OSError."""
    ending = 8 + len(MAGIC)
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - ending, 0))
        end = file.read()
        start = size - ending - int.from_bytes(end[:8], "little")
        file.seek(0)
        if file.read(len(MAGIC)) != MAGIC or not end.endswith(MAGIC) or start < len(MAGIC):
            raise DamagedColumns(str(path))
        file.seek(start)
        try:
            footer = msgspec.json.decode(zstd.decompress(file.read(size - ending - start)), type=_Footer)
            file.seek(len(MAGIC))
            return {column.name: _values(file, footer.rows, column) for column in footer.columns}
        except (msgspec.MsgspecError, zstd.ZstdError, ValueError, TypeError) as error:
            raise DamagedColumns(str(path)) from error


def _values(file: BinaryIO, rows: int, column: _Column) -> NDArray[Any]:
    whole = GrowingColumn(column.dtype, rows)
    for frame in column.frames:
        block = np.frombuffer(zstd.decompress(file.read(frame.size)), frame.dtype)
        whole.append(block if frame.first is None else np.cumsum(block, dtype=np.int64) + frame.first)
    if len(whole) != rows:
        raise ValueError(f"{len(whole)} rows of {rows}")
    return whole.done()


def _narrowed(block: NDArray[Any]) -> tuple[NDArray[Any], int | None]:
    """A block as it is written, and the value that its steps begin from, None where it holds the values themselves."""
    values = _narrowest(block)
    if block.dtype != np.dtype("<i8") or values.itemsize <= 2:
        return block.astype(values), None
    # Differences that wrap around are undone by sums that do.
    steps = np.diff(block, prepend=block[:1])
    between = _narrowest(steps)
    if between.itemsize < values.itemsize:
        return steps.astype(between), int(block[0])
    return block.astype(values), None


def _narrowest(numbers: NDArray[Any]) -> np.dtype[Any]:
    """The smallest type that holds them."""
    low, high = numbers.min(), numbers.max()
    fitting = (kind for kind in _NARROWER if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    narrow = np.dtype(next(fitting, numbers.dtype))
    return narrow if narrow.itemsize < numbers.dtype.itemsize else numbers.dtype
