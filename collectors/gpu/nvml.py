"""NVIDIA's counters through NVML (the extra ``nvidia``). Reading them changes nothing and needs no rights."""

from __future__ import annotations

import importlib
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
        )

    def _try(self, call: Callable[..., Any], *arguments: object) -> Any:
        try:
            return call(*arguments)
        except self._nvml.NVMLError:
            return None


def _text(value: str | bytes) -> str:
    """Older bindings return bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
