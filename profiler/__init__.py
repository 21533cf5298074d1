"""Why is this LLM serving engine faster than that one, and what do I turn to close the gap?

``diagnose(a, b)`` opens two runs and returns the result document; ``open_run(path)`` opens one; ``capture(path)``
records an engine that runs inside this program.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from profiler.collectors.torch_trace.capture import Capture
    from profiler.model.diagnosis import Diagnosis
    from profiler.model.run import Run

__all__ = ["__version__", "capture", "diagnose", "open_run"]
__version__ = "0.1.0"


def open_run(path: str | Path) -> Run:
    """Open a run folder, or a single file, with all built-in formats and engines.

    Raises ``profiler.errors.UsageError`` where nothing lies at ``path``.
    """
    from profiler import registry
    from profiler.store import opening

    return opening.open_run(Path(path), registry.formats(), registry.engines(), registry.relabelled, registry.redacted)


def diagnose(a: str | Path, b: str | Path) -> Diagnosis:
    """Explain run ``b`` against run ``a``: the document that ``profiler diagnose --json`` prints."""
    from profiler.analyzers import diagnosis

    return diagnosis.diagnose(open_run(a), open_run(b))


def capture(out: str | Path, engine: object = None, steps: int | None = None, skip: int = 0) -> Capture:
    """A context in which what this program runs is traced into a new run folder; needs the extra ``torch``.

    ``engine``: an object whose own ``start_profile`` and ``stop_profile`` reach its worker processes; without it this
    process is traced. ``steps``: trace so many calls of ``Capture.step`` after the first ``skip``; without it
    everything in the context is traced.
    """
    from profiler.collectors.torch_trace.capture import Capture

    return Capture(Path(out), engine, steps, skip)
