"""Columns that grow while a file is read: in memory up to a bound, in a file without a name beyond it.

A column that has gone to a file comes back as a read-only mapping of it, so that reading takes the same memory whatever
the size. The file is unlinked from the start: it is gone with the last array, however the program ends.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from profiler.errors import BadInput
from profiler.model.trace import EventTable

# Rows of a table that are held in memory: 61 bytes each for events.
MOST_ROWS: Final = 1 << 21
# Rows that a column in memory has room for at first.
GROWTH: Final = 1 << 18
# Rows that are looked at together where a whole column need not be in memory.
BLOCK: Final = 1 << 20


class GrowingColumn:
    """One column, appended to at its end. ``expected`` is how many rows there will be, where that is known."""

    def __init__(self, dtype: DTypeLike, expected: int = 0) -> None:
        self._memory: NDArray[Any] = np.empty(expected if expected <= MOST_ROWS else 0, dtype)
        self._file: IO[bytes] | None = None
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def append(self, part: NDArray[Any]) -> None:
        """Copy values to the end. Raises BadInput where the disk has no room for them."""
        first, self._rows = self._rows, self._rows + len(part)
        if self._file is None and self._rows <= MOST_ROWS:
            if len(self._memory) < self._rows:
                self._make_room(first)
            self._memory[first : self._rows] = part
            return
        try:
            if self._file is None:
                self._file = _unnamed()
                self._file.write(self._memory[:first].data)
                self._memory = np.empty(0, self._memory.dtype)
            self._file.write(np.ascontiguousarray(part, self._memory.dtype).data)
        except OSError as error:
            raise _no_room(error) from error

    def _make_room(self, used: int) -> None:
        """Room for a small table, then at once for the most rows that are held: what is not written takes no memory,
        and the system gives large arrays out in large pages, in half the time."""
        larger = np.empty(GROWTH if self._rows <= GROWTH else MOST_ROWS, self._memory.dtype)
        larger[:used] = self._memory[:used]
        self._memory = larger

    def done(self) -> NDArray[Any]:
        """The whole column, read-only; nothing can be appended afterwards."""
        if self._file is None:
            self._memory.resize(self._rows, refcheck=False)
            self._memory.flags.writeable = False
            return self._memory
        try:
            self._file.flush()
            mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise _no_room(error) from error
        self._file.close()
        return np.frombuffer(mapped, self._memory.dtype)


class GrowingEvents:
    """An event table, appended to at its end."""

    def __init__(self) -> None:
        self._columns: dict[str, GrowingColumn] = {}

    def append(self, table: EventTable, rows: NDArray[np.bool_] | None = None) -> None:
        """Copy a table's rows to the end: all, or those that ``rows`` marks. Raises BadInput like a column."""
        for field in fields(EventTable):
            part = getattr(table, field.name)
            column = self._columns.get(field.name)
            if column is None:
                column = self._columns[field.name] = GrowingColumn(part.dtype)
            column.append(part if rows is None else part[rows])

    def __len__(self) -> int:
        """Rows so far."""
        return len(next(iter(self._columns.values()), ()))

    def __bool__(self) -> bool:
        """Whether anything was appended, be it a table without rows."""
        return bool(self._columns)

    def table(self) -> EventTable:
        """All events in the order in which they came; nothing can be appended afterwards."""
        return EventTable(**{name: column.done() for name, column in self._columns.items()})


def in_blocks(events: EventTable) -> Iterator[EventTable]:
    """The events as views of at most BLOCK rows. What a block brought into memory from a file is let go behind it."""
    for at in range(0, len(events), BLOCK):
        yield events.select(slice(at, at + BLOCK))
        for field in fields(EventTable):
            let_go(getattr(events, field.name))


def let_go(column: NDArray[Any]) -> None:
    """Take a mapped column's pages out of this process's memory; they come back from the file when they are wanted."""
    base: object = column
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    if isinstance(base, mmap.mmap):
        base.madvise(mmap.MADV_DONTNEED)


def _unnamed() -> IO[bytes]:
    # Not above: its import takes as long as reading a hundred thousand rows of a kept trace, which needs no file.
    import tempfile

    return tempfile.TemporaryFile(dir=_place())


def _place() -> Path:
    """A folder on a disk: /tmp is memory on many machines, /var/tmp is not."""
    import tempfile

    lasting = Path("/var/tmp")
    chosen = "TMPDIR" not in os.environ and os.access(lasting, os.W_OK)
    return lasting if chosen else Path(tempfile.gettempdir())


def _no_room(error: OSError) -> BadInput:
    advice = "Make room there, or set TMPDIR to a folder on a disk that has it"
    return BadInput(str(_place()), f"its events could not be kept in {_place()}: {error.strerror}", advice)
