"""Summaries of rocprof (``results.stats.csv``) and rocprofv3 (``…_kernel_stats.csv``): one row a name, times in ns.

The table itself does not say what it sums up: the names do (``hip…``, ``hsa…``, ``MEMORY_COPY_…``), then the file's
name. A summary of domains (``…_domain_stats.csv``) holds the sums of the other tables and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from profiler.collectors.call_totals import TotalRow, nanoseconds, totals_of
from profiler.collectors.rocprof.names import OLDER_COPY, copy_name, kernel_name
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.run import Reading
from profiler.model.totals import What

ADVICE: Final = "Write it again: rocprofv3 --stats --kernel-trace --output-format csv"
LARGEST: Final = 1 << 28
_HEADER: Final = re.compile(rb'\A(?:\xef\xbb\xbf)?"?Name"?,"?Calls"?,"?TotalDurationNs"?(?:,|\r?\n)')
_CALLS: Final = re.compile(r"(?:__)?hip[A-Z]\w*|hsa_\w+|roc(?:tx|decode|jpeg)\w+|nccl\w+")
_DOMAINS: Final = frozenset({"KERNEL_DISPATCH", "MEMORY_COPY", "MEMORY_ALLOCATION", "SCRATCH_MEMORY"})
_DOMAIN: Final = re.compile(r"(?:HIP|HSA|MARKER|RCCL|ROCDECODE|ROCJPEG)(?:_[A-Z]+)*_API(?:_EXT)?")


class RocprofStats:
    """The format; see ``profiler.model.extension.Format``."""

    name = "rocprof_stats"
    version = 2

    def sniff(self, head: bytes, name: str) -> float:
        """By the three headings that every version begins with."""
        return 0.95 if _HEADER.search(head) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One table of totals. Raises BadInput where the file is no table."""
        with source.open() as stream:
            text = stream.read(LARGEST)
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", f"{source.broken}; what came before was kept"))
        # polars takes long to load, and most runs hold no such file.
        from profiler.collectors.csv_table import read_table, texts

        frame = read_table(text, source, ADVICE)
        if not {"Name", "TotalDurationNs"} <= set(frame.columns):
            raise BadInput(source.name, "no table of rocprof's statistics", ADVICE)
        columns = (texts(frame, key) for key in ("Name", "Calls", "TotalDurationNs", "MinNs", "MaxNs"))
        rows: list[TotalRow] = []
        bad = domains = 0
        for name, calls, total, shortest, longest in zip(*columns, strict=True):
            known = nanoseconds(total)
            if known is None or not name:
                bad += 1
            elif name in _DOMAINS or _DOMAIN.fullmatch(name):
                domains += 1
            else:
                count = int(calls) if calls.isdecimal() and len(calls) < 19 else None
                rows.append(TotalRow(name, count, known, nanoseconds(shortest), nanoseconds(longest)))
        if bad:
            detail = "a row has no name or no total that can be true and was left out"
            problems.append(Problem(source.name, "warning", detail, count=bad))
        if domains:
            detail = "sums of whole domains, which the tables of each domain hold by name, were left out"
            problems.append(Problem(source.name, "info", detail, count=domains))
        if not rows:
            return Reading(problems=tuple(problems) or (Problem(source.name, "info", "a table without rows"),))
        what = _what([row.name for row in rows], source.name)
        plain = {"kernels": kernel_name, "copies": copy_name}.get(what, str)
        named = [TotalRow(plain(r.name), r.calls, r.total, r.shortest, r.longest) for r in rows]
        return Reading(totals=(totals_of(source.name, "rocprof", what, named),), problems=tuple(problems))


def _what(names: Sequence[str], path: str) -> What:
    """What most rows are."""
    if sum(bool(_CALLS.fullmatch(name)) for name in names) * 2 > len(names) or re.search(r"_api_stats", path):
        return "ranges" if "marker" in path else "calls"
    if all(name.startswith("MEMORY_COPY_") or OLDER_COPY.fullmatch(name) for name in names) or "copy_stats" in path:
        return "copies"
    return "kernels"


FORMAT: Final = RocprofStats()
