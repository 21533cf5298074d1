"""``run.json`` of a recording: what was found, what was collected, what that cost, and how it ended."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from profiler.collectors.discovery import Discovery
from profiler.collectors.redaction import redact, redact_command
from profiler.collectors.sampling import Cost
from profiler.collectors.workers import Worker, processes_told


def document(
    found: Discovery,
    version: str,
    load: Sequence[str],
    began: float,
    window: tuple[float, float] | None,
    state: str,
    costs: Sequence[Cost],
    missing: Mapping[str, str],
    problems: Sequence[str],
    trace: Mapping[str, object],
    workers: Sequence[Worker] = (),
) -> dict[str, object]:
    """The whole document. Secrets are out: the command, the load's command and every setting are redacted."""
    engine: dict[str, object] = {} if found.engine is None else {"name": found.engine.name}
    behind = {(one.found.engine.name, one.found.identity.version) for one in workers if one.found and one.found.engine}
    if found.engine is None and len(behind) == 1:
        ((name, its_version),) = behind
        engine |= {"name": name} | ({} if its_version is None else {"version": its_version})
    engine |= {} if found.identity.version is None else {"version": found.identity.version}
    # A router's flags are not the engine's: the settings are those of the first worker whose command is known.
    command = found.command
    if found.component is not None:
        engine |= {"router": found.component.title} | ({"router_command": list(command)} if command else {})
        command = next((one.found.command for one in workers if one.found is not None and one.found.command), ())
    if command:
        engine["command"] = list(command)
    engine["url"] = found.url
    if found.processes:
        engine["processes"] = processes_told(found)
    made: dict[str, object] = {"engine": engine}
    if found.identity.model is not None:
        made["model"] = {"name": found.identity.model}
    here = found.processes or any(one.found is not None and one.found.processes for one in workers)
    made["hardware"] = _hardware() if here else {}
    if load:
        made["workload"] = {"client_command": redact_command(load)}
    times: dict[str, object] = {"t0_epoch": round(began, 6)}
    if window is not None:
        times["measured_window_s"] = [round(end, 6) for end in window]
    made["times"] = times
    made["recording"] = {
        "profiler": version,
        "state": state,
        "costs": [_cost(one) for one in costs],
        "not_collected": dict(missing),
        "problems": list(problems),
        "workers": [*(one.document for one in workers), *({"told": one} for one in found.identity.unnamed)],
        "trace": dict(trace),
    }
    clean = redact(made)
    return clean if isinstance(clean, dict) else made


def _cost(one: Cost) -> dict[str, object]:
    stated = asdict(one)
    stated["cpu_seconds"] = round(one.cpu_seconds, 4)
    return stated


def _hardware() -> dict[str, object]:
    """This machine, on which the server runs too. The devices are told by their own counters."""
    said: dict[str, object] = {"host": platform.machine(), "cores": os.cpu_count()}
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
        said["cpu"] = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    devices = [*Path("/dev").glob("nvidia[0-9]*"), *Path("/dev").glob("kfd")]
    return said if devices else said | {"gpu": None}
