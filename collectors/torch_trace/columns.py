"""Typed events -> columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profiler.collectors.torch_trace.decode import Damage, Event, Number, Times
from profiler.collectors.torch_trace.messages import Stated, is_message, message_of
from profiler.collectors.torch_trace.scan import Scanned
from profiler.model.requests import Ints
from profiler.model.trace import NO_ID, EventTable, Kind
from profiler.store.growing import GrowingEvents

# Kineto's categories, old spellings included; what is missing ends in _runtime or _driver, or is OTHER.
CATEGORIES: Final = {
    "kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.MEMCPY,
    "memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "memset": Kind.MEMSET,
    "cuda_runtime": Kind.LAUNCH,
    "cuda_driver": Kind.LAUNCH,
    "runtime": Kind.LAUNCH,
    "cpu_op": Kind.OPERATOR,
    "operator": Kind.OPERATOR,
    "user_annotation": Kind.ANNOTATION,
    "gpu_user_annotation": Kind.DEVICE_ANNOTATION,
    "python_function": Kind.PYTHON,
    "overhead": Kind.OVERHEAD,
}
ON_DEVICE: Final = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.DEVICE_ANNOTATION)
# A duration above a week is a corrupted timestamp (pytorch/kineto reports "236 years").
LONGEST_NS: Final = 7 * 86_400 * 1_000_000_000
# Timestamps above this many microseconds (2001) are absolute, even where the file states a base.
ABSOLUTE_US: Final = 1e15


class Columns:
    """Collects the events of one file chunk by chunk; strings are stored once."""

    def __init__(self, damage: Damage) -> None:
        self.damage = damage
        self.names: dict[str, int] = {}
        self.processes: dict[str, int] = {}
        self.threads: dict[tuple[str, str], int] = {}
        self.process_labels: dict[str, str] = {}
        self.thread_labels: dict[tuple[str, str], str] = {}
        self.phases: Counter[str] = Counter()
        self.messages = Stated()
        self._events = GrowingEvents()
        self._kinds: dict[str, int] = {}

    def add(self, events: Sequence[Event], times: Sequence[Times] | None, offset: int) -> None:
        """Append a chunk's events; ``offset`` is where the chunk starts, for problems."""
        self.phases.update(event.ph for event in events)
        for event in events:
            if event.ph == "M":
                self._metadata(event)
        keep = [i for i, event in enumerate(events) if event.ph == "X"]
        chosen = events if len(keep) == len(events) else [events[i] for i in keep]
        start, duration, bad = _times(chosen, None if times is None else [times[i] for i in keep])
        names, processes, threads = self.names, self.processes, self.threads
        args = [event.args for event in chosen]
        table = EventTable(
            kind=np.array([self._kind(event.cat) for event in chosen], np.uint8),
            name=np.array([names.setdefault(event.name, len(names)) for event in chosen], np.int32),
            start=start,
            duration=duration,
            process=np.array([processes.setdefault(str(e.pid), len(processes)) for e in chosen], np.int32),
            thread=np.array([threads.setdefault((str(e.pid), str(e.tid)), len(threads)) for e in chosen], np.int32),
            correlation=_ids([None if a is None else a.correlation for a in args], NO_ID),
            device=_ids([None if a is None else a.device for a in args], NO_ID).astype(np.int32),
            stream=_ids([None if a is None else a.stream for a in args], NO_ID).astype(np.int32),
            size=_ids([None if a is None else a.bytes for a in args], NO_ID),
            graph_node=_ids([None if a is None else a.graph_node for a in args], NO_ID),
        )
        rows = [i for i, event in enumerate(chosen) if is_message(event.name, event.args)]
        codes = np.arange(len(rows), dtype=np.int32)
        self._append(table, bad, offset, np.array(rows, np.int64), codes, [chosen[i] for i in rows])

    def add_scanned(self, chunk: Scanned, offset: int) -> None:
        """Append a chunk that the quick scanner has read; the same rows that ``add`` would make of its events."""
        self.phases.update(chunk.phases)
        for event in chunk.metadata:
            self._metadata(event)
        names = _codes(self.names, chunk.names)
        kinds = np.array([self._kind(category) for category in chunk.categories] or [0], np.uint8)
        processes = _codes(self.processes, chunk.processes)
        width = max(len(chunk.threads), 1)
        lanes, first, lane = np.unique(
            chunk.process.astype(np.int64) * width + chunk.thread, return_index=True, return_inverse=True
        )
        threads = np.zeros(len(lanes), np.int32)
        for i in np.argsort(first).tolist():
            key = (chunk.processes[lanes[i] // width], chunk.threads[lanes[i] % width])
            threads[i] = self.threads.setdefault(key, len(self.threads))
        table = EventTable(
            kind=kinds[chunk.category],
            name=names[chunk.name],
            start=chunk.start,
            duration=chunk.duration,
            process=processes[chunk.process],
            thread=threads[lane],
            correlation=chunk.correlation,
            device=chunk.device.astype(np.int32),
            stream=chunk.stream.astype(np.int32),
            size=chunk.size,
            graph_node=chunk.graph_node,
        )
        self._append(table, ~chunk.timed, offset, chunk.message_rows, chunk.message_codes, chunk.messages)

    def _append(
        self,
        table: EventTable,
        bad: NDArray[np.bool_],
        offset: int,
        rows: Ints,
        codes: NDArray[np.int32],
        stating: Sequence[Event],
    ) -> None:
        # Where a device event has no arguments its lane still says device and stream.
        on_device = np.isin(table.kind, np.array(ON_DEVICE, np.uint8))
        lanes = (
            (table.device, table.process, list(self.processes)),
            (table.stream, table.thread, [thread for _, thread in self.threads]),
        )
        for column, lane, titles in lanes:
            missing = np.flatnonzero(on_device & (column == NO_ID))
            if len(missing):
                column[missing] = _ids([titles[i] for i in lane[missing].tolist()], NO_ID)
        sound = self._sound(table, bad, offset)
        first = len(self._events)
        if len(rows):
            messages = [None if event.args is None else message_of(event.name, event.args) for event in stating]
            kept = sound[rows]
            self.messages.add(first + (np.cumsum(sound) - 1)[rows[kept]], codes[kept], messages)
        self._events.append(table, None if sound.all() else sound)

    def table(self) -> EventTable:
        """All events in file order, read-only; nothing can be added afterwards."""
        if not self._events:
            self.add([], None, 0)
        return self._events.table()

    def process_titles(self) -> tuple[str, ...]:
        """Each process's id with its name and labels, as the trace's metadata gives them."""
        return tuple(f"{pid} {self.process_labels.get(pid, '')}".strip() for pid in self.processes)

    def thread_titles(self) -> tuple[str, ...]:
        """Each thread's id with its name."""
        return tuple(f"{key[1]} {self.thread_labels.get(key, '')}".strip() for key in self.threads)

    def _kind(self, category: str) -> int:
        known = self._kinds.get(category)
        if known is None:
            lower = category.lower()
            runtime = lower.endswith(("_runtime", "_driver"))
            known = int(CATEGORIES.get(lower, Kind.LAUNCH if runtime else Kind.OTHER))
            self._kinds[category] = known
        return known

    def _metadata(self, event: Event) -> None:
        label = None if event.args is None else event.args.name if event.args.labels is None else event.args.labels
        if label is None:
            return
        if event.name in ("process_name", "process_labels"):
            known = self.process_labels.get(str(event.pid))
            self.process_labels[str(event.pid)] = f"{known} {label}" if known else str(label)
        elif event.name == "thread_name":
            self.thread_labels[(str(event.pid), str(event.tid))] = str(label)

    def _sound(self, table: EventTable, bad: NDArray[np.bool_], offset: int) -> NDArray[np.bool_]:
        """Which rows have times that can be true; the others are counted, and never set the start of the trace."""
        zero = ~bad & (table.start == 0) & (table.duration == 0) & (table.kind <= Kind.MEMSET)
        negative = ~bad & (table.duration < 0)
        long = table.duration > LONGEST_NS
        for kind, rows in (
            ("without a time", bad),
            ("negative duration", negative),
            ("zero time stamp", zero),
            ("duration above a week", long),
        ):
            self.damage.add(kind, offset, int(rows.sum()))
        sound: NDArray[np.bool_] = ~(bad | negative | zero | long)
        return sound


def _codes(known: dict[str, int], texts: Sequence[str]) -> NDArray[np.int32]:
    """The file-wide id of each of a chunk's strings, in the order in which they first occurred."""
    return np.array([known.setdefault(text, len(known)) for text in texts] or [0], np.int32)


def _times(events: Sequence[Event], exact: Sequence[Times] | None) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """(start ns, duration ns, which have no usable time). Doubles are exact below ``EXACT_MICROSECONDS``."""
    durations = [event.dur for event in events]
    missing = np.array([d is None for d in durations], bool)
    duration = np.array([0.0 if d is None else d for d in durations], np.float64)
    start = np.array([event.ts for event in events], np.float64)
    bad = missing | ~np.isfinite(duration) | ~np.isfinite(start) | (np.abs(start) > 9e15) | (np.abs(duration) > 9e15)
    start_ns = np.rint(np.where(bad, 0.0, start) * 1e3).astype(np.int64)
    duration_ns = np.rint(np.where(bad, 0.0, duration) * 1e3).astype(np.int64)
    if exact is not None:
        start_ns = np.where(bad, 0, np.array([_nanoseconds(bytes(t.ts)) for t in exact], np.int64))
    return start_ns, duration_ns, bad


def _nanoseconds(text: bytes) -> int:
    """Microseconds as written -> integer nanoseconds; 0 where it is no number or no time at all."""
    try:
        value = Decimal(text.strip(b'" ').decode("ascii", "replace"))
        nanoseconds = int(value.scaleb(3).to_integral_value(ROUND_HALF_EVEN))
    except (InvalidOperation, ValueError, OverflowError):
        return 0
    return nanoseconds if abs(nanoseconds) < 2**62 else 0


def _ids(values: Iterable[Number], missing: int) -> Ints:
    """Integer ids; strings of digits count, anything else is ``missing``."""
    row = list(values)
    try:
        return np.array([missing if v is None else v for v in row], np.int64)
    except (ValueError, TypeError, OverflowError):
        return np.array([_id(v, missing) for v in row], np.int64)


def _id(value: Number, missing: int) -> int:
    try:
        number = missing if value is None else int(value)
    except (ValueError, OverflowError):
        return missing
    return number if abs(number) < 2**62 else missing
