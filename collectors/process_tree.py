"""The processes behind a server's port on this machine, from /proc: which is which, which rank has which GPU.

Nothing is sent to a process. Of its environment only the list of visible devices, our own variable and those in which a
component names the port of its metrics and the folder of its registrations are read. Processes in another PID
namespace, or of another user, are not seen; what could not be told is None.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from profiler.collectors.redaction import redact_command
from profiler.model.live import ProcessRole

LISTEN: Final = "0A"
STEP_LOG: Final = "PROFILER_STEP_LOG"
_DEVICE: Final = re.compile(r"/dev/nvidia(\d+)$|/dev/dri/renderD(\d+)$")
_RENDER_BASE: Final = 128


@dataclass(frozen=True)
class Process:
    """One process. ``command`` is redacted; where a program replaced its title that is all there is of it. ``gpus``
    are those whose device files it has open or that the driver names, None where nothing tells. ``step_log`` is the
    file that its environment tells our stat logger to write."""

    pid: int
    parent: int
    command: tuple[str, ...]
    role: str | None = None
    rank: str | None = None
    host: bool = False
    gpus: tuple[int, ...] | None = None
    visible: str | None = None
    step_log: str | None = None


def listener(port: int) -> int | None:
    """The process that listens on a TCP port of this machine, the oldest where several do."""
    sockets = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in _text(Path(table)).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                sockets.add(f"socket:[{fields[9]}]")
    owners = [pid for pid in _pids() if sockets & set(_links(pid))] if sockets else []
    return min(owners, default=None)


def ports_of(pid: int) -> tuple[int, ...]:
    """The TCP ports on which a process listens, or else its descendants do: engines talk among themselves by ports."""
    for family in ([pid], _family(pid)):
        found = _ports({link for one in family for link in _links(one)})
        if found:
            return found
    return ()


def _ports(links: set[str]) -> tuple[int, ...]:
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in _text(Path(table)).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == LISTEN and f"socket:[{fields[9]}]" in links:
                found.add(int(fields[1].rpartition(":")[2], 16))
    return tuple(sorted(found))


def tree(root: int, roles: Sequence[ProcessRole], drivers: Mapping[int, Sequence[int]]) -> tuple[Process, ...]:
    """A process and its descendants. ``drivers`` maps a process to the GPUs that the driver says it uses."""
    return tuple(_process(pid, roles, drivers) for pid in _family(root))


def ports_named(variable: str) -> tuple[int, ...]:
    """The TCP ports that processes of this machine have in this variable of their environment and listen on."""
    named = {int(value) for pid in _pids() if (value := variable_of(pid, variable) or "").isdecimal()}
    return tuple(port for port in sorted(named) if 0 < port < 65536 and listener(port) is not None)


def variable_of(pid: int, *names: str) -> str | None:
    """What a process has in the first of these variables of its environment; None where that can't be seen."""
    for entry in _text(Path(f"/proc/{pid}/environ")).split("\0"):
        name, _, value = entry.partition("=")
        if name in names:
            return value
    return None


def output_of(pid: int) -> Path | None:
    """The file that a process writes its standard output or error to, if it is one."""
    for number in (1, 2):
        try:
            target = Path(f"/proc/{pid}/fd/{number}").readlink()
        except OSError:
            continue
        if target.is_file():
            return target
    return None


def sees_our_files(pid: int) -> bool:
    """Whether a process has our mounts and our root, so that a path means the same to it."""
    try:
        return all(
            Path(f"/proc/{pid}/{name}").readlink() == Path(f"/proc/self/{name}").readlink()
            for name in ("ns/mnt", "root")
        )
    except OSError:
        return False


def _family(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid in _pids():
        children.setdefault(_parent(pid), []).append(pid)
    found = [root] if Path(f"/proc/{root}").exists() else []
    for pid in found:
        found += sorted(children.get(pid, []))
    return found


def _process(pid: int, roles: Sequence[ProcessRole], drivers: Mapping[int, Sequence[int]]) -> Process:
    words = [word for word in _text(Path(f"/proc/{pid}/cmdline")).split("\0") if word]
    line = " ".join(words) or _text(Path(f"/proc/{pid}/comm")).strip()
    for one in roles:
        match = re.search(one.pattern, line)
        if match is not None:
            rank = (match.groupdict().get("rank") or "").strip("_") or None
            role, host = one.role, one.host
            break
    else:
        role, rank, host = None, None, False
    gpus = tuple(sorted(drivers[pid])) if pid in drivers else _open_devices(pid)
    command = tuple(redact_command(words or [line]))
    visible = variable_of(pid, "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
    return Process(pid, _parent(pid), command, role, rank, host, gpus, visible, variable_of(pid, STEP_LOG))


def _open_devices(pid: int) -> tuple[int, ...] | None:
    found = set()
    for link in _links(pid):
        match = _DEVICE.search(link)
        if match is not None:
            found.add(int(match[1]) if match[1] else int(match[2]) - _RENDER_BASE)
    return tuple(sorted(found)) or None


def _pids() -> list[int]:
    base = Path("/proc")
    return sorted(int(one.name) for one in base.iterdir() if one.name.isdecimal()) if base.is_dir() else []


def _parent(pid: int) -> int:
    # The name in parentheses may hold anything, parentheses too.
    fields = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def _links(pid: int) -> list[str]:
    found = []
    try:
        entries = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return []
    for entry in entries:
        try:
            found.append(str(entry.readlink()))
        except OSError:
            continue
    return found


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
