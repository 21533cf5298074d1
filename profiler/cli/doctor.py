"""``profiler doctor``: what can be collected on this machine, and what each missing collector needs."""

from __future__ import annotations

import shutil
import sys
from dataclasses import asdict, dataclass
from importlib import metadata, util
from pathlib import Path

import click
import msgspec

from profiler.cli.main import State, common_options, pass_state


@dataclass(frozen=True)
class Check:
    """One thing that a collector needs: whether it is there, what was found, and what to do where it isn't."""

    name: str
    gives: str
    ready: bool
    found: str
    advice: str


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
@common_options
@pass_state
def command(state: State, as_json: bool) -> int:
    """Say what can be collected on this machine. Nothing is started, changed or sent.

    \b
    Example:
      profiler doctor
    """
    checks = all_checks()
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode([asdict(c) for c in checks])).decode() + "\n")
        return 0
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in ("", "collector", "gives", "found", "to get it"):
        table.add_column(heading, overflow="fold")
    for check in checks:
        mark = Text("yes", style="green") if check.ready else Text("no", style="yellow")
        advice = "" if check.ready else check.advice
        table.add_row(mark, Text(check.name), Text(check.gives), Text(check.found), Text(advice))
    state.out.print(table)
    return 0


def all_checks() -> tuple[Check, ...]:
    """Every check, in the order of the table."""
    return (
        Check("reading runs", "diagnosis of files from anywhere", True, f"Python {sys.version.split()[0]}", ""),
        _package("torch", "torch", "in-process traces (torch profiler)", "torch"),
        _nvml(),
        _amd(),
        _tool("nsys", "Nsight Systems traces", "install Nsight Systems, or export on the machine that has it"),
        _tool("rocprofv3", "ROCm traces", "install rocprofiler-sdk (ROCm 6.2 or newer)"),
        _pyspy(),
        _package("HolisticTraceAnalysis", "hta", "HTA's own analyses of a run", "hta"),
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
    path = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    restricted = scope.exists() and scope.read_text().strip() not in ("0", "")
    found = path or "not installed"
    if path and restricted:
        found += f", ptrace_scope {scope.read_text().strip()}: other processes need root"
    return Check("py-spy", "host stacks of running engines", path is not None, found,
                 "pip install 'serving-profiler[host]'")  # fmt: skip
