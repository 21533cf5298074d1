"""The files of a run: a folder walked to any depth, or a single file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from profiler.errors import BadInput, UsageError
from profiler.model.problem import Problem
from profiler.store.cache import FOLDER

# A run has dozens of files, a large one thousands; beyond this somebody named the wrong folder.
MOST_FILES: Final = 20_000
_SKIPPED_FOLDERS: Final = frozenset({FOLDER, ".git", "__pycache__"})


def run_root(path: Path) -> Path:
    """The folder that a run's paths are relative to. Raises UsageError where there is nothing."""
    if not path.exists():
        raise UsageError(f"{path}: there is no such file or folder. Name a run folder, or one of its files")
    return path if path.is_dir() else path.parent


def files_of(path: Path, problems: list[Problem]) -> Iterator[Path]:
    """The run's files in a stable order. Links to folders are followed once; loops and pipes are left out and said."""
    if path.is_file():
        yield path
        return
    seen: set[tuple[int, int]] = set()
    count = 0
    # A list of what is still to be listed, rather than os.walk, which runs out of stack in very deep trees.
    waiting = [path]
    while waiting:
        here = waiting.pop()
        shown = str(here.relative_to(path))
        try:
            state = here.stat()
            if (state.st_dev, state.st_ino) in seen:
                problems.append(Problem(shown, "warning", "a link leads back to a folder already read"))
                continue
            seen.add((state.st_dev, state.st_ino))
            with os.scandir(here) as listed:
                files = sorted(here / entry.name for entry in listed)
        except OSError as error:
            detail = f"the folder could not be listed ({error.strerror}); its files were left out"
            problems.append(Problem(shown, "error", detail))
            continue
        modes = [_mode(file) for file in files]
        folders = [f for f, mode in zip(files, modes, strict=True) if stat.S_ISDIR(mode)]
        waiting += [folder for folder in reversed(folders) if folder.name not in _SKIPPED_FOLDERS]
        for file, mode in zip(files, modes, strict=True):
            if stat.S_ISDIR(mode):
                continue
            if not stat.S_ISREG(mode):
                shown = str(file.relative_to(path))
                problems.append(Problem(shown, "warning", "not a regular file (broken link, pipe or device); left out"))
                continue
            count += 1
            if count > MOST_FILES:
                raise BadInput(
                    str(path), f"holds more than {MOST_FILES:,} files", "Name the folder of one run", str(here)
                )
            yield file


def _mode(file: Path) -> int:
    """What lies there, links followed; 0 where that can't be said (a link to nothing or to itself)."""
    try:
        return file.stat().st_mode
    except OSError:
        return 0
