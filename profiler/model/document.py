"""What several documents name: an interval, the engine of a run, a problem of one of its files."""

from __future__ import annotations

import msgspec

Interval = tuple[float, float]


class EngineRef(msgspec.Struct, frozen=True, kw_only=True):
    """The engine of a run and where that was read; name None where nothing in the run says."""

    name: str | None
    version: str | None
    source: str


class DocumentProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem of an input file, as the reader reported it."""

    run: str
    file: str
    severity: str
    detail: str
    place: str | None = None
    count: int = 1
