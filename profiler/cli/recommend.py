"""``profiler recommend``: which knobs to turn, best first."""

from __future__ import annotations

from pathlib import Path

import click

from profiler.cli.main import EXIT_INCOMPLETE, State, common_options, pass_state
from profiler.cli.output import OUTPUT, in_language, write_output
from profiler.cli.quantities import Slo
from profiler.cli.settings import engine_in
from profiler.errors import MissingEvidence


@click.command("recommend")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--against", type=click.Path(path_type=Path), metavar="RUN", help="For what RUN has not measured.")
@click.option("--metric", default="output_throughput", show_default=True, metavar="NAME", help="The metric to improve.")
@click.option("--slo", type=Slo(), metavar="BOUNDS", help="Bound the predicted means: ttft=500ms,tpot=50ms (also e2e).")
@click.option("--verify", is_flag=True, help="Keep the predictions in the run and print how to check them.")
@click.option("--json", "json", type=OUTPUT, metavar="FILE", help="Write the document (- for standard output).")
@in_language
@common_options
@pass_state
def command(
    state: State,
    run: Path,
    against: Path | None,
    metric: str,
    slo: dict[str, float] | None,
    verify: bool,
    json: Path | None,
) -> int:
    """Say which settings of RUN's engine to change, with the predicted effect and its interval.

    \b
    Example:
      profiler recommend run-B --against run-A
      profiler recommend run-B --metric mean_tpot --slo ttft=500ms --verify
    """
    from profiler.analyzers.knobs import NotPredictable
    from profiler.analyzers.recommend import recommend
    from profiler.cli.reading import read_run
    from profiler.reports.json_document import to_json
    from profiler.reports.recommendation_terminal import print_recommendations
    from profiler.store.predictions import keep

    opened = read_run(run, state)
    other = None if against is None else read_run(against, state)
    try:
        document = recommend(opened, engine_in(opened), other, metric, slo)
    except NotPredictable as reason:
        raise MissingEvidence(str(run), str(reason), "docs/recommend.md says what a prediction needs") from reason
    kept = keep(run, document.recommendations) if verify else None
    if json is not None:
        write_output(json, to_json(document), state)
    if str(json) != "-":
        print_recommendations(document, state.out, state.verbose, verify)
        if kept is not None and not state.quiet:
            state.err.print(f"kept: {kept}", markup=False, highlight=False, soft_wrap=True)
    return EXIT_INCOMPLETE if state.incomplete else 0
