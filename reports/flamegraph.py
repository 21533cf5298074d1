"""A flamegraph as a page of its own, as a speedscope file, or as collapsed stacks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from profiler.analyzers.flames import Flames, Frame, pruned
from profiler.reports import numbers
from profiler.reports.language import said
from profiler.reports.page import Drawn, asset, embedded, fragment, whole
from profiler.reports.safe_text import plain

# Boxes smaller than this share can't be seen, and are left out of the page.
SMALLEST: Final = 0.0001
_LONGEST_NAME: Final = 240
_IN_TABLE: Final = 200
_LAYER: Final = re.compile(r"layer (\d+)$")
_WORDS: Final = {
    "one": "{name}: {own}, {share}",
    "two": "{name}: {first} in {a}, {second} in {b}",
    "found": "{count} boxes, {share}",
}
_UNITS: Final = {"seconds": "s", "samples": "samples", "bytes": "bytes", "units": ""}


def to_flamegraph_html(flames: Flames, names: tuple[str, ...], per: str) -> str:
    """The page. ``names`` are the run's, or both where it is a difference: the run that is compared to stands first.
    Values are divided by ``per``."""
    root, left = pruned(flames.root, SMALLEST)
    per = said(per) if per else per
    different = len(names) > 1
    data = _data(root, different)
    unit = _UNITS[flames.unit]
    rows = [
        [
            frame,
            numbers.quantity(own, unit),
            *([numbers.quantity(other, unit), _signed(other - own, unit)] if different else []),
        ]
        for frame, own, other in _heaviest(root)
    ]
    content = fragment(
        "flamegraph.html.j2",
        data=embedded(
            data
            | {"unit": unit, "per": per, "names": [plain(name) for name in names]}
            | {"words": {word: said(text) for word, text in _WORDS.items()}}
        ),
        different=different,
        names=names,
        rows=rows[:_IN_TABLE],
        total=numbers.quantity(root.value, unit),
        per=per,
        boxes=len(data["name"]),
    )
    title = names[0] if not different else said("{a} against {b}", a=names[1], b=names[0])
    head = fragment("flamegraph_head.html.j2", title=title, what=said(flames.title), different=different, names=names)
    return whole(
        kind="Flamegraph",
        title=title,
        head=head,
        sections=[Drawn("flamegraph", "Flamegraph", content)],
        scripts=[asset("report.js"), asset("canvas.js"), asset("flamegraph.js")],
        left_out=(said("{n} boxes below {share}", n=f"{left:,}", share=f"{SMALLEST:.2%}"),) if left else (),
    )


def _data(root: Frame, different: bool) -> dict[str, Any]:
    """Boxes as columns: name (index), depth, left edge and width as shares of the whole; and the other run's share."""
    names: dict[str, int] = {}
    columns: dict[str, list[Any]] = {"name": [], "depth": [], "x": [], "w": [], "a": [], "b": []}
    size = max(root.value, root.other) or 1.0
    stack = [(root, 0, 0.0)]
    while stack:
        frame, depth, left = stack.pop()
        columns["name"].append(names.setdefault(plain(frame.name)[:_LONGEST_NAME], len(names)))
        columns["depth"].append(depth)
        columns["x"].append(round(left, 7))
        columns["w"].append(round(_width(frame) / size, 7))
        columns["a"].append(float(f"{frame.value:.6g}"))
        if different:
            columns["b"].append(float(f"{frame.other:.6g}"))
        at = left
        for child in sorted(frame.children.values(), key=_place):
            stack.append((child, depth + 1, at))
            at += _width(child) / size
    return {"names": [], "frames": list(names), **columns}


def _place(frame: Frame) -> tuple[float, str]:
    """Layers stand in the model's order, all else by size."""
    layer = _LAYER.match(frame.name)
    return (float(layer[1]) - 1e9 if layer else -_width(frame), frame.name)


def _width(frame: Frame) -> float:
    """A one-sided frame has the width that it has in its run."""
    return max(frame.value, frame.other)


def _heaviest(root: Frame) -> list[tuple[str, float, float]]:
    """(name, self value, self value of the other run) of all frames of a name, the heaviest first."""
    totals: dict[str, list[float]] = {}
    for _, frame in root.walk():
        own = frame.value - sum(child.value for child in frame.children.values())
        other = frame.other - sum(child.other for child in frame.children.values())
        row = totals.setdefault(frame.name, [0.0, 0.0])
        row[0] += max(own, 0.0)
        row[1] += max(other, 0.0)
    least = 1e-9 * max(root.value, root.other)
    rows = [(name, own, other) for name, (own, other) in totals.items() if max(own, other) > least]
    return sorted(rows, key=lambda row: (-max(row[1], row[2]), row[0]))


def _signed(value: float, unit: str) -> str:
    return f"{'+' if value > 0 else ''}{numbers.quantity(value, unit)}"


def to_speedscope(flames: Flames, name: str) -> str:
    """speedscope's sampled form: each box's own value with its stack."""
    frames: dict[str, int] = {}
    samples, weights = [], []
    for path, own in _own(flames.root):
        samples.append([frames.setdefault(frame, len(frames)) for frame in path])
        weights.append(own)
    unit = {"seconds": "seconds", "bytes": "bytes"}.get(flames.unit, "none")
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": name,
        "shared": {"frames": [{"name": frame} for frame in frames]},
        "profiles": [
            {
                "type": "sampled", "name": flames.title, "unit": unit, "startValue": 0, "endValue": sum(weights),
                "samples": samples, "weights": weights,
            }
        ],
    }  # fmt: skip
    return json.dumps(document, allow_nan=False) + "\n"


def to_collapsed(flames: Flames) -> str:
    """``frame;frame;frame count`` lines: whole microseconds of seconds, samples and bytes as they are."""
    factor = 1e6 if flames.unit == "seconds" else 1.0
    lines = []
    for path, own in _own(flames.root):
        count = round(own * factor)
        if count > 0:
            lines.append(f"{';'.join(_one_line(frame) for frame in path)} {count}\n")
    return "".join(lines)


def _own(root: Frame) -> Iterator[tuple[tuple[str, ...], float]]:
    """(path below the root, own value) of every frame that has a value of its own."""
    stack: list[tuple[Frame, tuple[str, ...]]] = [(child, (child.name,)) for child in root.children.values()]
    while stack:
        frame, path = stack.pop()
        own = frame.value - sum(child.value for child in frame.children.values())
        if own > 1e-12:
            yield path, own
        stack += [(child, (*path, child.name)) for child in frame.children.values()]


def _one_line(frame: str) -> str:
    return frame.replace(";", ":").replace("\n", " ").replace("\r", " ")
