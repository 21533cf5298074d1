"""Device counters while an engine runs, written in the form of ``nvidia-smi --query-gpu=… --format=csv,nounits``.

One row a device and a moment, the stamp in UTC: the reader of that form reads every vendor's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol

from profiler.collectors.run_folder import RunFolder
from profiler.collectors.sampling import Cost, SampleFailed
from profiler.model.counters import LINKS

HEADER: Final = (
    "timestamp, index, name, driver_version, clocks.current.sm [MHz], clocks.max.sm [MHz], power.draw [W], "
    "utilization.gpu [%], memory.used [MiB], temperature.gpu, clocks_event_reasons.active, "
    "pcie.tx [MB/s], pcie.rx [MB/s], nvlink.tx [MB/s], nvlink.rx [MB/s]\n"
)


@dataclass(frozen=True)
class DeviceSample:
    """One device at one moment; None where the driver does not say. Clocks in MHz, power in watts, utilisation 0..100,
    memory in MiB, ``reasons`` the bits of what holds the clock back, ``links`` MB/s by direction (LINKS)."""

    index: int
    name: str
    driver: str
    clock: float | None
    most_clock: float | None
    power: float | None
    utilisation: float | None
    memory: float | None
    temperature: float | None
    reasons: int | None
    links: Mapping[str, float] = field(default_factory=dict[str, float])


class Devices(Protocol):
    """A vendor's library, opened."""

    def read(self) -> Sequence[DeviceSample]:
        """One sample of every device. Raises SampleFailed."""
        ...

    def processes(self) -> dict[int, list[int]]:
        """Process -> the devices that it uses, as the driver says."""
        ...

    def close(self) -> None:
        """Let go of the library."""
        ...


class GpuCountersWriter:
    """Samples devices into ``gpu.csv``."""

    vital = False

    def __init__(self, devices: Devices, folder: RunFolder, period: float) -> None:
        self.cost = Cost("gpu")
        self.period = period
        self._devices, self._folder, self._headed = devices, folder, False

    def take(self, seconds: float) -> None:
        """A row for each device."""
        rows = self._devices.read()
        if not rows:
            raise SampleFailed("the driver names no device")
        stamp = datetime.now(UTC).strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]
        text = "".join(_row(stamp, one) for one in rows)
        self.cost.written += self._folder.append("gpu.csv", (text if self._headed else HEADER + text).encode())
        self._headed = True

    def close(self) -> None:
        """Let go."""
        self._devices.close()


def _row(stamp: str, one: DeviceSample) -> str:
    numbers = (one.clock, one.most_clock, one.power, one.utilisation, one.memory, one.temperature)
    told, links = (
        ["[N/A]" if value is None else f"{value:g}" for value in values]
        for values in (numbers, [one.links.get(direction) for direction in LINKS])
    )
    reasons = "[N/A]" if one.reasons is None else f"0x{one.reasons:016x}"
    name, driver = (text.replace(",", " ") for text in (one.name, one.driver))
    return ", ".join((stamp, str(one.index), name, driver, *told, reasons, *links)) + "\n"
