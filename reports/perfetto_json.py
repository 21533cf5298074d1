"""A timeline as Chrome trace JSON, which ui.perfetto.dev opens: runs side by side, aligned at a step's first kernel.

Each run has a process for its steps, its host threads, its device's streams, and the device's idle time with its
causes. Times are microseconds from the alignment; names from the traces are data.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from profiler.analyzers.layers import ROLES
from profiler.analyzers.typical import Excerpt
from profiler.analyzers.waits import waits
from profiler.model.counters import GpuCounters
from profiler.model.trace import NO_ID, EventTable, Kind
from profiler.reports.safe_text import plain

_HOST: Final = (Kind.ANNOTATION, Kind.OPERATOR, Kind.LAUNCH, Kind.PYTHON)
_CATEGORY: Final = {
    Kind.ANNOTATION: "annotation", Kind.OPERATOR: "operator", Kind.LAUNCH: "launch", Kind.PYTHON: "python",
}  # fmt: skip
Event = dict[str, Any]


@dataclass(frozen=True)
class Side:
    """One run of the timeline: a name, the excerpts of its devices, and its counters."""

    name: str
    excerpts: Sequence[Excerpt]
    counters: Sequence[GpuCounters] = ()


def to_perfetto(sides: Sequence[Side], python: bool) -> bytes:
    """The file, gzipped. ``python`` adds Python frames, which are most of a trace with stacks."""
    events: list[Event] = []
    for number, side in enumerate(sides):
        for index, part in enumerate(side.excerpts):
            base = 1000 * (number + 1) + 10 * index
            events += _excerpt(side.name, part, base, python)
            events += _counters(side, part, base)
    text = json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, separators=(",", ":"), allow_nan=False)
    return gzip.compress(text.encode("utf-8", "replace"), 6, mtime=0)


def _excerpt(name: str, part: Excerpt, base: int, python: bool) -> Iterator[Event]:
    view = part.view
    device = f"{name}: {view.device}"
    for offset, title in enumerate((f"{name}: steps", f"{name}: host", device, f"{device}, idle")):
        yield _title("process_name", base + offset, 0, title)
        yield {
            "ph": "M",
            "name": "process_sort_index",
            "pid": base + offset,
            "tid": 0,
            "args": {"sort_index": base + offset},
        }
    yield from _steps(part, base)
    yield from _host(part, base + 1, base + 2, python)
    yield from _device(part, base + 2)
    yield from _idle(part, base + 3)


def _steps(part: Excerpt, pid: int) -> Iterator[Event]:
    step = part.view.links.step[part.rows]
    for number in np.unique(step[step >= 0]).tolist():
        rows = part.rows[step == number]
        label = part.view.spans.labels[number]
        carried = {
            key: getattr(label, key) for key in label.__dataclass_fields__ if getattr(label, key) not in (None, False)
        }
        start, end = int(part.view.events.start[rows].min()), int(part.view.events.end[rows].max())
        yield _slice(f"{label.phase or 'step'} {number}", "step", pid, 1, start, end, part, carried)


def _host(part: Excerpt, pid: int, device_pid: int, python: bool) -> Iterator[Event]:
    trace = part.view.trace
    events = trace.events.of(*(_HOST if python else _HOST[:-1]))
    # What led to the first kernels was launched before them.
    calls = part.view.links.call[part.rows]
    launched = part.view.links.calls.start[calls[calls >= 0]] if len(part.view.links.calls) else np.zeros(0, np.int64)
    since = min(part.start, int(launched.min(initial=part.start)))
    events = events.select((events.end > since) & (events.start < part.end))
    events = events.select(np.lexsort((-events.duration, events.start)))
    for thread in np.unique(events.thread).tolist():
        title = trace.threads[thread] if 0 <= thread < len(trace.threads) else f"thread {thread}"
        yield _title("thread_name", pid, thread + 1, title)
    for row in _rows(events):
        kind, name, start, end, thread, correlation = row
        extra = {} if correlation == NO_ID else {"correlation": correlation}
        yield _slice(trace.names[name], _CATEGORY[Kind(kind)], pid, thread + 1, start, end, part, extra)
        if kind == Kind.LAUNCH and correlation != NO_ID:
            yield _flow("s", correlation, pid, thread + 1, start, part, device_pid)


def _device(part: Excerpt, pid: int) -> Iterator[Event]:
    view, events = part.view, part.view.events.select(part.rows)
    role, layer = view.layers.role[part.rows], view.layers.layer[part.rows]
    known = view.layers.found
    for stream in np.unique(events.stream).tolist():
        yield _title("thread_name", pid, stream + 2, f"stream {stream}")
    seen: set[int] = set()
    categories = [view.classes.categories[c] for c in view.classes.code[events.name].tolist()]
    rows = zip(_rows(events), events.stream.tolist(), role.tolist(), layer.tolist(), categories, strict=True)
    for (_, name, start, end, _, correlation), stream, what, at, category in rows:
        extra: Event = {"role": ROLES[what]} if known else {}
        extra |= {"layer": at} if at >= 0 else {}
        yield _slice(view.trace.names[name], category, pid, stream + 2, start, end, part, extra)
        # The kernels of a replay share one launch: its arrow leads to the first.
        if correlation != NO_ID and correlation not in seen:
            seen.add(correlation)
            yield _flow("f", correlation, pid, stream + 2, start, part, pid)


def _idle(part: Excerpt, pid: int) -> Iterator[Event]:
    """One slice a gap, named by its largest cause, all causes as arguments."""
    yield _title("thread_name", pid, 1, "why the device waited")
    for gap in waits(part.view, part.start, part.end):
        extra = {cause: f"{ns / 1e3:.3f} us" for cause, ns in gap.causes.items()}
        yield _slice(gap.largest, "idle", pid, 1, max(gap.start, part.start), gap.end, part, extra)


_TRACKS: Final = {"sm_clock": 1e-6, "power": 1.0, "utilisation": 100.0}


def _counters(side: Side, part: Excerpt, pid: int) -> Iterator[Event]:
    """Counters whose clock falls into the excerpt; none where the trace has no absolute time."""
    base = part.view.trace.base
    if not base:
        return
    for table in side.counters:
        at = (table.clock * 1e9 - base).astype(np.int64)
        for row in np.flatnonzero((at >= part.start) & (at <= part.end)).tolist():
            columns = {key: (getattr(table, key), scale) for key, scale in _TRACKS.items()}
            links = {f"{link}, MB/s": (values, 1e-6) for link, values in table.links.items()}
            for key, (values, scale) in (columns | links).items():
                value = float(values[row]) * scale
                if np.isfinite(value):
                    name = f"gpu {int(table.gpu[row])}: {key}"
                    ts = (int(at[row]) - part.origin) / 1e3
                    yield {"ph": "C", "name": name, "pid": pid, "tid": 0, "ts": ts, "args": {"value": value}}


def _rows(events: EventTable) -> Iterator[tuple[int, int, int, int, int, int]]:
    return zip(
        events.kind.tolist(), events.name.tolist(), events.start.tolist(), events.end.tolist(), events.thread.tolist(),
        events.correlation.tolist(), strict=True,
    )  # fmt: skip


def _slice(name: str, category: str, pid: int, tid: int, start: int, end: int, part: Excerpt, args: Event) -> Event:
    event: Event = {
        "ph": "X", "name": plain(name), "cat": category, "pid": pid, "tid": tid,
        "ts": (start - part.origin) / 1e3, "dur": (end - start) / 1e3,
    }  # fmt: skip
    return event | {"args": args} if args else event


def _flow(phase: str, correlation: int, pid: int, tid: int, at: int, part: Excerpt, group: int) -> Event:
    event: Event = {
        "ph": phase, "name": "launch", "cat": "launch", "id": group * 2**32 + correlation % 2**32, "pid": pid,
        "tid": tid, "ts": (at - part.origin) / 1e3,
    }  # fmt: skip
    return event | {"bp": "e"} if phase == "f" else event


def _title(kind: str, pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": plain(name)}}
