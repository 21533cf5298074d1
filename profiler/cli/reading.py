"""Opening runs from the command line, with progress on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from profiler import registry
from profiler.cli.main import State
from profiler.errors import MissingEvidence, ProfilerError
from profiler.model.run import Run
from profiler.store.opening import open_run, side_by_side_runs
from profiler.store.side_by_side import is_child


def read_run(path: Path, state: State, required: bool = True) -> Run:
    """Open a run; on a terminal the file being read is shown. Notes whether a part of it could not be read.

    Raises MissingEvidence where nothing in it can be used and something is ``required``.
    """
    return _checked(path, _opened(path, state), state, required)


def read_runs(paths: Sequence[Path], state: State) -> list[Run]:
    """The same of several runs, which are read side by side."""
    opened = side_by_side_runs(paths, lambda path: _opened(path, state))
    return [_checked(path, run, state) for path, run in zip(paths, opened, strict=True)]


def _opened(path: Path, state: State) -> Run:
    if state.quiet or not state.err.is_terminal or is_child():
        return open_run(path, registry.formats(), registry.engines(), registry.relabelled, registry.redacted)
    with state.err.status(Text(f"reading {path}")) as status:
        return open_run(
            path,
            registry.formats(),
            registry.engines(),
            registry.relabelled,
            registry.redacted,
            lambda name: status.update(Text(f"reading {path}: {name}")),
        )


def _checked(path: Path, run: Run, state: State, required: bool = True) -> Run:
    if path.is_file() and all(record.format in ("unreadable", "unknown") for record in run.files):
        # Named alone, a file that can't be read leaves nothing to show.
        problem = run.problems[0]
        where = f" (at {problem.place})" if problem.place else ""
        raise ProfilerError(f"{path}: {problem.detail}{where}")
    if not (run.benches or run.traces or run.logs or run.snapshots or run.counters):
        what = "no file in it could be used" if run.files else "the folder is empty"
        how = "Put a benchmark result, a trace, metrics or a server log there (profiler inspect names every file)"
        if path.is_file():
            how = ("Name a benchmark result, a trace, metrics or a server log; a baseline of profiler diagnose is what "
                   "profiler inspect RUN --json wrote")  # fmt: skip
        if required:
            raise MissingEvidence(str(path), what, how)
    state.incomplete |= any(problem.severity == "error" for problem in run.problems)
    return run
