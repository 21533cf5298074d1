"""The scrapes of a run whose counters can be differenced: each folder's are of one process, or of its restarts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from profiler.model.answering import OWN_ADDRESS, returned, told
from profiler.model.metrics import MetricsSnapshot
from profiler.model.problem import Problem


def of_one_process(snapshots: Sequence[MetricsSnapshot]) -> tuple[tuple[MetricsSnapshot, ...], list[Problem]]:
    """The snapshots, in their order, without those of a folder that several processes answered in turns; what was left
    out is a problem of the folder, or of the file where it lies in none."""
    series: dict[tuple[str, str], list[MetricsSnapshot]] = {}
    for one in snapshots:
        series.setdefault(_home(one), []).append(one)
    left: dict[tuple[str, str], Problem] = {}
    for home, scrapes in series.items():
        name = returned(one.process for one in scrapes)
        if name is not None:
            folder = home[0] if home[0] != "." else scrapes[0].path
            place = f"{scrapes[0].path} to {scrapes[-1].path}"
            left[home] = Problem(folder, "error", f"{told(name)}. {OWN_ADDRESS}", place, len(scrapes))
    return tuple(one for one in snapshots if _home(one) not in left), list(left.values())


def _home(one: MetricsSnapshot) -> tuple[str, str]:
    return str(PurePosixPath(one.path.replace("\\", "/")).parent), one.engine
