"""AIPerf's ``gpu_telemetry_export.jsonl``: what its collector read from DCGM exporters, one line a device and scrape.

Read off files of AIPerf 0.3: ns since the epoch, watts, percent, MHz, memory in GB of 1e9 bytes. Two exporters of one
host report the same devices: each device is taken from the exporter that named it first. ``power_violation`` and
``thermal_violation`` are times that only grow, so a device was held back where one of them grew since the last line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors.bounded_text import whole_text
from profiler.collectors.gpu.sampled_rows import DeviceSample, counters_of, scaled
from profiler.collectors.json_text import count, mapping, number, objects, string
from profiler.collectors.redaction import redact_text
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.run import Reading

VIOLATIONS: Final = ("power_violation", "thermal_violation")
_LINE: Final = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\{[^\n]{0,2000}"telemetry_data"\s*:')


class AiperfTelemetry:
    """See ``profiler.model.extension.Format``."""

    name = "aiperf_telemetry"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By the two keys of every line."""
        return 0.92 if _LINE.search(head) and b'"timestamp_ns"' in head else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """Samples of every device, in the order of the lines."""
        text = whole_text(source)
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", source.broken))
        exporters: dict[str, object] = {}
        indices: dict[str, int] = {}
        before: dict[str, Mapping[str, float]] = {}
        rows: list[DeviceSample] = []
        strange: list[int] = []
        repeated = 0
        model: str | None = None
        for line, record in objects(text):
            stamp = number((record or {}).get("timestamp_ns"))
            told = mapping((record or {}).get("telemetry_data"))
            if record is None or stamp is None or not told or abs(stamp) == float("inf"):
                strange.append(line)
                continue
            index = count(record.get("gpu_index"))
            key = string(record.get("gpu_uuid")) or f"{record.get('hostname')}/{index}"
            if exporters.setdefault(key, record.get("dcgm_url")) != record.get("dcgm_url"):
                repeated += 1
                continue
            gpu = indices.setdefault(
                key, index if index is not None and index not in indices.values() else len(indices)
            )
            held = {name: value for name in VIOLATIONS if (value := number(told.get(name))) is not None}
            rows.append(_row(gpu, stamp, told, held, before.get(key)))
            before[key] = held
            model = model or string(record.get("gpu_model_name"))
        if strange:
            detail = "a line is no sample of a device and was left out"
            problems.append(Problem(source.name, "warning", detail, f"line {strange[0]}", len(strange)))
        if repeated:
            detail = "a second exporter reports a device that the first one did: the first one's samples were taken"
            problems.append(Problem(source.name, "info", detail, count=repeated))
        if not rows:
            raise BadInput(source.name, "no sample of a device", "Take the tool's own JSON lines as they are", "line 1")
        facts: dict[str, Fact[object]] = {"hardware.count": Fact(len(indices), f"{source.name}: devices sampled")}
        if model is not None:
            facts["hardware.gpu"] = Fact(redact_text(model), f"{source.name}: gpu_model_name", inferred=False)
        return Reading(counters=(counters_of(source.name, rows),), facts=facts, problems=tuple(problems))


def _row(
    gpu: int, stamp: float, told: Mapping[str, object], held: Mapping[str, float], before: Mapping[str, float] | None
) -> DeviceSample:
    both = [name for name in held if before is not None and name in before]
    grew = None if before is None or not both else float(any(held[name] > before[name] for name in both))
    return DeviceSample(
        gpu=gpu,
        clock=stamp / 1e9,
        sm_clock=scaled(number(told.get("sm_clock_frequency")), 1e6),
        power=number(told.get("gpu_power_usage")),
        utilisation=scaled(number(told.get("gpu_utilization")), 0.01),
        throttled=grew,
    )


FORMAT: Final = AiperfTelemetry()
