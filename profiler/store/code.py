"""Which code derived something: what is kept with a run is believed only by the code that would derive it again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_SUFFIXES: Final = (".py", ".tsv")


@cache
def code_of(*names: str) -> str | None:
    """A digest of the source files of these packages and modules, with the tables beside them; None where the import
    system does not find them as files (a package inside an archive), so that nothing can be said."""
    digest = hashlib.sha256()
    for name in names:
        found = find_spec(name)
        if found is None or found.origin is None or not (origin := Path(found.origin)).is_file():
            return None
        package = str(origin.parent)
        files = sorted(_sources(package)) if found.submodule_search_locations else [str(origin)]
        for file in files:
            content = Path(file).read_bytes()
            digest.update(f"{name}|{file.removeprefix(package)}|{len(content)}|".encode() + content)
    return digest.hexdigest()[:24]


def _sources(package: str) -> Iterator[str]:
    waiting = [package]
    while waiting:
        with os.scandir(waiting.pop()) as found:
            for entry in found:
                if entry.name.endswith(_SUFFIXES):
                    yield entry.path
                elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
