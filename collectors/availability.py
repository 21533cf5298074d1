"""What can be collected from a server that was found, and what each missing piece would need."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from profiler.collectors.discovery import Discovery
from profiler.collectors.forward_passes import needs, publishers
from profiler.collectors.gpu.amd_smi import AmdSmi
from profiler.collectors.gpu.counter_csv import Devices
from profiler.collectors.gpu.nvml import Nvml
from profiler.collectors.host.pyspy import program
from profiler.collectors.http_client import Client
from profiler.collectors.knob_values import from_command
from profiler.collectors.sampling import SampleFailed
from profiler.collectors.scheduler.forward_pass_stream import EXTRA, available
from profiler.collectors.scheduler.forward_pass_stream import NAME as PASSES
from profiler.model.live import Live, Reply

LOAD: Final = "load at the moment"
GPU: Final = "gpu"


@dataclass(frozen=True)
class Piece:
    """One kind of evidence: whether it can be had, from where, and what it needs where it can't."""

    name: str
    ready: bool
    found: str
    needs: str = ""

    @property
    def told(self) -> str:
        """What was found, and what it needs."""
        return f"{self.found}; {self.needs}" if self.needs else self.found


def pieces(found: Discovery, client: Client) -> tuple[Piece, ...]:
    """Everything, in the order in which it is shown. Sends GET requests that the discovery has not sent."""
    live = None if found.engine is None else found.engine.live

    def ask(path: str) -> Reply:
        return found.replies.get(path) or client.get(path)

    told = [_metrics(found, live, ask)]
    if live is not None and live.loads and not told[0].ready:
        told.append(_load(found, live, ask))
    told.append(_settings(found, live))
    if live is not None and live.records is not None:
        listed = isinstance(ask(live.records).document, list)
        told.append(Piece("steps", listed, live.records, "" if listed else live.records_need))
    if live is not None and live.steps_need:
        told.append(_steps(found, live))
    if (needed := needs(found)) is not None:
        told.append(_passes(found, needed))
    told.append(_log(found))
    told.append(_trace(found, live, ask))
    told += [_stacks(found), _gpu(found)]
    return tuple(told)


def devices() -> tuple[Devices | None, str]:
    """The vendor's library that names devices on this machine, or None and why."""
    reasons = []
    for vendor in (Nvml, AmdSmi):
        try:
            opened: Devices = vendor()
        except SampleFailed as error:
            reasons.append(str(error))
            continue
        if opened.read():
            return opened, ""
        opened.close()
        reasons.append("no device")
    return None, "; ".join(reasons)


def restarts(found: Discovery) -> dict[str, str]:
    """Tool -> the command with which the operator has to start the server to be traced by it."""
    live = None if found.engine is None else found.engine.live
    command = found.command or ("COMMAND",)
    told = {} if live is None else {tool: shlex.join(make(command)) for tool, make in live.restart.items()}
    told.setdefault("nsys", shlex.join(("nsys", "profile", "-t", "cuda,nvtx", "-o", "nsys/rank", *command)))
    options = ("--kernel-trace", "--hip-runtime-trace", "--marker-trace", "--output-format", "csv", "-d", "rocprof")
    return told | {"rocprofv3": shlex.join(("rocprofv3", *options, "--", *command))}


def metrics_path(found: Discovery) -> str:
    """Where the Prometheus text is."""
    live = None if found.engine is None else found.engine.live
    return "/metrics" if live is None or live.metrics is None else live.metrics


def _metrics(found: Discovery, live: Live | None, ask: Callable[[str], Reply]) -> Piece:
    path = metrics_path(found)
    answer = ask(path)
    ready = answer.ok and answer.document is None and "\n" in answer.text.strip()
    needs = "it has none" if live is None else live.metrics_needs
    return Piece("metrics", ready, path if ready else f"{path}: status {answer.status}", "" if ready else needs)


def _load(found: Discovery, live: Live, ask: Callable[[str], Reply]) -> Piece:
    """Asked only where the metrics are missing: what it says is among them."""
    read = None if found.engine is None else found.engine.loads
    path = next((one for one in live.loads if read is not None and read(ask(one).document)), None)
    if path is None:
        return Piece(LOAD, False, "no address tells it", live.metrics_needs)
    return Piece(LOAD, True, path)


def _settings(found: Discovery, live: Live | None) -> Piece:
    if found.settings:
        return Piece("settings", True, f"{len(found.settings)} stated by the server")
    source = "from its command line only" if found.command else "none"
    return Piece("settings", False, source, "" if live is None else live.settings_need)


def _steps(found: Discovery, live: Live) -> Piece:
    name = "every step in the log"
    stated = {} if found.engine is None else from_command(found.engine, found.command)
    facts = {**found.facts, **stated}
    if not facts:
        return Piece(name, False, "its settings are not known", live.steps_need)
    logged = live.steps_logged(facts)
    return Piece(name, logged is True, "as its settings say", "" if logged else live.steps_need)


def _passes(found: Discovery, needed: str) -> Piece:
    """Each published as it ends, which is more than any scrape tells."""
    count = len(publishers(found))
    if not count:
        return Piece(PASSES, False, "no publisher is known", needed)
    told = f"{count} publishers (ZeroMQ)"
    return Piece(PASSES, available(), told, "" if available() else EXTRA)


def _log(found: Discovery) -> Piece:
    if found.log is not None:
        return Piece("log", True, found.log)
    return Piece("log", False, "its output is no file that can be seen", "give --log FILE, docker:NAME or journal:UNIT")


def _trace(found: Discovery, live: Live | None, ask: Callable[[str], Reply]) -> Piece:
    if live is None or live.trace is None:
        needs = "take a trace with nsys or rocprofv3" if live is None else live.trace_needs
        return Piece("trace", False, "no profiler that can be started from outside", needs)
    ready = live.trace.available(ask)
    words = {True: "can be started (--profile)", False: "not set up", None: "not known until it is asked (--profile)"}
    return Piece("trace", ready is not False, words[ready], "" if ready else live.trace.needs)


def _stacks(found: Discovery) -> Piece:
    seen = found.host_processes
    if not found.processes:
        return Piece("host stacks", False, "the server's processes are not on this machine", "run it beside the server")
    if program() is None:
        return Piece("host stacks", False, f"{len(seen)} processes", "pip install 'serving-profiler[host]'")
    return Piece("host stacks", True, f"{len(seen)} processes (--stacks)")


def _gpu(found: Discovery) -> Piece:
    opened, why = devices()
    if opened is None:
        other = " (nvidia-smi is on the PATH)" if shutil.which("nvidia-smi") else ""
        return Piece(GPU, False, f"{why}{other}", "on the server's machine, or --dcgm URL of its exporter")
    count = len(opened.read())
    opened.close()
    return Piece(GPU, True, f"{count} device(s)")
