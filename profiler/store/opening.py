"""Opening a run: every file is recognised by its content, read once, and what it says is merged."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from profiler.errors import BadInput
from profiler.model.extension import Engine
from profiler.model.problem import Problem
from profiler.model.run import FileRecord, Reading, Run
from profiler.store.cache import Cache, kept_events
from profiler.store.folder import files_of, run_root
from profiler.store.formats import Formats, Remembered
from profiler.store.loads import one_a_load
from profiler.store.ranks import rank_problems
from profiler.store.recordings import merged, of_one_run
from profiler.store.scrapes import of_one_process
from profiler.store.side_by_side import side_by_side
from profiler.store.source import FileSource
from profiler.store.workers import by_worker, differences, together

# Bytes on disk: reading a smaller file again is quicker than opening its table. A compressed trace of this size holds
# some thousands of events.
CACHED_FROM: Final = 1 << 18

Relabel = Callable[[Reading, Sequence[Engine]], Reading]
Clean = Callable[[Reading], Reading]


def open_run(
    path: Path,
    formats: Formats,
    engines: Sequence[Engine],
    relabel: Relabel,
    clean: Clean,
    progress: Callable[[str], None] | None = None,
) -> Run:
    """Read everything under ``path`` (a folder, or one file).

    ``relabel`` restores what is not kept in a cached table (an engine's reading of the names); ``clean`` takes out what
    must be neither kept nor shown. ``progress`` is called with each file's name before it is read. Raises UsageError
    where ``path`` does not exist; a file that can't be read becomes a problem of the run.
    """
    root = run_root(path)
    cache = Cache(root)
    remembered = Remembered(cache, path, formats)
    reader = _Reader(formats, engines, relabel, clean, cache, remembered, [])
    problems: list[Problem] = []
    records: list[FileRecord] = []
    readings: list[Reading] = []
    for file in files_of(path, problems):
        name = str(file.relative_to(root))
        if progress is not None:
            progress(name)
        record, reading = reader.read(file, name)
        records.append(record)
        readings.append(reading)
    large = any(record.bytes >= CACHED_FROM for record in records)
    if large:
        # Only where something is kept anyway: a small run is left as it is.
        remembered.save()
    records, readings = of_one_run(records, readings)
    found = tuple(p for record in records for p in record.problems)
    traces = tuple(t for r in readings for t in r.traces)
    benches, joined = one_a_load([b for r in readings for b in r.benches])
    every = sorted((s for r in readings for s in r.snapshots), key=lambda s: (s.order, s.path))
    snapshots, balanced = of_one_process(every)
    workers = by_worker(snapshots)
    return Run(
        name=path.resolve().name,
        path=str(path),
        files=tuple(records),
        facts=merged(readings),
        traces=traces,
        benches=benches,
        snapshots=together(snapshots),
        logs=tuple(x for r in readings for x in r.logs),
        counters=tuple(c for r in readings for c in r.counters),
        stacks=tuple(s for r in readings for s in r.stacks),
        totals=tuple(t for r in readings for t in r.totals),
        components=tuple(sorted((c for r in readings for c in r.components), key=lambda c: (c.order, c.path))),
        workers=workers if len(workers) > 1 else {},
        problems=(*problems, *found, *joined, *rank_problems(traces), *balanced, *differences(workers)),
        state=_state(reader.states) if large else None,
    )


def side_by_side_runs(paths: Sequence[Path], opened: Callable[[Path], Run]) -> list[Run]:
    """Every run as ``opened`` gives it, read side by side."""
    return [sent.run for sent in side_by_side(lambda path: Sent(opened(path)), paths)]


@dataclass(frozen=True)
class Sent:
    """A run on its way from the process that read it: a trace that is kept leaves its columns where they are."""

    run: Run

    def __reduce__(self) -> tuple[Callable[[Run], Sent], tuple[Run]]:
        left = tuple(t if t.kept is None else replace(t, events=t.events.select(slice(0, 0))) for t in self.run.traces)
        return _arrived, (replace(self.run, traces=left),)


def _arrived(run: Run) -> Sent:
    traces = tuple(t if t.kept is None else replace(t, events=kept_events(t.kept)) for t in run.traces)
    return Sent(replace(run, traces=traces))


@dataclass(frozen=True)
class _Reader:
    """What reading one file of a run takes; see ``open_run``."""

    formats: Formats
    engines: Sequence[Engine]
    relabel: Relabel
    clean: Clean
    cache: Cache
    remembered: Remembered
    states: list[str | None]

    def read(self, file: Path, name: str) -> tuple[FileRecord, Reading]:
        """The file's record and what it says; raises nothing that is the file's fault."""
        size = 0
        try:
            source = FileSource(file, name)
            size = source.size
            identity = self.remembered.identity(file, name)
            self.states.append(identity)
            taken = self.remembered.of(identity)
            if not size:
                problem = _empty(name)
                kind = "unreadable" if problem.severity == "error" else "unknown"
                return FileRecord(name, kind, 0, False, (problem,)), Reading()
            if taken is None:
                taken = self.formats.surest(source.head(), name)
                if taken is None:
                    detail = "the kind of this file was not recognised; it was left out"
                    return FileRecord(name, "unknown", size, False, (Problem(name, "info", detail),)), Reading()
                self.remembered.keep(identity, taken)
            kept = self.cache.load(file, taken.name, taken.version) if size >= CACHED_FROM else None
            if kept is not None:
                reading = self.relabel(kept, self.engines)
            else:
                reading = self.clean(self.formats.at(taken).read(source, self.engines))
                if size >= CACHED_FROM:
                    reading = self.cache.store(file, taken.name, taken.version, reading)
        except BadInput as error:
            problem = Problem(name, "error", f"{error.reason}. {error.advice}", error.place)
            (problem,) = self.clean(Reading(problems=(problem,))).problems
            return FileRecord(name, "unreadable", size, False, (problem,)), Reading()
        except OSError as error:
            problem = Problem(name, "error", f"could not be opened: {error.strerror}")
            return FileRecord(name, "unreadable", size, False, (problem,)), Reading()
        parts = (reading.traces, reading.benches, reading.snapshots, reading.logs, reading.counters)
        used = any(parts) or bool(reading.stacks or reading.totals or reading.components or reading.facts)
        return FileRecord(name, taken.name, size, used, reading.problems), reading


# What is of one of these forms holds something even where it says nothing.
_NEVER_EMPTY: Final = (".json", ".gz", ".zst", ".sqlite", ".db", ".parquet", ".nsys-rep", ".pftrace")


def _empty(name: str) -> Problem:
    """A log that says nothing may be whole; what must hold something was never written to its end."""
    if name.endswith(_NEVER_EMPTY):
        return Problem(
            name, "error", "the file is empty. It was never written, or not to its end: copy or record it again"
        )
    return Problem(name, "info", "the file is empty")


def _state(states: Sequence[str | None]) -> str | None:
    told = [state for state in states if state is not None]
    return hashlib.sha256("|".join(told).encode()).hexdigest() if len(told) == len(states) else None
