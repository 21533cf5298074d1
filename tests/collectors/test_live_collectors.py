"""Collectors that sample: device counters by either vendor's library, host stacks, what they cost, and that they end."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from profiler import open_run
from profiler.analyzers.inspection import inspect
from profiler.collectors.availability import devices
from profiler.collectors.gpu.amd_smi import AmdSmi
from profiler.collectors.gpu.counter_csv import GpuCountersWriter
from profiler.collectors.gpu.nvml import Nvml
from profiler.collectors.host.pyspy import HostStacks, program
from profiler.collectors.process_tree import Process
from profiler.collectors.run_folder import RunFolder
from profiler.collectors.sampling import Cost, SampleFailed, Sampling
from profiler.collectors.scheduler.log_tail import LogTail
from profiler.errors import UsageError


def nvml_module(fails: bool = False) -> types.ModuleType:
    """NVML's calls as two H200 would answer; the second does not tell its power."""
    module = types.ModuleType("pynvml")

    class NVMLError(Exception):
        pass

    def init() -> None:
        if fails:
            raise NVMLError("Driver Not Loaded")

    def power(handle: int) -> int:
        if handle == 1:
            raise NVMLError("Not Supported")
        return 350_000

    sent = {0: 0, 1: 0}

    def links(handle: int, fields: list[int]) -> list[types.SimpleNamespace]:
        """A counter in KiB that grows by a GiB a look; the second device has no NVLink."""
        sent[handle] += 2**20
        value = types.SimpleNamespace(ullVal=sent[handle])
        return [types.SimpleNamespace(nvmlReturn=3 * handle, value=value) for _ in fields]

    module.__dict__.update(
        NVMLError=NVMLError, nvmlInit=init, nvmlShutdown=lambda: None, NVML_CLOCK_SM=1, NVML_TEMPERATURE_GPU=0,
        nvmlSystemGetDriverVersion=lambda: b"570.1", nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda at: at, nvmlDeviceGetName=lambda handle: "NVIDIA H200",
        nvmlDeviceGetPowerUsage=power,
        nvmlDeviceGetUtilizationRates=lambda handle: types.SimpleNamespace(gpu=40 + handle),
        nvmlDeviceGetMemoryInfo=lambda handle: types.SimpleNamespace(used=2**30),
        nvmlDeviceGetClockInfo=lambda handle, kind: 1500, nvmlDeviceGetMaxClockInfo=lambda handle, kind: 1980,
        nvmlDeviceGetTemperature=lambda handle, kind: 41,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda handle: 0x4,
        NVML_PCIE_UTIL_TX_BYTES=0, NVML_PCIE_UTIL_RX_BYTES=1, NVML_SUCCESS=0,
        NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX=138, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX=139,
        nvmlDeviceGetPcieThroughput=lambda handle, counter: 2_000_000 + counter,
        nvmlDeviceGetFieldValues=links,
        nvmlDeviceGetComputeRunningProcesses=lambda handle: [types.SimpleNamespace(pid=77)],
    )  # fmt: skip
    return module


def amd_module() -> types.ModuleType:
    """amdsmi's calls as an MI300X would answer."""
    module = types.ModuleType("amdsmi")

    class AmdSmiException(Exception):
        pass

    def unsupported(handle: object) -> object:
        raise AmdSmiException("not supported")

    module.__dict__.update(
        AmdSmiException=AmdSmiException, amdsmi_init=lambda: None, amdsmi_shut_down=lambda: None,
        amdsmi_get_processor_handles=lambda: ["a"], AmdSmiClkType=types.SimpleNamespace(GFX=0),
        AmdSmiMemoryType=types.SimpleNamespace(VRAM=0),
        amdsmi_get_clock_info=lambda handle, kind: {"clk": 1200, "max_clk": 2100},
        amdsmi_get_power_info=lambda handle: {"current_socket_power": "N/A", "average_socket_power": 400},
        amdsmi_get_gpu_activity=lambda handle: {"gfx_activity": 93},
        amdsmi_get_gpu_asic_info=lambda handle: {"market_name": "MI300X"},
        amdsmi_get_gpu_driver_info=lambda handle: {"driver_version": "6.8"},
        amdsmi_get_gpu_memory_usage=lambda handle, kind: 2**31,
        amdsmi_get_gpu_process_list=unsupported,
    )  # fmt: skip
    return module


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run", 1 << 28)


def test_nvidias_counters_are_read_as_they_were_written(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml_module())
    opened, why = devices()
    assert isinstance(opened, Nvml) and not why and opened.processes() == {77: [0, 1]}
    before = time.time()
    writer = GpuCountersWriter(opened, folder, 1.0)
    writer.take(0.0)
    time.sleep(0.05)
    writer.take(1.0)
    writer.close()
    run = open_run(folder.path)
    (counters,) = run.counters
    assert counters.gpu.tolist() == [0, 1, 0, 1] and counters.utilisation == pytest.approx([0.4, 0.41] * 2)
    assert counters.sm_clock.tolist() == [1.5e9] * 4 and counters.max_sm_clock[0] == 1.98e9
    assert counters.power[0] == 350 and counters.power[1] != counters.power[1]
    assert counters.throttled.tolist() == [1.0] * 4 and abs(counters.clock[0] - before) < 5
    assert counters.links["PCIe sent"] == pytest.approx([2e9] * 4)
    # NVLink counts since the driver was loaded: a rate needs a second look.
    sent = counters.links["NVLink sent"]
    assert np.isnan(sent[[0, 1, 3]]).all() and 2**30 / 5 < sent[2] <= 2**30 / 0.05
    told = {figure.name: figure for figure in inspect(run).figures if figure.section == "communication"}
    assert (
        told["NVLink sent, a device"].value == pytest.approx(sent[2]) and told["PCIe sent, a device"].unit == "bytes/s"
    )
    assert (run.fact("hardware.gpu"), run.fact("hardware.count"), run.fact("hardware.driver")) == (
        "NVIDIA H200", 2, "570.1",
    )  # fmt: skip


def test_amds_counters_are_written_in_the_same_form(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml_module(fails=True))
    monkeypatch.setitem(sys.modules, "amdsmi", amd_module())
    opened, _ = devices()
    assert isinstance(opened, AmdSmi) and opened.processes() == {}
    writer = GpuCountersWriter(opened, folder, 1.0)
    writer.take(0.0)
    (counters,) = open_run(folder.path).counters
    assert (counters.sm_clock[0], counters.power[0], counters.utilisation[0]) == (1.2e9, 400, 0.93)
    assert counters.throttled[0] != counters.throttled[0]


def test_without_a_driver_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml_module(fails=True))
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    opened, why = devices()
    assert opened is None and "Driver Not Loaded" in why and "serving-profiler[amd]" in why


@pytest.fixture
def spinning() -> Iterator[subprocess.Popen[bytes]]:
    """A Python process that is busy in a function of a known name."""
    program = "import time\ndef a_busy_function():\n    end = time.time() + 60\n    while time.time() < end: pass\na_busy_function()"
    process = subprocess.Popen([sys.executable, "-c", program])
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("native", [False, True])
def test_host_stacks_of_a_process_are_taken_and_py_spy_is_ended(
    folder: RunFolder, spinning: subprocess.Popen[bytes], native: bool
) -> None:
    spy = program()
    if spy is None:
        pytest.skip("py-spy is not installed")
    one = Process(spinning.pid, 1, ("python",), "engine core", None, True)
    stacks = HostStacks(spy, (("stacks", one),), folder, native)
    # No work of another child is the collector's.
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 3: pass"], check=True)
    sampling = Sampling((stacks,), time.time(), lambda: None)
    sampling.start()
    time.sleep(2.0)
    sampling.stop()
    assert stacks.cost.cpu_seconds < 3
    if stacks.cost.problems:
        pytest.skip(f"py-spy may not look into other processes here: {stacks.cost.problems[0]}")
    assert spinning.poll() is None and stacks.cost.cpu_seconds > 0 and stacks.cost.written > 0
    (table,) = open_run(folder.path).stacks
    assert "a_busy_function" in str(table) or (folder.path / f"stacks/engine-core-{spinning.pid}.txt").read_text()
    text = (folder.path / f"stacks/engine-core-{spinning.pid}.txt").read_text()
    assert "a_busy_function" in text
    # Without native frames every frame is one of the Python file.
    assert ("(python" in text or "libc" in text) == native, text[:500]


def test_without_native_frames_python_s_own_are_taken(
    folder: RunFolder, spinning: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """As py-spy answers where it was built without unwinding."""
    spy = tmp_path / "py-spy"
    spy.write_text(
        '#!/bin/sh\ncase "$*" in *--native*) echo "error: unexpected argument \'--native\' found" >&2; exit 2;; esac\n'
        'while [ "$1" != --output ]; do shift; done\ntrap "echo \'f (a.py:1) 3\' > $2; exit 0" INT\n: > "$0.ready"\n'
        "while :; do sleep 0.05; done\n"
    )
    spy.chmod(0o755)
    one = Process(spinning.pid, 1, ("python",), "engine core", None, True)
    stacks = HostStacks(str(spy), (("stacks", one),), folder, native=True)
    deadline = time.monotonic() + 20
    while not stacks.cost.problems and time.monotonic() < deadline:
        stacks.take(0.0)
        time.sleep(0.02)
    while not spy.with_suffix(".ready").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    stacks.close()
    (problem,) = stacks.cost.problems
    assert problem.startswith("native frames: error: unexpected argument") and "engine-core" in problem
    assert (folder.path / f"stacks/engine-core-{spinning.pid}.txt").read_text() == "f (a.py:1) 3\n"


class Ticking:
    """A collector that counts, and fails when it is told to."""

    period = 0.01
    vital = True

    def __init__(self, fails_from: int | None = None) -> None:
        self.cost = Cost("ticking")
        self.closed = 0
        self._fails_from = fails_from

    def take(self, seconds: float) -> None:
        if self._fails_from is not None and self.cost.samples >= self._fails_from:
            raise SampleFailed("it is gone")

    def close(self) -> None:
        self.closed += 1


def test_every_collector_takes_a_last_sample_and_is_closed_once() -> None:
    good, bad = Ticking(), Ticking(fails_from=2)
    sampling = Sampling((good, bad), time.time(), lambda: None)
    sampling.start()
    while good.cost.samples < 5 or bad.cost.missed < 1:
        time.sleep(0.01)
    sampling.stop()
    assert (good.closed, bad.closed) == (1, 1) and good.cost.missed == 0 and good.cost.cpu_seconds > 0
    assert bad.cost.samples == 2 and bad.cost.problems == ["it is gone"]


def test_a_container_without_docker_is_said(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="docker:engine"):
        LogTail("docker:engine", None, folder)


def test_a_containers_output_is_followed_and_its_follower_ended(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "bin" / "docker"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\necho \"$@\"; echo error >&2; printf 'no end'; exec sleep 60\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")
    tail = LogTail("docker:engine", None, folder)
    while tail.cost.received < 10:
        tail.take(0.0)
        time.sleep(0.01)
    tail.close()
    text = (folder.path / "server.log").read_text()
    assert text.startswith("logs --follow --since 0s -- engine\nerror\n") and text.endswith("no end")


def test_steps_that_say_what_writing_them_took_of_the_server_are_a_cost(folder: RunFolder, tmp_path: Path) -> None:
    log = tmp_path / "steps.jsonl"
    log.write_text('{"own_seconds": 0.25}\n')
    tail = LogTail(str(log), None, folder, "steps.jsonl")
    assert tail.cost.server_seconds is None
    with log.open("a") as file:
        for own in (0.5, 0.625, 1.0):
            file.write(json.dumps({"own_seconds": own, "n": 1}) + "\n")
            file.flush()
            tail.take(0.0)
        file.write('{"own_seconds": 9')
    tail.take(0.0)
    tail.close()
    assert tail.cost.server_seconds == 0.5
