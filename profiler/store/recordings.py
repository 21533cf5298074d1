"""Several recordings in one folder: repeats of one run where their settings are the same, else runs of their own.

A recording is a folder with a ``run.json``. What such a file states of the engine, the model, the hardware and the
settings must agree with what the first recording's files say of them: the facts of a run are merged, so that a repeat
with another flag would be read as one without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.run import FileRecord, Reading

MANIFEST: Final = "run.json"
_SAME: Final = ("engine.name", "engine.version", "model.name", "hardware.gpu", "hardware.count")
_SETTING: Final = "setting."


def of_one_run(records: Sequence[FileRecord], readings: Sequence[Reading]) -> tuple[list[FileRecord], list[Reading]]:
    """The files and what they say, in their order, without the readings of recordings that state other settings than
    the first one; why these were left out is a problem of their ``run.json``."""
    homes = sorted({PurePosixPath(one.path).parent for one in records if PurePosixPath(one.path).name == MANIFEST})
    if len(homes) < 2:
        return list(records), list(readings)
    home_of = [_nearest(PurePosixPath(one.path), homes) for one in records]
    stated = {
        home: merged([reading for reading, at in zip(readings, home_of, strict=True) if at == home]) for home in homes
    }
    first, *others = homes
    whys = {home: _differs(stated[first], stated[home]) for home in others}
    kept_records, kept = list(records), list(readings)
    for row, (record, home) in enumerate(zip(records, home_of, strict=True)):
        why = None if home is None else whys.get(home)
        if why is None:
            continue
        told: tuple[Problem, ...] = ()
        if PurePosixPath(record.path).name == MANIFEST:
            told = (Problem(record.path, "error", f"{why}. The folder was left out: it is a run of its own"),)
        kept_records[row], kept[row] = replace(record, read=False, problems=(*record.problems, *told)), Reading()
    return kept_records, kept


def merged(readings: Sequence[Reading]) -> Mapping[str, Fact[object]]:
    """All facts; what was stated wins over what was inferred, and the earlier file wins among equals."""
    facts: dict[str, Fact[object]] = {}
    for reading in readings:
        for key, fact in reading.facts.items():
            known = facts.get(key)
            if known is None or (known.inferred and not fact.inferred):
                facts[key] = fact
    return facts


def _nearest(path: PurePosixPath, homes: Sequence[PurePosixPath]) -> PurePosixPath | None:
    """The recording that a file belongs to; None for a file beside them."""
    return next((folder for folder in path.parents if folder in homes), None)


def _differs(first: Mapping[str, Fact[object]], other: Mapping[str, Fact[object]]) -> str | None:
    """The first thing that one of two manifests states and the other recording has otherwise."""
    for key in sorted(first.keys() & other.keys()):
        a, b = first[key], other[key]
        told = any(MANIFEST in fact.source for fact in (a, b))
        if told and (key in _SAME or key.startswith(_SETTING)) and a.value != b.value:
            return f"{key} is {b.value!s:.80} here ({b.source}) and {a.value!s:.80} in {a.source}"
    return None
