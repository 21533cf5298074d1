"""Rows of a tool that lists events one by one -> one trace: names interned, times checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from profiler.model.problem import Problem
from profiler.model.requests import Ints
from profiler.model.trace import NO_ID, DeviceInfo, EventTable, Kind, Trace

LONGEST_NS: Final = 7 * 86_400 * 1_000_000_000


@dataclass
class TraceRows:
    """Collects rows of one process. Times are ns of whatever clock the tool uses."""

    path: str
    names: dict[str, int] = field(default_factory=dict[str, int])
    threads: dict[str, int] = field(default_factory=lambda: {"": 0})
    problems: list[Problem] = field(default_factory=list[Problem])
    _parts: list[EventTable] = field(default_factory=list[EventTable])

    def add(
        self,
        kind: Kind,
        names: Sequence[str],
        start: Ints,
        end: Ints,
        correlation: Ints | None = None,
        device: Ints | None = None,
        stream: Ints | None = None,
        thread: Sequence[str] | None = None,
        what: str = "rows",
        size: Ints | None = None,
    ) -> None:
        """Append rows; those whose times can't be true are left out and counted."""
        n = len(names)
        none = np.full(n, NO_ID, np.int64)
        sound = (end >= start) & (np.abs(start) < 2**61) & (np.abs(end) < 2**61) & ~((start == 0) & (end == 0))
        sound &= np.where(sound, end - start, 0) < LONGEST_NS
        left_out = int((~sound).sum())
        if left_out:
            detail = f"{left_out:,} {what} have no time stamps that can be true and were left out"
            self.problems.append(Problem(self.path, "warning", detail, count=left_out))
        table = EventTable(
            kind=np.full(n, kind, np.uint8),
            name=np.array([self.names.setdefault(name, len(self.names)) for name in names], np.int32),
            start=start,
            duration=np.where(sound, end - start, 0),
            process=np.zeros(n, np.int32),
            thread=np.array([self.threads.setdefault(t, len(self.threads)) for t in thread or [""] * n], np.int32),
            correlation=none if correlation is None else correlation,
            device=(none if device is None else device).astype(np.int32),
            stream=(none if stream is None else stream).astype(np.int32),
            size=none if size is None else size,
            graph_node=none,
        )
        self._parts.append(table.select(sound))

    def trace(self, process: str, rank: int | None, devices: Sequence[DeviceInfo] = ()) -> Trace:
        """The trace of what was added; an empty one where nothing was."""
        if not self._parts:
            empty = np.zeros(0, np.int64)
            self.add(Kind.KERNEL, [], empty, empty)
        fields = EventTable.__dataclass_fields__
        return Trace(
            path=self.path,
            events=EventTable(**{f: np.concatenate([getattr(part, f) for part in self._parts]) for f in fields}),
            names=tuple(self.names),
            processes=(process,),
            threads=tuple(self.threads),
            rank=rank,
            devices=tuple(devices),
        )
