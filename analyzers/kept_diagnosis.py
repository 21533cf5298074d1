"""A diagnosis, kept with the traces of its runs: asked for again in another form, it is not made again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from profiler.analyzers.diagnosis import diagnose
from profiler.analyzers.gap.ledgers import DEFAULT_METRICS
from profiler.model.diagnosis import Diagnosis
from profiler.model.extension import Engine
from profiler.model.run import Run
from profiler.store.derived import derived

CODE: Final = ("profiler.analyzers", "profiler.collectors", "profiler.model", "profiler.store")


def kept_diagnosis(
    run_a: Run,
    run_b: Run,
    metrics: Sequence[str] = DEFAULT_METRICS,
    slo: Mapping[str, float] | None = None,
    engines: Sequence[Engine] = (),
) -> Diagnosis:
    """See ``diagnose``. Made each time of runs whose traces are not kept."""

    def made() -> Diagnosis:
        # As it is read back: a number is written alike whether it was kept or not.
        document = diagnose(run_a, run_b, metrics, slo, engines)
        return msgspec.msgpack.decode(msgspec.msgpack.encode(document), type=Diagnosis)

    if run_a.state is None or run_b.state is None:
        return made()
    asked = (metrics, sorted((slo or {}).items()), [engine.name for engine in engines])
    of = repr((*((run.name, run.path, run.state) for run in (run_a, run_b)), *asked))
    return derived((*run_a.traces, *run_b.traces), "diagnosis", Diagnosis, CODE, made, of)
