"""Documents written to files, or to standard output as ``-``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from profiler.cli.main import State, write_document

OUTPUT: Final = click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path)


def write_output(target: Path, text: str, state: State) -> None:
    """Write one document and say where, unless quiet."""
    if str(target) == "-":
        write_document(text if text.endswith("\n") else text + "\n")
        return
    target.write_text(text, "utf-8")
    if not state.quiet:
        state.err.print(f"written: {target}", markup=False, highlight=False, soft_wrap=True)
