"""``profiler doctor``: what can be collected on this machine or from a server, and what each missing piece needs."""

from __future__ import annotations

import shutil
import sys
from dataclasses import asdict, dataclass
from importlib import metadata, util
from pathlib import Path

import click
import msgspec
from rich.text import Text

from profiler import registry
from profiler.cli.main import State, common_options, pass_state
from profiler.cli.output import in_language
from profiler.cli.server import client_of, gpu_processes, server_options
from profiler.collectors.availability import pieces, restarts
from profiler.collectors.discovery import discover
from profiler.collectors.host.pyspy import program
from profiler.collectors.http_client import Client
from profiler.collectors.workers import Worker, missing, workers_of
from profiler.reports.language import named, said


@dataclass(frozen=True)
class Check:
    """One thing that a collector needs: whether it is there, what was found, and what to do where it isn't."""

    name: str
    gives: str
    ready: bool
    found: str
    advice: str


@click.command("doctor")
@server_options
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
@in_language
@common_options
@pass_state
def command(
    state: State,
    url: str | None,
    pid: int | None,
    api_key_env: str | None,
    api_key_file: Path | None,
    ca: Path | None,
    as_json: bool,
) -> int:
    """Say what can be collected on this machine, or from a running server. Nothing is started or changed.

    \b
    Example:
      profiler doctor
      profiler doctor --url http://127.0.0.1:8000
    """  # fmt: skip
    if url is not None or pid is not None:
        with client_of(url, pid, api_key_env, api_key_file, ca) as client:
            return _server(state, client, as_json)
    checks = all_checks()
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode([asdict(c) for c in checks])).decode() + "\n")
        return 0
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("", "collector", "gives", "found", "to get it"):
        table.add_column(said(heading), overflow="fold")
    for check in checks:
        advice = "" if check.ready else check.advice
        cells = named(check.name), said(check.gives), named(check.found), said(advice)
        table.add_row(_mark(check.ready), *map(Text, cells))
    state.out.print(table)
    return 0


def _mark(ready: bool) -> Text:
    return Text(said("yes"), style="green") if ready else Text(said("no"), style="yellow")


def _server(state: State, client: Client, as_json: bool) -> int:
    """What the server is, its processes, and every piece of evidence that it can give."""
    found = discover(client, registry.engines(), gpu_processes)
    told, restart = pieces(found, client), restarts(found)
    workers = workers_of(found, client, registry.engines(), gpu_processes)
    behind = (*(worker.title for worker in workers), *found.identity.unnamed)
    lacking = missing(Worker(found.url, "", found), workers)
    if as_json:
        document = {
            "url": found.url,
            "engine": found.title,
            "model": found.identity.model,
            "behind": list(behind),
            "lacking_behind": lacking,
            "processes": [asdict(one) for one in found.processes],
            "settings": dict(found.facts),
            "pieces": [asdict(one) for one in told],
            "restart": restart,
        }
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(document)).decode() + "\n")
        return 0
    from rich.table import Table

    model = found.identity.model or said("not known")
    state.out.print(Text(said("{url}: {engine}, model {model}", url=found.url, engine=found.title, model=model)))
    for worker in behind:
        state.out.print(Text("  " + said("behind it: {worker}", worker=worker)))
    for name, why in lacking.items():
        state.out.print(Text("  " + said("not of them: {name}: {why}", name=said(name), why=said(why))))
    for one in found.processes:
        gpus = "" if one.gpus is None else f", GPU {', '.join(map(str, one.gpus))}"
        rank = "" if one.rank is None else f" {one.rank}"
        does = f"{one.role or said('role not known')}{rank}{gpus}"
        state.out.print(Text("  " + said("process {pid}: {does}", pid=str(one.pid), does=does)))
    table = Table(box=None, pad_edge=False)
    for heading in ("", "piece", "found", "to get it"):
        table.add_column(said(heading), overflow="fold")
    for piece in told:
        table.add_row(_mark(piece.ready), *map(Text, (said(piece.name), named(piece.found), said(piece.needs))))
    state.out.print(table)
    for tool, line in restart.items():
        state.out.print(Text(said("with {tool}, start the server as: {line}", tool=tool, line=line)), soft_wrap=True)
    return 0


def all_checks() -> tuple[Check, ...]:
    """Every check, in the order of the table."""
    return (
        Check("reading runs", "diagnosis of files from anywhere", True, f"Python {sys.version.split()[0]}", ""),
        Check("metrics", "scheduler metrics, settings, engine traces", True, "any server: doctor --url URL", ""),
        _tool("docker", "the log of a server in a container", "give the log as a file (record --log FILE)"),
        _tool("journalctl", "the log of a server that is a unit", "give the log as a file (record --log FILE)"),
        _package("torch", "torch", "in-process traces (torch profiler)", "torch"),
        _nvml(),
        _amd(),
        _tool("nsys", "Nsight Systems traces", "install Nsight Systems, or export on the machine that has it"),
        _tool("rocprofv3", "ROCm traces", "install rocprofiler-sdk (ROCm 6.2 or newer)"),
        _pyspy(),
        _package("HolisticTraceAnalysis", "hta", "HTA's own analyses of a run", "hta"),
        _package("pyzmq", "zmq", "every step, as engines publish it", "zmq"),
        _package("nvtx", "nvtx", "NVTX ranges around in-process captures", "nvtx"),
        _package("perfetto", "perfetto", "Perfetto traces of rocprofv3", "perfetto"),
    )


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _package(name: str, module: str, gives: str, extra: str) -> Check:
    present = util.find_spec(module) is not None
    found = f"{name} {_version(name) or '(version not known)'}" if present else "not installed"
    return Check(name, gives, present, found, f"pip install 'serving-profiler[{extra}]'")


def _nvml() -> Check:
    devices = sorted(Path("/dev").glob("nvidia[0-9]*"))
    module = util.find_spec("pynvml") is not None
    found = f"{len(devices)} device file(s)" + ("" if module else ", pynvml not installed")
    advice = (
        "pip install 'serving-profiler[nvidia]'" if devices else "no NVIDIA device here: read its counters as files"
    )
    return Check("pynvml", "NVIDIA clocks, power, throttling, memory", bool(devices) and module, found, advice)


def _amd() -> Check:
    device = Path("/dev/kfd").exists()
    module = util.find_spec("amdsmi") is not None
    found = ("/dev/kfd" if device else "no AMD device") + ("" if module else ", amdsmi not installed")
    advice = "pip install 'serving-profiler[amd]'" if device else "no AMD device here: read its counters as files"
    return Check("amdsmi", "AMD clocks, power, memory", device and module, found, advice)


def _tool(name: str, gives: str, advice: str) -> Check:
    path = shutil.which(name)
    return Check(name, gives, path is not None, path or "not on PATH", advice)


def _pyspy() -> Check:
    path = program()
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    restricted = scope.exists() and scope.read_text().strip() not in ("0", "")
    found = path or "not installed"
    if path and restricted:
        found += f", ptrace_scope {scope.read_text().strip()}: other processes need root"
    return Check("py-spy", "host stacks of running engines", path is not None, found,
                 "pip install 'serving-profiler[host]'")  # fmt: skip
