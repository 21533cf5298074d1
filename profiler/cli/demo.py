"""``profiler demo``: the pairs that ship with the package, diagnosed."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

import click

from profiler.cli.main import State, common_options, pass_state


@click.command("demo")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Folder for the reports.",
)
@common_options
@pass_state
def command(state: State, out: Path) -> int:
    """Diagnose the example pairs that ship with the package and write their reports.

    \b
    Example:
      profiler demo --out demo
    """  # fmt: skip
    from rich.text import Text

    from profiler import registry
    from profiler.analyzers.diagnosis import diagnose
    from profiler.cli.reading import read_run
    from profiler.reports.html import to_html
    from profiler.reports.json_document import to_json
    from profiler.reports.terminal import print_diagnosis

    out.mkdir(parents=True, exist_ok=True)
    with as_file(files("profiler.examples") / "runs") as runs:
        for pair in sorted(folder for folder in runs.iterdir() if folder.is_dir()):
            document = diagnose(
                read_run(pair / "run-A", state), read_run(pair / "run-B", state), engines=registry.engines()
            )
            # What the pair is, and whether it was measured at all, is said before its verdict.
            state.out.print(Text((pair / "about.txt").read_text("utf-8").strip(), style="bold"))
            print_diagnosis(document, state.out, state.verbose)
            page = out / f"{pair.name}.html"
            page.write_text(to_html(document), "utf-8")
            (out / f"{pair.name}.json").write_text(to_json(document), "utf-8")
            state.out.print(Text(f"report: {page}"))
            state.out.print()
    return 0
