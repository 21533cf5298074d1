"""Flamegraphs as trees: sampled stacks, nested host ranges of a trace, device time by phase, layer, role and kernel."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from profiler.analyzers.device_view import CPU, views_of
from profiler.analyzers.layers import ROLES
from profiler.model.run import Run
from profiler.model.stacks import StackTable
from profiler.model.trace import Kind, Trace

Kinds = Literal["stacks", "host", "gpu"]
# Addresses and instance counters make two runs' equal frames differ.
_NUMBERS: Final = re.compile(r"0x[0-9a-fA-F]+|(?<=_)\d{4,}")
_HOST_KINDS: Final = (Kind.ANNOTATION, Kind.OPERATOR, Kind.PYTHON, Kind.LAUNCH)
_DEEPEST: Final = 200


@dataclass
class Frame:
    """One box: ``value`` holds the frame and all above it. ``other`` is the same of the run that it is compared to."""

    name: str
    value: float = 0.0
    other: float = 0.0
    children: dict[str, Frame] = field(default_factory=dict["str", "Frame"])

    def child(self, name: str) -> Frame:
        """The child of this name, made where there is none."""
        found = self.children.get(name)
        if found is None:
            found = self.children[name] = Frame(name)
        return found

    def walk(self) -> Iterable[tuple[int, Frame]]:
        """(depth, frame) of this frame and all above it, parents first, larger siblings first."""
        stack = [(0, self)]
        while stack:
            depth, frame = stack.pop()
            yield depth, frame
            below = sorted(frame.children.values(), key=lambda f: (max(f.value, f.other), f.name))
            stack += [(depth + 1, child) for child in below]


@dataclass(frozen=True)
class Flames:
    """A tree with its unit: "seconds", "samples" or "bytes"; ``kind`` says what it shows."""

    root: Frame
    unit: str
    kind: Kinds
    title: str


def flames_of(run: Run, kind: Kinds | None) -> Flames | None:
    """The run's flamegraph of a kind, or of the first kind that it has anything for: stacks, GPU, host ranges."""
    for wanted in (kind,) if kind is not None else ("stacks", "gpu", "host"):
        found = _of_stacks(run.stacks) if wanted == "stacks" else _of_traces(run.traces, wanted)
        if found is not None and found.root.value > 0:
            return found
    return None


def _of_stacks(tables: Sequence[StackTable]) -> Flames | None:
    """All tables of the first one's unit; processes and threads are the lowest frames where the tool names them."""
    if not tables:
        return None
    unit = tables[0].unit
    root = Frame("all")
    for table in tables:
        if table.unit != unit:
            continue
        names = [_plain(frame) for frame in table.frames]
        processes, threads = [_plain(p) for p in table.processes], [_plain(t) for t in table.threads]
        for row in range(len(table)):
            below = [processes[table.process[row]]] if table.process[row] >= 0 else []
            below += [threads[table.thread[row]]] if table.thread[row] >= 0 else []
            frames = [names[index] for index in table.stacks[table.stack[row]]]
            _add(root, [*below, *frames[:_DEEPEST]], float(table.weight[row]))
    return Flames(root, unit, "stacks", "host stacks")


def _of_traces(traces: Sequence[Trace], kind: Kinds) -> Flames | None:
    root = Frame("all")
    for trace in traces:
        if kind == "gpu":
            _device_time(root, trace)
        else:
            _host_ranges(root, trace)
    titles = {"gpu": "device time by phase, layer, role and kernel", "host": "host ranges of the trace"}
    return Flames(root, "seconds", kind, titles[kind]) if traces else None


def _device_time(root: Frame, trace: Trace) -> None:
    """A device's busy time: each instant is one kernel's, so the boxes add up to it."""
    for view in views_of(trace):
        if view.device == CPU:
            continue
        layers, events = view.layers, view.events
        step = view.links.step
        phases = [label.phase or "step" for label in view.spans.labels]
        layer = layers.layer if layers.found else np.full(len(events), -1, np.int32)
        role = layers.role if layers.found else np.zeros(len(events), np.uint8)
        key = np.stack([step >= 0, np.maximum(step, 0), layer, role, events.name]).astype(np.int64)
        # Steps of one phase are one box.
        phase_of = np.array([sorted(set(phases)).index(p) for p in phases] or [0], np.int64)
        key[1] = np.where(key[0] == 1, phase_of[np.minimum(key[1], len(phase_of) - 1)], -1)
        rows, position = np.unique(key, axis=1, return_inverse=True)
        seconds = np.bincount(position.ravel(), view.swept.share, minlength=rows.shape[1]) / 1e9
        named = sorted(set(phases)) or ["step"]
        for (inside, phase, at, what, name), value in zip(rows.T.tolist(), seconds.tolist(), strict=True):
            path = [view.device, named[phase] if inside else "outside the steps"]
            if at >= 0:
                path.append(f"layer {at}")
            if layers.found:
                path.append(ROLES[what])
            _add(root, [*path, _plain(trace.names[name])], value)


def _host_ranges(root: Frame, trace: Trace) -> None:
    """Ranges of each thread by nesting; a range that outlives the one it began in is cut at its end."""
    events = trace.events.of(*_HOST_KINDS)
    for thread in np.unique(events.thread).tolist():
        rows = events.select(events.thread == thread)
        rows = rows.select(np.lexsort((-rows.duration, rows.start)))
        title = _plain(trace.threads[thread]) if 0 <= thread < len(trace.threads) else f"thread {thread}"
        base = root.child(title)
        open_frames: list[tuple[int, Frame]] = []
        for name, start, end in zip(rows.name.tolist(), rows.start.tolist(), rows.end.tolist(), strict=True):
            while open_frames and open_frames[-1][0] <= start:
                open_frames.pop()
            until = min(end, open_frames[-1][0]) if open_frames else end
            if len(open_frames) >= _DEEPEST or until < start:
                continue
            parent = open_frames[-1][1] if open_frames else base
            frame = parent.child(_plain(trace.names[name]))
            frame.value += (until - start) / 1e9
            open_frames.append((until, frame))
        base.value += sum(child.value for child in base.children.values())
    root.value = sum(child.value for child in root.children.values())


def _add(root: Frame, path: Sequence[str], value: float) -> None:
    root.value += value
    frame = root
    for name in path:
        frame = frame.child(name)
        frame.value += value


def _plain(name: str) -> str:
    return _NUMBERS.sub("#", name)


def compared(flames: Flames, against: Flames, per: tuple[float, float]) -> Flames:
    """``flames`` with ``against`` in every frame's ``other``, both divided by ``per`` (output tokens, steps, or 1)."""
    root = Frame("all")
    for source, divisor, ours in ((flames.root, per[0], True), (against.root, per[1], False)):
        stack = [(source, root)]
        while stack:
            frame, target = stack.pop()
            if ours:
                target.value += frame.value / divisor
            else:
                target.other += frame.value / divisor
            stack += [(child, target.child(name)) for name, child in frame.children.items()]
    return Flames(root, flames.unit, flames.kind, flames.title)


def pruned(root: Frame, smallest: float) -> tuple[Frame, int]:
    """(the tree without frames below this share of the whole, how many were left out)."""
    least = smallest * max(root.value, root.other)
    kept, left = Frame(root.name, root.value, root.other), 0
    stack = [(root, kept)]
    while stack:
        frame, target = stack.pop()
        for name, child in frame.children.items():
            if max(child.value, child.other) < least:
                left += sum(1 for _ in child.walk())
                continue
            new = target.children[name] = Frame(name, child.value, child.other)
            stack.append((child, new))
    return kept, left
