"""NVIDIA's counters through NVML (the extra ``nvidia``). Reading them changes nothing and needs no rights."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from profiler.collectors.gpu.counter_csv import DeviceSample
from profiler.collectors.sampling import SampleFailed


class Nvml:
    """NVML, initialised. Raises SampleFailed where the package or the driver is missing."""

    def __init__(self) -> None:
        try:
            self._nvml: Any = importlib.import_module("pynvml")
        except ImportError:
            raise SampleFailed("pynvml is not installed: pip install 'serving-profiler[nvidia]'") from None
        try:
            self._nvml.nvmlInit()
            self._driver = _text(self._nvml.nvmlSystemGetDriverVersion())
            self._handles = [self._nvml.nvmlDeviceGetHandleByIndex(at) for at in range(self._nvml.nvmlDeviceGetCount())]
        except self._nvml.NVMLError as error:
            raise SampleFailed(f"NVML: {error}") from None
        # Counters of NVLink as they were: device -> (seconds, bytes by direction).
        self._sent: dict[int, tuple[float, dict[str, float]]] = {}

    def read(self) -> Sequence[DeviceSample]:
        """One sample of every device; what a device does not support is None."""
        return [self._sample(at, handle) for at, handle in enumerate(self._handles)]

    def processes(self) -> dict[int, list[int]]:
        """Process -> devices. In a container the driver's numbers are those of the host and match nothing."""
        found: dict[int, list[int]] = {}
        for at, handle in enumerate(self._handles):
            for one in self._try(self._nvml.nvmlDeviceGetComputeRunningProcesses, handle) or ():
                found.setdefault(int(one.pid), []).append(at)
        return found

    def close(self) -> None:
        """Shut NVML down."""
        self._try(self._nvml.nvmlShutdown)

    def _sample(self, at: int, handle: object) -> DeviceSample:
        n = self._nvml
        power = self._try(n.nvmlDeviceGetPowerUsage, handle)
        rates = self._try(n.nvmlDeviceGetUtilizationRates, handle)
        memory = self._try(n.nvmlDeviceGetMemoryInfo, handle)
        # Called throttle reasons before the bindings of driver 535.
        asked = getattr(n, "nvmlDeviceGetCurrentClocksEventReasons", n.nvmlDeviceGetCurrentClocksThrottleReasons)
        return DeviceSample(
            index=at,
            name=_text(self._try(n.nvmlDeviceGetName, handle) or ""),
            driver=self._driver,
            clock=self._try(n.nvmlDeviceGetClockInfo, handle, n.NVML_CLOCK_SM),
            most_clock=self._try(n.nvmlDeviceGetMaxClockInfo, handle, n.NVML_CLOCK_SM),
            power=None if power is None else power / 1e3,
            utilisation=None if rates is None else float(rates.gpu),
            memory=None if memory is None else memory.used / 2**20,
            temperature=self._try(n.nvmlDeviceGetTemperature, handle, n.NVML_TEMPERATURE_GPU),
            reasons=self._try(asked, handle),
            links=self._pcie(handle) | self._nvlink(at, handle),
        )

    def _pcie(self, handle: object) -> dict[str, float]:
        """MB/s. NVML counts for 20 ms a direction and says KB/s (nvml.h, nvmlDeviceGetPcieThroughput)."""
        n = self._nvml
        asked = ("PCIe sent", n.NVML_PCIE_UTIL_TX_BYTES), ("PCIe received", n.NVML_PCIE_UTIL_RX_BYTES)
        found = {name: self._try(n.nvmlDeviceGetPcieThroughput, handle, counter) for name, counter in asked}
        return {name: value / 1e3 for name, value in found.items() if value is not None}

    def _nvlink(self, at: int, handle: object) -> dict[str, float]:
        """MB/s over all links since the sample before; nothing in the first one. NVML counts KiB since the driver was
        loaded, for the whole device (nvml.h, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX)."""
        n = self._nvml
        fields = n.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, n.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX
        answers = self._try(n.nvmlDeviceGetFieldValues, handle, list(fields)) or ()
        now = {
            name: float(answer.value.ullVal) * 1024
            for name, answer in zip(("NVLink sent", "NVLink received"), answers, strict=False)
            if answer.nvmlReturn == n.NVML_SUCCESS
        }
        before, self._sent[at] = self._sent.get(at), (time.monotonic(), now)
        if before is None or self._sent[at][0] <= before[0]:
            return {}
        seconds = self._sent[at][0] - before[0]
        return {
            name: (value - before[1][name]) / seconds / 1e6
            for name, value in now.items()
            if value >= before[1].get(name, value + 1)
        }

    def _try(self, call: Callable[..., Any], *arguments: object) -> Any:
        try:
            return call(*arguments)
        except self._nvml.NVMLError:
            return None


def _text(value: str | bytes) -> str:
    """Older bindings return bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
