"""A run's torch-profiler traces in HolisticTraceAnalysis (extra ``hta``), for the analyses that it has and we don't.

    from profiler.collectors.torch_trace.hta import trace_analysis
    trace_analysis("run-A").get_queue_length_summary()

docs/peers.md says where its numbers differ from ours, and why.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from profiler.collectors.torch_trace.reader import FORMAT, RANK_IN_NAME
from profiler.errors import MissingEvidence, UsageError
from profiler.model.problem import Problem
from profiler.store.folder import files_of, run_root
from profiler.store.source import FileSource

_RANK: Final = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*(\d+)')
# What HTA opens, by the end of the name.
_ENDINGS: Final = (".json", ".json.gz")


def trace_analysis(run: str | Path, **options: object) -> Any:
    """HTA's ``TraceAnalysis`` of a run folder, or of one trace; ``options`` are passed on to it.

    Raises UsageError where HTA is not installed or can't open a trace, MissingEvidence where the run has none.
    """
    files = rank_files(Path(run))
    try:
        from hta.trace_analysis import TraceAnalysis
    except ImportError as error:
        raise UsageError("HolisticTraceAnalysis is not installed: pip install 'serving-profiler[hta]'") from error
    return TraceAnalysis(trace_files={rank: str(path) for rank, path in files.items()}, trace_dir="/", **options)


def rank_files(run: Path) -> dict[int, Path]:
    """The run's torch-profiler traces by the rank that each states (in distributedInfo, or in its name).

    Where no trace states one they are numbered in the order of their names.
    """
    problems: list[Problem] = []
    root = run_root(run)
    stated: dict[Path, int | None] = {}
    for path in files_of(run, problems):
        try:
            head = FileSource(path).head()
        except OSError:
            continue
        name = str(path.relative_to(root))
        if FORMAT.sniff(head, name) > 0.5:
            if not path.name.endswith(_ENDINGS):
                raise UsageError(f"{path}: HolisticTraceAnalysis opens *.json and *.json.gz only. Convert or rename it")
            stated[path.resolve()] = _rank(head, name)
    if not stated:
        how = "Name a folder with *.pt.trace.json[.gz] files, or one of them"
        raise MissingEvidence(str(run), "there is no torch-profiler trace in it", how)
    if not any(rank is not None for rank in stated.values()):
        return dict(enumerate(stated))
    found: dict[int, Path] = {}
    for path, rank in stated.items():
        if rank is None or rank in found:
            which = "states no rank, others do" if rank is None else f"states rank {rank}, as {found[rank].name} does"
            raise UsageError(f"{path}: {which}. Name a folder that holds one trace a rank")
        found[rank] = path
    return dict(sorted(found.items()))


def _rank(head: bytes, name: str) -> int | None:
    match = _RANK.search(head) or RANK_IN_NAME.search(name)
    return None if match is None else int(match[1])
