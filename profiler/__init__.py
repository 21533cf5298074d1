"""Why is this LLM serving engine faster than that one, and what do I turn to close the gap?

``diagnose(a, b)`` opens two runs and returns the result document; ``open_run(path)`` opens one; ``bench(url, out)``
sends a load and leaves one; ``capture(path)`` records an engine that runs inside this program.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from profiler.collectors.torch_trace.capture import Capture
    from profiler.model.diagnosis import Diagnosis
    from profiler.model.run import Run

__all__ = ["__version__", "bench", "capture", "diagnose", "open_run"]
__version__ = "0.1.0"

# How long OpenBLAS's threads wait awake for work, as a power of two of processor cycles: the least that it takes.
_WAITING: Final = ("OPENBLAS_THREAD_TIMEOUT", "4")


def open_run(path: str | Path) -> Run:
    """Open a run folder, or a single file, with all built-in formats and engines.

    Raises ``profiler.errors.UsageError`` where nothing lies at ``path``.
    """
    _load_numpy()
    from profiler import registry
    from profiler.store import opening

    return opening.open_run(Path(path), registry.formats(), registry.engines(), registry.relabelled, registry.redacted)


def diagnose(
    a: str | Path, b: str | Path, *, metrics: Sequence[str] = (), slo: Mapping[str, float] | None = None
) -> Diagnosis:
    """Explain run ``b`` against run ``a``: the document that ``profiler diagnose --json`` prints.

    ``metrics`` are named as for the command, the usual ones where none is; ``slo`` (seconds by ttft, tpot, e2e) adds
    goodput. ``a`` may be a stored baseline, which takes no ``slo``. A notebook shows the document as the HTML report.
    Raises ``profiler.errors.UsageError`` where nothing lies at a path.
    """
    _load_numpy()
    from profiler import registry
    from profiler.analyzers.gap.ledgers import DEFAULT_METRICS
    from profiler.analyzers.kept_diagnosis import kept_diagnosis
    from profiler.analyzers.stored_pair import against
    from profiler.errors import UsageError
    from profiler.reports.notebook import shown
    from profiler.store.documents import NO_OBJECTIVE, stored_baseline

    stored = stored_baseline(Path(a))
    if stored is not None:
        if slo:
            raise UsageError(NO_OBJECTIVE)
        return shown(against(stored, open_run(b), metrics or DEFAULT_METRICS))
    runs = open_run(a), open_run(b)
    return shown(kept_diagnosis(*runs, metrics or DEFAULT_METRICS, slo, registry.engines()))


def bench(
    url: str,
    out: str | Path,
    *,
    rate: Sequence[float] = (),
    concurrency: Sequence[int] = (),
    requests: int | None = None,
    duration: float | None = None,
    warmup: int = 10,
    input_tokens: str = "512",
    output_tokens: str | None = None,
    shared_prefix: tuple[int, int] | None = None,
    dataset: str | Path | None = None,
    seed: int = 0,
    endpoint: str = "completions",
    plan: str | Path | None = None,
    headers: Mapping[str, str] | None = None,
    processes: int = 1,
) -> Run:
    """Send a load as ``profiler bench`` does and open the run that it leaves in ``out``.

    ``rate`` are requests/s of an open loop, ``concurrency`` requests in flight of a closed one; several are a sweep.
    ``duration`` is seconds; lengths are written as for the command; ``shared_prefix`` is (groups, tokens). ``headers``
    are sent and never recorded. Not to be called while an event loop runs in this thread. Raises
    ``profiler.errors.ProfilerError`` before the first request where something is wrong.
    """
    from profiler import registry
    from profiler.collectors.client import load
    from profiler.collectors.client.lengths import parse_lengths
    from profiler.collectors.client.target import parse_target
    from profiler.collectors.client.workload import Workload

    work = Workload(
        rates=rate,
        concurrencies=concurrency,
        requests=requests,
        duration=duration,
        warmup=warmup,
        input=parse_lengths(input_tokens),
        output=None if output_tokens is None else parse_lengths(output_tokens),
        shared_prefix=shared_prefix,
        dataset=None if dataset is None else Path(dataset),
        seed=seed,
        form="text" if endpoint == "chat" else "ids",
    )
    order = load.Order(
        target=parse_target(url, tuple((headers or {}).items())),
        out=Path(out),
        work=work,
        plan=None if plan is None else Path(plan),
        endpoint=endpoint,
        processes=processes,
        version=__version__,
    )
    load.send_load(order, registry.engines())
    return open_run(out)


def capture(out: str | Path, engine: object = None, steps: int | None = None, skip: int = 0) -> Capture:
    """A context in which what this program runs is traced into a new run folder; needs the extra ``torch``.

    ``engine``: an object whose own ``start_profile`` and ``stop_profile`` reach its worker processes; without it this
    process is traced. ``steps``: trace so many calls of ``Capture.step`` after the first ``skip``; without it
    everything in the context is traced.
    """
    from profiler.collectors.torch_trace.capture import Capture

    return Capture(Path(out), engine, steps, skip)


def _load_numpy() -> None:
    """Import numpy with threads for linear algebra that sleep until there is work. As they come, they wait for it awake
    when they have started, which is a third of the import's processor time; nothing else about them changes."""
    if "numpy" in sys.modules:
        return
    name, cycles = _WAITING
    given = os.environ.get(name)
    os.environ.setdefault(name, cycles)
    try:
        import numpy  # noqa: F401
    finally:
        # It was read when the library was loaded; programs that are started from here must not inherit it.
        if given is None:
            del os.environ[name]
