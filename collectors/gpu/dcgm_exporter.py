"""A scrape of the DCGM exporter: gauges named ``DCGM_FI_…`` with a label for each device.

Read off a scrape of a GB200 host and the exporter's list of counters: clocks in MHz, power in watts, utilisation in
percent. The text has no time: that of the file's name counts where it holds one. Profiling counters
(``DCGM_FI_PROF_…``) are often switched off; utilisation only says that a kernel was resident.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors.bounded_text import whole_text
from profiler.collectors.gpu.sampled_rows import DeviceSample, counters_of, scaled
from profiler.collectors.redaction import redact_text
from profiler.collectors.scheduler.exposition import samples
from profiler.collectors.scheduler.prometheus import position
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.run import Reading

SM_CLOCK: Final = "DCGM_FI_DEV_SM_CLOCK"
POWER: Final = ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_POWER_USAGE_INSTANT")
UTILISATION: Final = "DCGM_FI_DEV_GPU_UTIL"
MAX_SM_CLOCK: Final = "DCGM_FI_DEV_MAX_SM_CLOCK"
REASONS: Final = ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS")
IDLE_BIT: Final = 0x1  # dcgm_fields.h: a device with nothing to do is not held back
_FIRST: Final = re.compile(rb"\A(?:\s*#[^\n]*\n)*\s*DCGM_FI_\w+\s*\{")


class DcgmExporter:
    """See ``profiler.model.extension.Format``."""

    name = "dcgm_exporter"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By the first sample's name."""
        return 0.93 if _FIRST.search(head) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One sample for each device."""
        text = whole_text(source)
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", source.broken))
        devices: dict[str, dict[str, float]] = {}
        labels: dict[str, Mapping[str, str]] = {}
        bad: list[int] = []
        for line, sample in samples(text.splitlines()):
            if sample is None:
                bad.append(line)
                continue
            own = dict(sample.labels)
            key = own.get("UUID") or own.get("gpu")
            if not sample.name.startswith("DCGM_FI_") or key is None:
                continue
            labels.setdefault(key, own)
            devices.setdefault(key, {})[sample.name] = sample.value
        if bad:
            detail = "a line is no sample and was left out"
            problems.append(Problem(source.name, "warning", detail, f"line {bad[0]}", len(bad)))
        if not devices:
            raise BadInput(source.name, "no counter of a device", "Save the exporter's /metrics as it is", "line 1")
        clock = _clock(source.name)
        rows = [_row(values, labels[key], clock, at) for at, (key, values) in enumerate(devices.items())]
        if not any(name.startswith("DCGM_FI_PROF_") for values in devices.values() for name in values):
            detail = "no profiling counters: how busy the SMs and tensor cores were is not in the scrape"
            problems.append(Problem(source.name, "info", detail))
        one = next(iter(labels.values()))
        facts: dict[str, Fact[object]] = {"hardware.count": Fact(len(rows), f"{source.name}: devices sampled")}
        for label, fact in (("modelName", "hardware.gpu"), ("DCGM_FI_DRIVER_VERSION", "hardware.driver")):
            if one.get(label):
                facts[fact] = Fact(redact_text(one[label]), f"{source.name}: label {label}", inferred=False)
        return Reading(counters=(counters_of(source.name, rows),), facts=facts, problems=tuple(problems))


def _row(values: Mapping[str, float], labels: Mapping[str, str], clock: float | None, at: int) -> DeviceSample:
    index = labels.get("gpu", "")
    reasons = next((values[name] for name in REASONS if name in values), None)
    held = None if reasons is None or not 0 <= reasons < 2**63 else float(bool(int(reasons) & ~IDLE_BIT))
    return DeviceSample(
        gpu=int(index) if re.fullmatch(r"\d{1,9}", index) else at,
        clock=clock,
        sm_clock=scaled(values.get(SM_CLOCK), 1e6),
        max_sm_clock=scaled(values.get(MAX_SM_CLOCK), 1e6),
        power=next((values[name] for name in POWER if name in values), None),
        utilisation=scaled(values.get(UTILISATION), 0.01),
        throttled=held,
    )


def _clock(path: str) -> float | None:
    """Seconds since the epoch where the file's name is such a time, in s, ms or ns."""
    order, seconds = position(path)
    if seconds is not None or not 1e9 <= order < 1e17:
        return None
    return order if order < 1e11 else order / 1e3 if order < 1e14 else None


FORMAT: Final = DcgmExporter()
