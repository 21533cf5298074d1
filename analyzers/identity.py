"""Which engine a run is of."""

from __future__ import annotations

from profiler.model.document import EngineRef
from profiler.model.run import Run


def engine_of(run: Run) -> EngineRef:
    """The engine as the run's files state or show it."""
    name, version = run.facts.get("engine.name"), run.facts.get("engine.version")
    if name is None:
        return EngineRef(name=None, version=None, source="no file of the run names its engine")
    source = f"{name.source} (inferred)" if name.inferred else name.source
    return EngineRef(name=str(name.value), version=None if version is None else str(version.value), source=source)
