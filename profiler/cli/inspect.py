"""``profiler inspect``: what is in a run."""

from __future__ import annotations

from pathlib import Path

import click

from profiler.cli.main import EXIT_INCOMPLETE, State, common_options, pass_state, write_document
from profiler.cli.output import OUTPUT, in_language, write_output


@click.command("inspect")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the inspection document instead of the page.")
@click.option("--html", type=OUTPUT, metavar="FILE", help="Write the page as one HTML file.")
@in_language
@common_options
@pass_state
def command(state: State, run: Path, as_json: bool, html: Path | None) -> int:
    """Show what is in RUN: files, engine, steps, kernels, coverage, and every problem found.

    \b
    Example:
      profiler inspect run-A
      profiler inspect trace.json.gz --json
      profiler inspect run-A --html run-A.html
    """
    from profiler.analyzers.inspection import inspect
    from profiler.cli.reading import read_run

    document = inspect(read_run(run, state, required=False))
    if html is not None:
        from profiler.reports.inspection_html import to_inspection_html

        write_output(html, to_inspection_html(document), state)
    if as_json:
        from profiler.reports.json_document import to_json

        write_document(to_json(document))
    else:
        from profiler.reports.terminal import print_inspection

        print_inspection(document, state.out, state.verbose)
    return EXIT_INCOMPLETE if state.incomplete else 0
