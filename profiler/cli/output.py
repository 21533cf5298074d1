"""Documents written to files, or to standard output as ``-``, and the language of what is shown."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import click

from profiler.cli.main import State, write_document
from profiler.reports.language import LANGUAGES, said, speaking

F = TypeVar("F", bound=Callable[..., object])


class _Writable(click.Path):
    """A file to write: whether its folder is there and may be written to is said before any work is done."""

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path. Fails where the folder can't take a file."""
        path = Path(os.fsdecode(super().convert(os.fspath(value), param, ctx)))
        folder = path.parent
        if str(path) != "-" and not folder.is_dir():
            self.fail(f"{str(path)!r}: there is no folder {folder}. Make it, or name another", param, ctx)
        if str(path) != "-" and not os.access(folder, os.W_OK) and not path.exists():
            self.fail(f"{str(path)!r}: the folder {folder} can't be written to. Name another", param, ctx)
        return path


FILE: Final = _Writable(dir_okay=False, writable=True, path_type=Path)
# As a file, or as - for standard output.
OUTPUT: Final = _Writable(dir_okay=False, writable=True, allow_dash=True, path_type=Path)


def write_output(target: Path, text: str, state: State) -> None:
    """Write one document and say where, unless quiet."""
    if str(target) == "-":
        write_document(text if text.endswith("\n") else text + "\n")
        return
    target.write_text(text, "utf-8")
    if not state.quiet:
        state.err.print(said("written: {file}", file=str(target)), markup=False, highlight=False, soft_wrap=True)


def in_language(command: F) -> F:
    """The option ``--lang``: everything that the command shows is in that language, documents (JSON) are not."""

    def choose(context: click.Context, _: click.Parameter, language: str) -> None:
        context.with_resource(speaking(language))

    option = click.option(
        "--lang", type=click.Choice(LANGUAGES), default="en", show_default=True, expose_value=False, callback=choose,
        help="Language of what is shown and of HTML and Markdown; JSON is always English.",
    )  # fmt: skip
    return option(command)
