"""What is still English where everything is shown in Chinese."""

from __future__ import annotations

import io
from collections.abc import Callable

from rich.console import Console

from profiler.model.diagnosis import Diagnosis
from profiler.model.inspection import Inspection
from profiler.reports.html import to_html
from profiler.reports.inspection_html import to_inspection_html
from profiler.reports.language import catalogue, speaking
from profiler.reports.markdown import to_markdown
from profiler.reports.terminal import print_diagnosis, print_inspection


def drawn(draw: Callable[[Console], object]) -> str:
    """What a drawing function prints in Chinese."""
    console = Console(file=io.StringIO(), width=400)
    with speaking("zh"):
        draw(console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def missed(*draw: Callable[[Console], object]) -> set[str]:
    """The messages without a translation among what these functions show."""
    catalogue("zh").missed.clear()
    for one in draw:
        drawn(one)
    return set(catalogue("zh").missed)


def untranslated(document: Diagnosis) -> set[str]:
    """Of a diagnosis: its page, its comment and the terminal."""
    return missed(
        lambda console: print_diagnosis(document, console, verbose=True),
        lambda _: to_html(document),
        lambda _: to_markdown(document),
    )


def untranslated_inspection(document: Inspection) -> set[str]:
    """Of what is in a run: its page and the terminal."""
    return missed(
        lambda console: print_inspection(document, console, verbose=True), lambda _: to_inspection_html(document)
    )
