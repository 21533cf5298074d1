"""``memray transform csv``: every place that allocated, as stacks in bytes.

Columns: allocator, number of allocations, bytes, thread id, its name, and the stack as ``function;file;line`` joined by
``|``, innermost first. What the sizes are (held at the peak, leaked, temporary) the options of the command decide and
the file does not say; the default is the peak.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Final

from profiler.collectors.host.stack_rows import StackRows, frame_text
from profiler.collectors.json_text import count, decode
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.run import Reading

HEADER: Final = ("allocator", "num_allocations", "size", "tid", "thread_name", "stack_trace")


class MemrayCsv:
    """See ``profiler.model.extension.Format``."""

    name = "memray_csv"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By its headings."""
        return 0.95 if head.startswith(",".join(HEADER).encode()) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One table in bytes. Raises BadInput where the headings are others."""
        with source.open() as stream:
            text = decode(stream.read())
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", f"{source.broken}; later rows are missing"))
        lines = csv.reader(io.StringIO(text.replace("\0", "")))
        rows = StackRows(source.name, "memray", "bytes")
        bad = 0
        try:
            if tuple(next(lines, ())) != HEADER:
                raise BadInput(source.name, "not memray's table", "Write it again: memray transform csv FILE.bin")
            for cells in lines:
                size = count(cells[2]) if len(cells) == len(HEADER) else None
                frames = [_frame(one) for one in reversed(cells[5].split("|"))] if size is not None else []
                if size is None or size < 0 or None in frames:
                    bad += bool(cells)
                    continue
                rows.add([frame for frame in frames if frame], float(size), thread=f"{cells[3]} {cells[4]}".strip())
        except csv.Error:
            bad += 1
        if bad:
            detail = "a row breaks off or has no size and was left out"
            problems.append(Problem(source.name, "warning", detail, count=bad))
        if not len(rows):
            problems.append(Problem(source.name, "info", "no allocation is listed"))
        return Reading(stacks=(rows.table(),) if len(rows) else (), problems=tuple(problems))


def _frame(text: str) -> str | None:
    """A frame's text, empty where the stack is, None where it breaks off."""
    name, _, rest = text.partition(";")
    file, _, line = rest.rpartition(";")
    if not text:
        return ""
    return frame_text(name, file, int(line)) if line.isdecimal() and len(line) < 10 else None


FORMAT: Final = MemrayCsv()
