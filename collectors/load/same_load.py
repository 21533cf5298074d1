"""Marks by which a run knows that several files describe one load (see ``profiler.store.loads``).

A tool that writes its summary and its per-request records as two files leaves two results of one load. Both carry the
same ``load``; the run merges them. A summary over several stages says so with ``whole`` where the stages say ``part``.
"""

from __future__ import annotations

from pathlib import PurePosixPath


def load_mark(tool: str, path: str) -> dict[str, str]:
    """The mark of a tool's files that lie in one folder."""
    return {"load": f"{tool} in {_folder(path)}"}


def part_mark(tool: str, path: str) -> dict[str, str]:
    """The mark of one stage of a load whose folder may also hold a summary of all stages."""
    return {"part": f"{tool} in {_folder(path)}"}


def whole_mark(tool: str, path: str) -> dict[str, str]:
    """The mark of a summary over all stages of a folder."""
    return {"whole": f"{tool} in {_folder(path)}"}


def _folder(path: str) -> str:
    return str(PurePosixPath(path.replace("\\", "/")).parent)
