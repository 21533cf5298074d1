"""Which code derived something: what is kept with a run is believed only by the code that would derive it again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_SUFFIXES: Final = frozenset({".py", ".tsv"})


@cache
def code_of(*names: str) -> str | None:
    """A digest of the source files of these packages and modules, with the tables beside them; None where the import
    system does not find them as files (a package inside an archive), so that nothing can be said."""
    digest = hashlib.sha256()
    for name in names:
        found = find_spec(name)
        if found is None or found.origin is None or not (origin := Path(found.origin)).is_file():
            return None
        files = sorted(_sources(origin.parent)) if found.submodule_search_locations else [origin]
        for file in files:
            content = file.read_bytes()
            digest.update(f"{name}|{file.relative_to(origin.parent)}|{len(content)}|".encode() + content)
    return digest.hexdigest()[:24]


def _sources(package: Path) -> Iterator[Path]:
    return (file for file in package.rglob("*") if file.suffix in _SUFFIXES)
