"""One run of several workers: their counters added up, their gauges each one's own.

A worker is a folder ``worker-<n>`` of scrapes, beside those of the router that stands before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from profiler.model.metrics import GAUGES, MetricsSnapshot
from profiler.model.problem import Problem

_FOLDER: Final = re.compile(r"worker-\d{1,6}")
Series = tuple[MetricsSnapshot, ...]


def by_worker(snapshots: Sequence[MetricsSnapshot]) -> dict[str, Series]:
    """Folder -> its scrapes in order, of the workers only."""
    found: dict[str, list[MetricsSnapshot]] = {}
    for one in snapshots:
        folder = PurePosixPath(one.path.replace("\\", "/")).parent
        if _FOLDER.fullmatch(folder.name):
            found.setdefault(str(folder), []).append(one)
    return {folder: tuple(series) for folder, series in sorted(found.items(), key=lambda item: _numbered(item[0]))}


def together(snapshots: Sequence[MetricsSnapshot]) -> tuple[MetricsSnapshot, ...]:
    """The scrapes of a run in order, of which the workers' carry the counters of all workers that lie beside them.

    A counter that falls is a worker that restarted: it goes on from where it was. What a router repeats of its workers
    (``metrics`` beside them) is left out, so that nothing counts twice.
    """
    workers = by_worker(snapshots)
    repeated = {str(PurePosixPath(folder).with_name("metrics")) for folder in workers}
    counted: dict[str, dict[tuple[str, str], float]] = {}  # counters so far, by the workers' parent
    last: dict[tuple[str, str, str], float] = {}
    for folder, series in workers.items():
        # Each counts from its first scrape on, whenever that was taken.
        for one in reversed(series):
            for name, value in one.values.items():
                if name not in GAUGES:
                    counted.setdefault(_parent(folder), {})[folder, name] = value
                    last[_parent(folder), folder, name] = value
    made = []
    for one in snapshots:
        folder = str(PurePosixPath(one.path.replace("\\", "/")).parent)
        if folder not in workers:
            if folder not in repeated:
                made.append(one)
            continue
        here = counted.get(_parent(folder), {})
        for name, value in one.values.items():
            if name not in GAUGES:
                here[folder, name] += max(value - last[_parent(folder), folder, name], 0.0)
                last[_parent(folder), folder, name] = value
        values = {name: value for name, value in one.values.items() if name in GAUGES}
        for (_, name), value in here.items():
            values[name] = values.get(name, 0.0) + value
        made.append(replace(one, values=values))
    return tuple(made)


def differences(workers: Mapping[str, Series]) -> list[Problem]:
    """What keeps several workers from being one run: other engines, or other settings of their caches."""
    found = []
    engines = {series[0].engine for series in workers.values()}
    if len(engines) > 1:
        told = f"the workers are of {' and '.join(sorted(engines))}; their counters are added up all the same"
        found.append(Problem(next(iter(workers)), "warning", told))
    stated: dict[str, set[str]] = {}
    for series in workers.values():
        for name, value in series[-1].settings.items():
            stated.setdefault(name, set()).add(value)
    unequal = sorted(name for name, values in stated.items() if len(values) > 1)
    if unequal:
        told = f"the workers differ in {', '.join(unequal)}; the settings shown are the first one's"
        found.append(Problem(next(iter(workers)), "info", told))
    return found


def _parent(folder: str) -> str:
    return str(PurePosixPath(folder).parent)


def _numbered(folder: str) -> tuple[str, int]:
    path = PurePosixPath(folder)
    return str(path.parent), int(path.name.rpartition("-")[2])
