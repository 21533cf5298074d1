"""``memray stats --json``: the places that allocated most, as stacks of one frame, in bytes.

Only the largest places are listed; what the others allocated is one row without a frame, so the weights add up to the
file's total.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from profiler.collectors.host.stack_rows import StackRows, frame_text
from profiler.collectors.json_text import count, mapping, string
from profiler.collectors.load.document import object_of
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.run import Reading

_LOCATION: Final = re.compile(r"(.+?):(.+):(\d{1,9})")


class MemrayStats:
    """See ``profiler.model.extension.Format``."""

    name = "memray_stats"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By the two totals."""
        keys = (b'"total_num_allocations"', b'"total_bytes_allocated"')
        return 0.9 if head.lstrip()[:1] == b"{" and all(key in head for key in keys) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One table in bytes."""
        record, problems = object_of(source)
        total, listed = count(record.get("total_bytes_allocated")), record.get("top_allocations_by_size")
        if total is None:
            raise BadInput(source.name, "no total of allocated bytes", "Run memray stats --json again")
        rows = StackRows(source.name, "memray", "bytes")
        bad = told = 0
        for item in map(mapping, listed if isinstance(listed, list) else []):
            place, size = string(item.get("location")), count(item.get("size"))
            if place is None or size is None or size < 0:
                bad += 1
                continue
            match = _LOCATION.fullmatch(place)
            rows.add([frame_text(match[1], match[2], int(match[3])) if match else place], float(size))
            told += size
        if bad:
            problems.append(Problem(source.name, "warning", "a place has no size and was left out", count=bad))
        if total > told:
            rows.add([], float(total - told))
            detail = f"{total - told} of {total} bytes were allocated at places that the file does not list"
            problems.append(Problem(source.name, "info", detail))
        return Reading(stacks=(rows.table(),) if len(rows) else (), problems=tuple(problems))


FORMAT: Final = MemrayStats()
