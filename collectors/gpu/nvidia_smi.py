"""``nvidia-smi --query-gpu=… --format=csv`` output, with or without ``nounits``, of one or several devices."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import numpy as np

from profiler.collectors.bounded_text import whole_text
from profiler.errors import BadInput
from profiler.model.counters import LINKS, GpuCounters
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.run import Reading

SM_CLOCK: Final = ("clocks.current.sm", "clocks.sm", "clocks.current.graphics", "clocks.gr")
MAX_CLOCK: Final = ("clocks.max.sm", "clocks.max.graphics", "clocks.max.gr")
POWER: Final = ("power.draw", "power.draw.instant", "power.draw.average")
# Columns that our own collector adds; nvidia-smi has no such.
LINK_COLUMNS: Final = dict(zip(LINKS, ("pcie.tx", "pcie.rx", "nvlink.tx", "nvlink.rx"), strict=True))
SCALES: Final = {"MB/s": 1e6, "MHz": 1e6, "kHz": 1e3, "Hz": 1.0, "W": 1.0, "mW": 1e-3, "%": 0.01}
IDLE_BIT: Final = 0x1  # nvml.h, ClocksEventReasonGpuIdle: a device with nothing to do is not held back
_HEADER: Final = re.compile(
    r"^\s*(?:timestamp|index|name|uuid|gpu_uuid|gpu_name|[a-z_]+\.[a-z_.]+)(?: \[[^\]]*\])?\s*$"
)
_COLUMN: Final = re.compile(r"([^\[]+?)\s*(?:\[([^\]]*)\])?\s*$")
_VALUE: Final = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*([A-Za-z%]*)$")
_STAMPS: Final = ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S.%f")


class NvidiaSmi:
    """See ``profiler.model.extension.Format``."""

    name = "nvidia_smi"
    version = 2

    def sniff(self, head: bytes, name: str) -> float:
        """By the names of the first row's columns."""
        first = head[:4096].decode("utf-8", "replace").lstrip("\ufeff").split("\n", 1)[0]
        cells = first.split(",")
        known = sum(1 for cell in cells if _HEADER.match(cell))
        telling = any(
            word in first for word in ("utilization.gpu", "clocks.", "power.draw", "memory.used", "temperature.gpu")
        )
        return 0.93 if len(cells) > 1 and telling and known >= 0.8 * len(cells) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """Clocks in Hz, power in watts, utilisation 0..1; NaN for ``[N/A]`` and for columns that were not asked for."""
        text = whole_text(source).replace("\0", "")
        rows = _rows(text)
        if not rows:
            raise BadInput(source.name, "no header line", "Query with --format=csv, keeping the header", "line 1")
        header = [_COLUMN.match(cell.strip()) for cell in rows[0]]
        names = [match[1] if match else "" for match in header]
        units = [(match[2] or "") if match else "" for match in header]
        kept: list[dict[str, tuple[str, str]]] = []
        bad: list[int] = []
        for number, row in enumerate(rows[1:], 2):
            if [cell.strip() for cell in row] == [cell.strip() for cell in rows[0]]:
                continue  # a restarted query writes its header again
            if len(row) != len(names):
                bad.append(number)
                continue
            kept.append({n: (cell.strip(), unit) for n, cell, unit in zip(names, row, units, strict=True)})
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", source.broken))
        if bad:
            detail = f"a row has not the header's {len(names)} fields and was left out"
            problems.append(Problem(source.name, "warning", detail, f"row {bad[0]}", len(bad)))
        if not kept:
            problems.append(Problem(source.name, "warning", "a header and no sample below it"))
            return Reading(problems=tuple(problems))
        return Reading(
            counters=(_counters(kept, source.name),), facts=_facts(kept, source.name), problems=tuple(problems)
        )


def _rows(text: str) -> list[list[str]]:
    try:
        return [row for row in csv.reader(text.splitlines(), skipinitialspace=True) if row]
    except csv.Error:  # a field of more than 128 KiB
        return []


def _counters(rows: Sequence[Mapping[str, tuple[str, str]]], path: str) -> GpuCounters:
    devices = _devices(rows)
    return GpuCounters(
        path=path,
        clock=np.array([_clock(row.get("timestamp", ("", ""))[0]) for row in rows]),
        gpu=np.array(devices, np.int64),
        sm_clock=_measure(rows, SM_CLOCK, 1e6),
        max_sm_clock=_measure(rows, MAX_CLOCK, 1e6),
        power=_measure(rows, POWER, 1.0),
        utilisation=_measure(rows, ("utilization.gpu",), 0.01),
        throttled=np.array([_throttled(row) for row in rows]),
        links={
            link: values
            for link, column in LINK_COLUMNS.items()
            if np.isfinite(values := _measure(rows, (column,), 1e6)).any()
        },
    )


def _devices(rows: Sequence[Mapping[str, tuple[str, str]]]) -> list[int]:
    """The index of each row's device; without an index column devices are numbered by their first appearance."""
    seen: dict[str, int] = {}
    out: list[int] = []
    for row in rows:
        index = row.get("index", ("", ""))[0]
        if re.fullmatch(r"\d{1,9}", index):
            out.append(int(index))
            continue
        key = next((row[name][0] for name in ("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id") if name in row), "")
        out.append(seen.setdefault(key, len(seen)))
    return out


def _measure(
    rows: Sequence[Mapping[str, tuple[str, str]]], names: Sequence[str], scale: float
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    name = next((name for name in names if name in rows[0]), None)
    out = np.full(len(rows), np.nan)
    if name is None:
        return out
    for at, row in enumerate(rows):
        text, unit = row[name]
        match = _VALUE.match(text)
        if match is not None:
            out[at] = float(match[1]) * SCALES.get(match[2] or unit, scale)
    return out


def _throttled(row: Mapping[str, tuple[str, str]]) -> float:
    """1 where a reason other than idling was active; the columns were called throttle reasons before driver 535."""
    known = False
    for name, (text, _) in row.items():
        start, _, reason = name.partition(".")
        if start not in ("clocks_event_reasons", "clocks_throttle_reasons") or reason in ("gpu_idle", "supported"):
            continue
        if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", text):
            known = True
            if int(text, 16) & ~IDLE_BIT:
                return 1.0
        elif text in ("Active", "Not Active"):
            known = True
            if text == "Active":
                return 1.0
    return 0.0 if known else float("nan")


def _clock(text: str) -> float:
    for form in _STAMPS:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    return float("nan")


def _facts(rows: Sequence[Mapping[str, tuple[str, str]]], path: str) -> dict[str, Fact[object]]:
    """Device name, number of devices and driver, as the device's own driver printed them."""
    facts: dict[str, Fact[object]] = {"hardware.count": Fact(len(set(_devices(rows))), f"{path}: devices sampled")}
    for column, key in (("name", "hardware.gpu"), ("gpu_name", "hardware.gpu"), ("driver_version", "hardware.driver")):
        if column in rows[0] and rows[0][column][0]:
            facts[key] = Fact(rows[0][column][0], f"{path}: column {column}", inferred=False)
    return facts


FORMAT: Final = NvidiaSmi()
