"""``profiler flamegraph``: where time goes, as boxes; also the difference between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from profiler.cli.main import EXIT_INCOMPLETE, State, common_options, pass_state
from profiler.cli.output import OUTPUT, in_language, write_output
from profiler.errors import MissingEvidence, UsageError

if TYPE_CHECKING:
    from profiler.analyzers.flames import Kinds
    from profiler.model.run import Run

_SUFFIX = {"html": ".html", "speedscope": ".speedscope.json", "collapsed": ".collapsed.txt"}


@click.command("flamegraph")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--against", type=click.Path(path_type=Path), metavar="RUN", help="Show RUN's difference from this one.")
@click.option("--host", "kind", flag_value="host", help="Host ranges of the trace, by nesting.")
@click.option("--gpu", "kind", flag_value="gpu", help="Device time by phase, layer, role and kernel.")
@click.option("--stacks", "kind", flag_value="stacks", help="Sampled stacks (py-spy, perf, memray, speedscope).")
@click.option("--format", "form", type=click.Choice(list(_SUFFIX)), default="html", show_default=True)
@click.option("--out", type=OUTPUT, metavar="FILE", help="Where to write it (- for standard output).")
@in_language
@common_options
@pass_state
def command(state: State, run: Path, against: Path | None, kind: Kinds | None, form: str, out: Path | None) -> int:
    """Write a flamegraph of RUN. Without --host, --gpu or --stacks the first of stacks, device and host that it has.

    \b
    Example:
      profiler flamegraph run-B --gpu --against run-A
      profiler flamegraph run-A --stacks --format collapsed --out -
    """
    from profiler.analyzers.flames import compared, flames_of
    from profiler.cli.reading import read_run
    from profiler.reports.flamegraph import to_collapsed, to_flamegraph_html, to_speedscope

    if against is not None and form != "html":
        raise UsageError(f"--format {form} holds one run. Leave out --against, or write html")
    opened = read_run(run, state)
    flames = flames_of(opened, kind)
    if flames is None:
        raise MissingEvidence(
            str(run), f"no {kind or 'stacks and no trace'} to draw", "profiler inspect says what is in it"
        )
    target = out or Path(f"{opened.name}-{flames.kind}{_SUFFIX[form]}")
    if form == "speedscope":
        write_output(target, to_speedscope(flames, opened.name), state)
    elif form == "collapsed":
        write_output(target, to_collapsed(flames), state)
    elif against is None:
        write_output(target, to_flamegraph_html(flames, (opened.name,), ""), state)
    else:
        other = read_run(against, state)
        base = flames_of(other, flames.kind)
        if base is None or base.unit != flames.unit:
            raise MissingEvidence(
                str(against), f"no {flames.kind} in {flames.unit} to compare with", "Name another run"
            )
        divisors, per = _per(other, opened, base.root.value, flames.root.value)
        names = (other.name, opened.name) if other.name != opened.name else (str(against), str(run))
        # The first run is what the second is compared to.
        write_output(target, to_flamegraph_html(compared(base, flames, divisors), names, per), state)
    return EXIT_INCOMPLETE if state.incomplete else 0


def _per(a: Run, b: Run, total_a: float, total_b: float) -> tuple[tuple[float, float], str]:
    """What both are divided by: the output tokens of the traced steps where both say how many sequences they decode,
    else the steps where both have them, else the whole (shares are compared)."""
    from profiler.analyzers.trace_steps import spans_of

    labels = [[label for trace in run.traces for label in spans_of(trace).labels] for run in (a, b)]
    tokens = [sum(label.decode_requests or 0 for label in own) for own in labels]
    if all(tokens):
        return (float(tokens[0]), float(tokens[1])), "an output token"
    if all(labels):
        return (float(len(labels[0])), float(len(labels[1]))), "a step"
    return (total_a or 1.0, total_b or 1.0), "of the whole"
