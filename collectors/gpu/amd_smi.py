"""AMD's counters through amdsmi (the extra ``amd``). Reading them changes nothing."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from profiler.collectors.gpu.counter_csv import DeviceSample
from profiler.collectors.json_text import mapping, number
from profiler.collectors.sampling import SampleFailed


class AmdSmi:
    """amdsmi, initialised. Raises SampleFailed where the package or the driver is missing."""

    def __init__(self) -> None:
        try:
            self._smi: Any = importlib.import_module("amdsmi")
        except (ImportError, OSError, KeyError):
            # The package looks for the driver's library when it is imported.
            raise SampleFailed("amdsmi is not installed: pip install 'serving-profiler[amd]'") from None
        try:
            self._smi.amdsmi_init()
            self._handles = list(self._smi.amdsmi_get_processor_handles())
        except self._smi.AmdSmiException as error:
            raise SampleFailed(f"amdsmi: {error}") from None

    def read(self) -> Sequence[DeviceSample]:
        """One sample of every device. What holds a clock back is not told in a form that all devices share."""
        return [self._sample(at, handle) for at, handle in enumerate(self._handles)]

    def processes(self) -> dict[int, list[int]]:
        """Process -> devices, as the driver says."""
        found: dict[int, list[int]] = {}
        for at, handle in enumerate(self._handles):
            for one in self._try(self._smi.amdsmi_get_gpu_process_list, handle) or ():
                pid = number(mapping(one).get("pid"))
                if pid is not None:
                    found.setdefault(int(pid), []).append(at)
        return found

    def close(self) -> None:
        """Shut the library down."""
        self._try(self._smi.amdsmi_shut_down)

    def _sample(self, at: int, handle: object) -> DeviceSample:
        smi = self._smi
        clock = mapping(self._try(smi.amdsmi_get_clock_info, handle, smi.AmdSmiClkType.GFX))
        power = mapping(self._try(smi.amdsmi_get_power_info, handle))
        busy = mapping(self._try(smi.amdsmi_get_gpu_activity, handle))
        asic = mapping(self._try(smi.amdsmi_get_gpu_asic_info, handle))
        driver = mapping(self._try(smi.amdsmi_get_gpu_driver_info, handle))
        memory = self._try(smi.amdsmi_get_gpu_memory_usage, handle, smi.AmdSmiMemoryType.VRAM)
        drawn = number(power.get("current_socket_power"))
        return DeviceSample(
            index=at,
            name=str(asic.get("market_name") or ""),
            driver=str(driver.get("driver_version") or ""),
            clock=number(clock.get("clk", clock.get("cur_clk"))),
            most_clock=number(clock.get("max_clk")),
            power=drawn if drawn is not None else number(power.get("average_socket_power")),
            utilisation=number(busy.get("gfx_activity")),
            memory=None if number(memory) is None else float(memory) / 2**20,
            temperature=None,
            reasons=None,
        )

    def _try(self, call: Callable[..., Any], *arguments: object) -> Any:
        try:
            return call(*arguments)
        except self._smi.AmdSmiException:
            return None
