"""What runs are called beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from profiler.model.run import Run


def told_apart(runs: Sequence[Run]) -> list[Run]:
    """Runs whose folders are called alike get as much of their paths as tells them apart, or else a letter."""
    found = list(runs)
    for name in dict.fromkeys(run.name for run in runs):
        rows = [i for i, run in enumerate(runs) if run.name == name]
        if len(rows) > 1:
            for row, longer in zip(rows, _longer([runs[i].path for i in rows], name), strict=True):
                found[row] = replace(runs[row], name=longer)
    return found


def _longer(paths: Sequence[str], name: str) -> list[str]:
    parts = [Path(path).resolve().parts for path in paths]
    for length in range(2, min(len(p) for p in parts) + 1):
        tails = ["/".join(p[-length:]) for p in parts]
        if len(set(tails)) == len(tails):
            return tails
    return [f"{name} ({chr(ord('A') + i)})" for i in range(len(paths))]
