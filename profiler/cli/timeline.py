"""``profiler timeline``: a file that ui.perfetto.dev opens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from profiler.cli.main import EXIT_INCOMPLETE, State, common_options, pass_state
from profiler.cli.output import FILE, in_language
from profiler.cli.quantities import Duration
from profiler.errors import MissingEvidence, UsageError
from profiler.reports.language import said

if TYPE_CHECKING:
    from profiler.analyzers.typical import Excerpt
    from profiler.model.run import Run
    from profiler.model.steps import StepLabel


@click.command("timeline")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--against", type=click.Path(path_type=Path), metavar="RUN", help="Put another run's steps beside RUN's.")
@click.option(
    "--steps",
    type=click.IntRange(1, 10_000),
    default=2,
    show_default=True,
    help="Consecutive steps around the typical one.",
)
@click.option(
    "--at",
    type=Duration(),
    metavar="TIME",
    help="Begin with the step that RUN is in so long after its trace's first event, such as 1.25s.",
)
@click.option("--whole", is_flag=True, help="Everything that the traces hold.")
@click.option("--python", is_flag=True, help="Python frames too.")
@click.option(
    "--out",
    type=FILE,
    metavar="FILE",
    help="[default: RUN-timeline.json.gz]",
)
@in_language
@common_options
@pass_state
def command(
    state: State, run: Path, against: Path | None, steps: int, at: float | None, whole: bool, python: bool,
    out: Path | None,
) -> int:  # fmt: skip
    """Write typical steps of RUN, with the causes of idle time, as a file for ui.perfetto.dev.

    Two runs are aligned at the first kernel of a step that carries the same batch, or the nearest that there is. The
    file begins where its first step does: with --at that is the moment that a report names.

    \b
    Example:
      profiler timeline run-A
      profiler timeline run-B --against run-A --steps 4 --out steps.json.gz
      profiler timeline run-B --at 1.25s
    """  # fmt: skip
    from profiler.cli.reading import read_run
    from profiler.reports.perfetto_json import Side, to_perfetto

    if whole and at is not None:
        raise UsageError("--at names a step, and --whole takes everything. Give one of them")
    opened = read_run(run, state)
    if at is not None:
        _check_moment(opened, at)
    parts = _excerpts(opened, steps, whole, None, at)
    sides = [Side(opened.name, parts, opened.counters)]
    if against is not None:
        other = read_run(against, state)
        like = None if whole else parts[0].label
        name = other.name if other.name != opened.name else str(against)
        sides.append(Side(name, _excerpts(other, steps, whole, like), other.counters))
    target = out or Path(f"{opened.name}-timeline.json.gz")
    target.write_bytes(to_perfetto(sides, python))
    if not state.quiet:
        text = said("written: {file} (open it at ui.perfetto.dev)", file=str(target))
        state.err.print(text, markup=False, highlight=False, soft_wrap=True)
    return EXIT_INCOMPLETE if state.incomplete else 0


def _check_moment(run: Run, at: float) -> None:
    """Raises UsageError where every trace has ended before that moment, seconds after its first event."""
    lasts = [float(t.events.end.max() - t.events.start.min()) / 1e9 for t in run.traces if len(t.events)]
    if lasts and at > max(lasts):
        raise UsageError(
            f"--at {at:g}s: the trace of {run.name} ends after {max(lasts):.6f}s. Name a moment from 0s to it"
        )


def _excerpts(run: Run, steps: int, everything: bool, like: StepLabel | None, at: float | None = None) -> list[Excerpt]:
    from profiler.analyzers.device_view import views_of
    from profiler.analyzers.typical import excerpt, whole

    views = [view for trace in run.traces for view in views_of(trace)]
    found = [whole(view) if everything else excerpt(view, steps, like, at) for view in views]
    parts = [part for part in found if part is not None]
    if not parts:
        what = "no step in a trace (take everything with --whole)" if views else "no trace with work in it"
        raise MissingEvidence(run.path, what, "profiler inspect shows its files")
    return parts
