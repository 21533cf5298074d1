"""``profiler check``: may two runs be compared."""

from __future__ import annotations

from pathlib import Path

import click

from profiler.cli.main import EXIT_INCOMPLETE, State, common_options, pass_state
from profiler.cli.output import OUTPUT, in_language, write_output


@click.command("check")
@click.argument("run_a", type=click.Path(path_type=Path))
@click.argument("run_b", type=click.Path(path_type=Path))
@click.option("--json", "json", type=OUTPUT, metavar="FILE", help="Write the rules as JSON (- for standard output).")
@click.option("--markdown", "markdown", type=OUTPUT, metavar="FILE", help="Write them for a pull-request comment.")
@in_language
@common_options
@pass_state
def command(state: State, run_a: Path, run_b: Path, json: Path | None, markdown: Path | None) -> int:
    """Say whether RUN_A and RUN_B may be compared: each rule passed, failed, not known or not applicable.

    A failed blocking rule means that no winner may be named. What a file does not say is not known, and never a pass.

    \b
    Example:
      profiler check run-A run-B -v
    """  # fmt: skip
    from profiler.analyzers.checking import check
    from profiler.cli.reading import read_runs

    document = check(*read_runs((run_a, run_b), state))
    if json is not None:
        from profiler.reports.json_document import to_json

        write_output(json, to_json(document), state)
    if markdown is not None:
        from profiler.reports.check import to_check_markdown

        write_output(markdown, to_check_markdown(document), state)
    if not any(str(target) == "-" for target in (json, markdown)):
        from profiler.reports.check import print_check

        print_check(document, state.out, state.verbose)
    return EXIT_INCOMPLETE if state.incomplete else 0
