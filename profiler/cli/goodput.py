"""``profiler goodput``: what runs serve within an objective, load by load."""

from __future__ import annotations

from pathlib import Path

import click

from profiler.cli.main import EXIT_INCOMPLETE, State, common_options, pass_state
from profiler.cli.output import OUTPUT, in_language, write_output
from profiler.cli.quantities import Slo


@click.command("goodput")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option("--slo", type=Slo(), metavar="BOUNDS", help="Judge requests by this: ttft=500ms,tpot=50ms (also e2e).")
@click.option("--html", "html", type=OUTPUT, metavar="FILE", help="Write the curves as one HTML page.")
@click.option("--json", "json", type=OUTPUT, metavar="FILE", help="Write the document (- for standard output).")
@click.option("--markdown", "markdown", type=OUTPUT, metavar="FILE", help="Write it for a pull-request comment.")
@in_language
@common_options
@pass_state
def command(
    state: State, runs: tuple[Path, ...], slo: dict[str, float] | None, html: Path | None, json: Path | None,
    markdown: Path | None,
) -> int:  # fmt: skip
    """Show goodput and latency against load, and compare runs at equal load and at equal interactivity.

    A run is a folder that holds the results of its loads, at any depth; results of one load are its repeats. Where
    curves cross, the ranges in which each run leads are given, and no winner.

    \b
    Example:
      profiler goodput run-A run-B --slo ttft=500ms,tpot=50ms --html curves.html
    """  # fmt: skip
    from profiler.analyzers.compared_loads import curves
    from profiler.analyzers.run_names import told_apart
    from profiler.cli.reading import read_runs

    document = curves(told_apart(read_runs(runs, state)), slo or {})
    if html is not None:
        from profiler.reports.goodput_html import to_goodput_html

        write_output(html, to_goodput_html(document), state)
    if json is not None:
        from profiler.reports.json_document import to_json

        write_output(json, to_json(document), state)
    if markdown is not None:
        from profiler.reports.goodput import to_goodput_markdown

        write_output(markdown, to_goodput_markdown(document), state)
    if not any(str(target) == "-" for target in (html, json, markdown)):
        from profiler.reports.goodput import print_goodput

        print_goodput(document, state.out, state.verbose)
    return EXIT_INCOMPLETE if state.incomplete else 0
