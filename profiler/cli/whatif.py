"""``profiler whatif``: the metrics of a run under another setting."""

from __future__ import annotations

from pathlib import Path

import click

from profiler.cli.main import EXIT_INCOMPLETE, State, common_options, pass_state
from profiler.cli.output import OUTPUT, in_language, write_output
from profiler.cli.settings import Setting, engine_in, shared_name
from profiler.errors import MissingEvidence, UsageError


@click.command("whatif")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--set",
    "settings",
    type=Setting(),
    multiple=True,
    required=True,
    metavar="KNOB=VALUE",
    help="The setting to try (repeatable): max_num_seqs=64, cuda_graph=off, or the engine's own flag.",
)
@click.option("--against", type=click.Path(path_type=Path), metavar="RUN", help="For what RUN has not measured.")
@click.option("--json", "json", type=OUTPUT, metavar="FILE", help="Write the document (- for standard output).")
@in_language
@common_options
@pass_state
def command(
    state: State,
    run: Path,
    settings: tuple[tuple[str, int | float | bool | str], ...],
    against: Path | None,
    json: Path | None,
) -> int:
    """Predict RUN's metrics under other settings, by replaying its requests.

    \b
    Example:
      profiler whatif run-A --set max_num_seqs=64
      profiler whatif run-A --set --max-num-batched-tokens=2048 --set cuda_graph=off
    """
    from profiler.analyzers.knobs import NotPredictable
    from profiler.analyzers.recommend import OutOfRange, whatif
    from profiler.cli.reading import read_run
    from profiler.reports.json_document import to_json
    from profiler.reports.recommendation_terminal import print_whatif

    opened = read_run(run, state)
    engine = engine_in(opened)
    other = None if against is None else read_run(against, state)
    try:
        document = whatif(opened, engine, {shared_name(knob, engine): value for knob, value in settings}, other)
    except OutOfRange as reason:
        raise UsageError(str(reason)) from reason
    except NotPredictable as reason:
        raise MissingEvidence(str(run), str(reason), "docs/recommend.md says what a prediction needs") from reason
    if json is not None:
        write_output(json, to_json(document), state)
    if str(json) != "-":
        print_whatif(document, state.out, state.verbose)
    return EXIT_INCOMPLETE if state.incomplete else 0
