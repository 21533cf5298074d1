"""Texts of a Parquet file as the bytes that they are, where they are no UTF-8 and polars refuses the column for it.

A copy of the file is made whose schema calls every text BSON, which polars gives as bytes. Both names of the type, the
old ``converted_type`` and the newer ``logicalType``, are a byte each in the file's footer (Thrift's compact protocol;
https://github.com/apache/parquet-format, parquet.thrift), so nothing moves.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import polars as pl

_MAGIC: Final = b"PAR1"
# Arrow's own copy of the schema would say text once more.
_ARROW: Final = (b"ARROW:schema", b"ARROW-schema")
# Thrift's types.
_TRUE, _FALSE, _BYTE, _SHORT, _INT, _LONG, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
# Fields of FileMetaData, SchemaElement and LogicalType; values of ConvertedType.
_SCHEMA, _CONVERTED, _LOGICAL, _STRING, _BSON = 2, 6, 10, 1, 13
_UTF8, _CONVERTED_BSON = 0, 20
_DEEPEST: Final = 16


def column_bytes(path: Path, column: str) -> pl.Series:
    """The column, a text by its schema, as bytes. Raises ValueError where there is no footer, and what polars does."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "table.parquet"
        shutil.copyfile(path, copy)
        with copy.open("r+b") as file:
            _retype(file)
        return pl.read_parquet(copy, columns=[column])[column].cast(pl.Binary)


def _retype(file: BinaryIO) -> None:
    """Call every text BSON in the footer of an open file."""
    end = file.seek(-8, 2)
    size = int.from_bytes(file.read(4), "little")
    if file.read(4) != _MAGIC or not 0 < size <= end:
        raise ValueError("the file does not end as a Parquet file does")
    file.seek(end - size)
    footer = bytearray(file.read(size))
    try:
        for at, value in list(_texts(_Thrift(footer))):
            footer[at] = value
    except IndexError as error:
        raise ValueError("the Parquet footer breaks off") from error
    file.seek(end - size)
    file.write(footer.replace(*_ARROW))


def _texts(footer: _Thrift) -> Iterator[tuple[int, int]]:
    """(place, new byte) of what calls a column a text."""
    for field, kind in footer.fields():
        if (field, kind) != (_SCHEMA, _LIST):
            footer.skip(kind)
            continue
        for element in footer.elements():
            for name, of in footer.fields() if element == _STRUCT else ():
                if (name, of) == (_CONVERTED, _INT):
                    at = footer.at
                    if footer.integer() == _UTF8:
                        yield at, _CONVERTED_BSON << 1
                elif (name, of) == (_LOGICAL, _STRUCT):
                    for meaning, content in footer.fields():
                        at, header = footer.at - 1, footer.data[footer.at - 1]
                        if (meaning, content) == (_STRING, _STRUCT):
                            # The number of the field stands in the upper half of its head, or behind it.
                            yield at, _BSON << 4 | _STRUCT if header & 0xF0 else _BSON << 1
                        footer.skip(content)
                else:
                    footer.skip(of)


class _Thrift:
    """A place in compact Thrift. Raises IndexError beyond the end, ValueError where it is nested too deeply."""

    def __init__(self, data: bytearray) -> None:
        self.data, self.at, self._depth = data, 0, 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """(number, type) of a structure's fields; each has to be read before the next."""
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self.integer()
            yield number, head & 0x0F

    def elements(self) -> Iterator[int]:
        """The type of each element of a list; each has to be read before the next."""
        head = self._byte()
        count = head >> 4 if head >> 4 < 0x0F else self._varint()
        for _ in range(count):
            yield head & 0x0F

    def integer(self) -> int:
        """A number of 16 to 64 bits."""
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def skip(self, kind: int) -> None:
        """Go past a field's value."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("the Parquet footer is nested too deeply")
        if kind in (_SHORT, _INT, _LONG):
            self._varint()
        elif kind == _BYTE:
            self.at += 1
        elif kind == _DOUBLE:
            self.at += 8
        elif kind == _BINARY:
            size = self._varint()
            self.at += size
        elif kind in (_LIST, _SET):
            for element in self.elements():
                self._skip_element(element)
        elif kind == _MAP:
            count = self._varint()
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._skip_element(kinds >> 4)
                self._skip_element(kinds & 0x0F)
        elif kind == _STRUCT:
            for _, field in self.fields():
                self.skip(field)
        elif kind not in (_TRUE, _FALSE):
            raise ValueError("the Parquet footer holds a type that does not exist")
        self._depth -= 1

    def _skip_element(self, kind: int) -> None:
        # A field's truth is its type; an element's is a byte.
        self.skip(_BYTE if kind in (_TRUE, _FALSE) else kind)

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _byte(self) -> int:
        byte = self.data[self.at]
        self.at += 1
        return byte
