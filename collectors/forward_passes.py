"""Where forward-pass metrics are published, and of which of the recorded servers a message tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from profiler.collectors.discovery import Discovery
from profiler.collectors.json_text import decode, mapping, parse
from profiler.collectors.process_tree import variable_of
from profiler.model.live import Registrations

MOST_FILES: Final = 256
_LARGEST: Final = 1 << 16
_TRANSPORTS: Final = ("tcp://", "ipc://")


def publishers(found: Discovery) -> tuple[str, ...]:
    """The addresses at which a server, or the workers behind it, publish a message for every step."""
    named: list[str | None] = []
    if found.component is not None and found.component.passes is not None:
        named += _registered(found, found.component.passes)
    elif found.engine is not None and found.engine.live is not None:
        named += found.engine.live.passes(found.settings)
    return tuple(dict.fromkeys(one for one in named if one is not None and one.startswith(_TRANSPORTS)))


def needs(found: Discovery) -> str | None:
    """What makes it publish them; None where nothing is known to."""
    if found.component is not None:
        return None if found.component.passes is None else found.component.passes.needs
    live = None if found.engine is None else found.engine.live
    return (None if live is None else live.passes_need) or None


def folder_of(found: Discovery, folder: str, folders: Mapping[str, str]) -> Callable[[str], str | None]:
    """For the number of a worker the folder of its files in the run, "" where it is not sampled itself; None where it
    is no worker of this server. An engine's own go to ``folder``, those of an address to ``folders[address]``."""
    registered = None if found.component is None else found.component.passes

    def place(number: str) -> str | None:
        if registered is None:
            return folder
        mark = registered.mark(number) or ""
        if mark in found.marked:
            return folders.get(found.marked[mark], "")
        return "" if mark and mark in found.identity.marks else None

    return place


def _registered(found: Discovery, registered: Registrations) -> list[str | None]:
    """What the files say, in the folder as the server sees it."""
    addresses: list[str | None] = []
    for pid in (one.pid for one in found.processes):
        named = variable_of(pid, registered.variable)
        folder = Path(named) if named else Path(variable_of(pid, "TMPDIR") or "/tmp") / registered.fallback
        seen = Path(f"/proc/{pid}/root") / folder.relative_to("/") if folder.is_absolute() else None
        for path in sorted((seen or Path(f"/proc/{pid}/cwd") / folder).glob(registered.pattern))[:MOST_FILES]:
            try:
                with path.open("rb") as file:
                    addresses.append(registered.address(mapping(parse(decode(file.read(_LARGEST))))))
            except OSError:
                continue
    return addresses
