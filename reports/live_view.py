"""A running engine in the terminal: a page that is drawn over, or a line for every moment in a pipe."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from profiler.analyzers.live import LiveState
from profiler.reports.language import said

Row = tuple[str, str]


def live_line(stamp: str, state: LiveState, gpus: Sequence[Row]) -> str:
    """One moment as one line of ``name value`` pairs; what the engine does not say is left out."""
    cells = [f"{said(name)} {value}" for name, value in (*_rows(state), *gpus) if value != "-"]
    held = f"{said(state.bottleneck)}: {said(state.why)}" if state.bottleneck else said("not told by these numbers")
    return f"{stamp}  " + ", ".join([*cells, said("held up by {what}", what=held)])


def live_page(title: str, stamp: str, state: LiveState | None, gpus: Sequence[Row], note: str) -> Table:
    """One moment as a table under the server's name."""
    page = Table(box=None, pad_edge=False, show_header=False, title=Text(title), title_justify="left")
    page.add_column(min_width=22)
    page.add_column(justify="right", min_width=12)
    for name, value in () if state is None else (*_rows(state), *gpus):
        page.add_row(Text(said(name)), Text(value))
    if state is not None and state.bottleneck:
        page.add_row(Text(said("held up by")), Text(said(state.bottleneck), style="bold"))
        page.add_row(Text(""), Text(said(state.why)))
    elif state is not None:
        page.add_row(Text(said("held up by")), Text(said("not told by these numbers")))
    page.caption = Text(f"{stamp}  {note}".rstrip())
    page.caption_justify = "left"
    return page


def _rows(state: LiveState) -> tuple[Row, ...]:
    return (
        ("running", _number(state.running)),
        ("waiting", _number(state.waiting)),
        ("KV cache", _share(state.kv_usage)),
        ("output tokens/s", _number(state.generation)),
        ("prompt tokens/s", _number(state.prompt)),
        ("steps/s", _number(state.steps)),
        ("tokens a step", _number(state.tokens_per_step)),
        ("steps from a graph", _share(state.graph_share)),
        ("prefix cache hits", _share(state.hit_rate)),
    )


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
