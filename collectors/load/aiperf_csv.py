"""The CSV summaries of AIPerf and genai-perf: a block of distributions, then a block of single values.

The blocks are parted by a blank line and have their own headers (``Metric,avg,min,…`` and ``Metric,Value``); units
stand in the metrics' names. The JSON file of the same folder holds the same numbers at full precision.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors.bounded_text import whole_text
from profiler.collectors.load.aiperf import result_of
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.run import Reading

_HEADER: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*Metric,\s*(?:avg|min|Value)\b")
_NAME: Final = re.compile(r"\s*(.*?)\s*(?:\(([^()]*)\))?\s*")


class AiperfCsv:
    """See ``profiler.model.extension.Format``."""

    name = "aiperf_csv"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By the header of the first block and a metric that both tools print."""
        return 0.9 if _HEADER.search(head) and b"Request Latency" in head else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """The numbers as printed, which are rounded to two digits."""
        text = whole_text(source).replace("\0", "")
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", source.broken))
        record, bad = _metrics(text)
        if bad:
            detail = "a row has not the fields of its header and was left out"
            problems.append(Problem(source.name, "warning", detail, f"row {bad[0]}", len(bad)))
        if "request_latency" not in record:
            raise BadInput(source.name, "no Request Latency row found", "Take the tool's own CSV export as it is")
        result, found = result_of(record, source.name)
        problems.append(Problem(source.name, "info", "a CSV summary: its numbers are rounded as the tool printed them"))
        return Reading(benches=(result,), problems=(*problems, *found))


def _metrics(text: str) -> tuple[Mapping[str, object], list[int]]:
    """Metrics by the names of the JSON export, each with its unit and statistics."""
    found: dict[str, object] = {}
    bad: list[int] = []
    header: list[str] = []
    try:
        rows = list(csv.reader(text.splitlines()))
    except csv.Error:  # a field of more than 128 KiB
        rows = []
    for number, row in enumerate(rows, 1):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            header = []
        elif cells[0] == "Metric":
            header = ["avg" if cell == "Value" else cell for cell in cells]
        elif header and len(cells) == len(header):
            match = _NAME.fullmatch(cells[0])
            name, unit = (match[1], match[2]) if match else (cells[0], None)
            values = {key: cell.replace(",", "") for key, cell in zip(header[1:], cells[1:], strict=True) if cell}
            found[re.sub(r"\W+", "_", name.lower())] = {"unit": unit or "", **values}
        elif header:
            bad.append(number)
    return found, bad


FORMAT: Final = AiperfCsv()
