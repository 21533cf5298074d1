"""rocpd databases (the default output since ROCm 7): SQLite tables with a UUID in their names behind plain views.

Only views are read: ``kernels``, ``memory_copies`` and ``regions`` (API calls and markers). One file can hold several
processes; each becomes a trace. ``rocpd_info_process`` holds the environment and is never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from profiler.collectors.database import DAMAGED, MAGIC, Database, damage, opened
from profiler.collectors.rocprof.names import copy_name
from profiler.collectors.trace_labels import label
from profiler.collectors.trace_rows import TraceRows
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.run import Reading
from profiler.model.trace import Kind, Trace

_NUMBERS: Final = ("start", "end", "pid", "tid", "agent_abs_index", "stream_id", "queue_id", "corr_id")


class Rocpd:
    """The format; see ``profiler.model.extension.Format``."""

    name = "rocpd"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """A SQLite file whose schema names rocpd's tables."""
        return 0.99 if head.startswith(MAGIC) and b"rocpd_" in head else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """All processes with kernels or copies. Raises BadInput where the views are missing or damaged."""
        advice = "Write it again: rocprofv3 --kernel-trace --hip-trace --output-format rocpd"
        try:
            with opened(source) as database:
                if "kernels" not in database.views:
                    raise BadInput(source.name, "a SQLite file without rocpd's view 'kernels'", advice)
                return _read(database, source.name, engines)
        except DAMAGED as error:
            raise BadInput(source.name, f"the SQLite file is damaged: {damage(error)}", advice) from error


def _read(database: Database, name: str, engines: Sequence[Engine]) -> Reading:
    views = {view: database.integers(view, _NUMBERS) for view in ("kernels", "memory_copies", "regions")}
    names = {view: database.texts(view, "name") for view in views}
    categories = database.texts("regions", "category")
    traces: list[Trace] = []
    problems = []
    pids = np.unique(np.concatenate([views["kernels"]["pid"], views["memory_copies"]["pid"]]))
    for rank, pid in enumerate(pids.tolist()):
        assembly = TraceRows(name if len(pids) == 1 else f"{name} (pid {pid})")
        for view, kind in (("kernels", Kind.KERNEL), ("memory_copies", Kind.MEMCPY)):
            rows = views[view]
            chosen = np.flatnonzero(rows["pid"] == pid)
            titles = [names[view][i] for i in chosen.tolist()]
            if kind == Kind.MEMCPY:
                titles = [copy_name(t) for t in titles]
            stream = np.where(rows["stream_id"] >= 0, rows["stream_id"], rows["queue_id"])
            assembly.add(kind, titles, rows["start"][chosen], rows["end"][chosen], rows["corr_id"][chosen],
                         rows["agent_abs_index"][chosen], stream[chosen], None, view)  # fmt: skip
        rows = views["regions"]
        for marker in (False, True):
            mine = [i for i in np.flatnonzero(rows["pid"] == pid).tolist() if ("MARKER" in categories[i]) is marker]
            chosen = np.array(mine, np.int64)
            threads = [str(t) for t in rows["tid"][chosen].tolist()]
            assembly.add(Kind.ANNOTATION if marker else Kind.LAUNCH, [names["regions"][i] for i in mine],
                         rows["start"][chosen], rows["end"][chosen], None if marker else rows["corr_id"][chosen],
                         None, None, threads, "regions")  # fmt: skip
        problems += assembly.problems
        traces.append(label(assembly.trace(str(pid), rank if len(pids) > 1 else None), engines))
    return Reading(traces=tuple(traces), problems=tuple(problems))


FORMAT: Final = Rocpd()
