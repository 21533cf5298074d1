"""Columns of one length in one file, written and read back without a data-frame library (whose import alone takes
longer than reading a million rows).

Layout: MAGIC, zstd frames (one a column and block of ``BLOCK`` rows, with a checksum), one more frame
that is the footer (JSON: the frames' sizes), its length in eight bytes, MAGIC again. Numbers are little-endian.
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
# Rows that are compressed at once: bounds the memory that writing needs beside the columns.
BLOCK: Final = 1 << 20
_OPTIONS: Final[dict[int, int]] = {
    zstd.CompressionParameter.compression_level: 1,
    zstd.CompressionParameter.checksum_flag: 1,
}


class _Column(msgspec.Struct, frozen=True):
    """A column's numpy type and the sizes of its frames in bytes."""

    name: str
    dtype: str
    frames: tuple[int, ...]


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
            sizes = []
            for at in range(0, rows, BLOCK):
                block = np.ascontiguousarray(column[at : at + BLOCK].astype(dtype, copy=False))
                sizes.append(out.write(zstd.compress(block.data, options=_OPTIONS)))
                let_go(column)
            described.append(_Column(name, dtype.str, tuple(sizes)))
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
    whole = GrowingColumn(column.dtype)
    for frame in column.frames:
        whole.append(np.frombuffer(zstd.decompress(file.read(frame)), column.dtype))
    if len(whole) != rows:
        raise ValueError(f"{len(whole)} rows of {rows}")
    return whole.done()
