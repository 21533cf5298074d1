"""``dcgmi dmon``: a table of short field names, printed again and again, one row a device and interval.

Read off DCGM's field list. The header is two lines (names, units); a row begins with ``GPU 0``. There is no time in
it. Clocks are MHz, power watts, GPUTL percent; the profiling ratios (SMACT and the like) are 0..1 and not taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors.bounded_text import whole_text
from profiler.collectors.gpu.sampled_rows import DeviceSample, counters_of, scaled
from profiler.collectors.json_text import number
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.run import Reading

_HEADER: Final = re.compile(rb"(?m)\A(?:[^\n]*\n){0,3}?#\s?Entity\s+[A-Z0-9]")
_ROW: Final = re.compile(r"\s*GPU[ -](\d{1,9})\s+(\S.*?)\s*")


class DcgmDmon:
    """See ``profiler.model.extension.Format``."""

    name = "dcgm_dmon"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By the header's first word."""
        return 0.9 if _HEADER.search(head[:4096]) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One sample for each row of a device."""
        text = whole_text(source)
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", source.broken))
        names: list[str] = []
        rows: list[DeviceSample] = []
        bad: list[int] = []
        for line, raw in enumerate(text.splitlines(), 1):
            words = raw.lstrip("# ").split()
            if words[:1] == ["Entity"]:
                names = words[1:]
                continue
            match = _ROW.fullmatch(raw[:2000])
            if match is None:
                continue
            cells = match[2].split()
            if len(cells) != len(names):
                bad.append(line)
                continue
            rows.append(_row(int(match[1]), dict(zip(names, cells, strict=True))))
        if bad:
            detail = f"a row has not the header's {len(names)} fields and was left out"
            problems.append(Problem(source.name, "warning", detail, f"line {bad[0]}", len(bad)))
        if not rows:
            raise BadInput(source.name, "no row of a device", "Keep the header: dcgmi dmon -e 155,100,203", "line 1")
        problems.append(Problem(source.name, "info", "the samples have no time, so they are one set of the whole run"))
        return Reading(counters=(counters_of(source.name, rows),), problems=tuple(problems))


def _row(gpu: int, cells: Mapping[str, str]) -> DeviceSample:
    values = {key: found for key, cell in cells.items() if (found := number(cell)) is not None}
    return DeviceSample(
        gpu=gpu,
        sm_clock=scaled(values.get("SMCLK"), 1e6),
        power=values.get("POWER", values.get("PWR")),
        utilisation=scaled(values.get("GPUTL"), 0.01),
    )


FORMAT: Final = DcgmDmon()
