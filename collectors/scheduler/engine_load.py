"""An engine's answer about its load at one moment: gauges, of engines that expose them without metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors.engines import ENGINES
from profiler.collectors.json_text import decode, parse
from profiler.collectors.scheduler.prometheus import position
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.metrics import MetricsSnapshot
from profiler.model.run import Reading

LARGEST: Final = 1 << 24


class EngineLoad:
    """One answer of any known engine; see ``profiler.model.extension.Format``."""

    name = "engine_load"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """Sure where an engine reads its own gauges in it. An answer is smaller than what is looked at."""
        if head.lstrip()[:1] not in (b"{", b"["):
            return 0.0
        return 0.9 if _claim(ENGINES, parse(decode(head))) is not None else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One snapshot, placed in its run by the file's name like a scrape of metrics."""
        with source.open() as stream:
            claimed = _claim(engines, parse(decode(stream.read(LARGEST))))
        if claimed is None:
            raise BadInput(source.name, "no known engine's load", "Save the answer of the load address as it is")
        engine, values = claimed
        order, seconds = position(source.name)
        return Reading(
            snapshots=(MetricsSnapshot(source.name, engine.name, order, seconds, values),),
            facts={"engine.name": Fact(engine.name, f"{source.name}: the names of its load")},
        )


def _claim(engines: Sequence[Engine], answer: object) -> tuple[Engine, Mapping[str, float]] | None:
    for engine in engines:
        values = {} if engine.loads is None or answer is None else engine.loads(answer)
        if values:
            return engine, values
    return None


FORMAT: Final = EngineLoad()
