"""``profiler watch``: a running engine's scheduler, cache and GPU in the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Final

import click
from rich.live import Live

from profiler import registry
from profiler.analyzers.live import LiveState, live_state
from profiler.cli.main import State, common_options, pass_state
from profiler.cli.output import in_language
from profiler.cli.quantities import Duration
from profiler.cli.server import client_of, gpu_processes, server_options
from profiler.cli.start import EXIT_INTERRUPTED
from profiler.collectors.availability import devices, metrics_path
from profiler.collectors.discovery import Discovery, discover
from profiler.collectors.gpu.counter_csv import Devices
from profiler.collectors.http_client import Client
from profiler.collectors.interrupts import Interrupts
from profiler.collectors.knob_values import from_command, from_fields
from profiler.collectors.sampling import SampleFailed
from profiler.collectors.scheduler.scrape import reading
from profiler.errors import MissingEvidence
from profiler.model.answering import OWN_ADDRESS, Answering, told
from profiler.model.metrics import MetricsSnapshot
from profiler.reports.language import said
from profiler.reports.live_view import Row, live_line, live_page

TICK: Final = 0.1


@click.command("watch")
@server_options
@click.option(
    "--every", type=Duration(), default="1s", show_default=True, metavar="TIME", help="The time between looks."
)
@click.option("--duration", type=Duration(), metavar="TIME", help="When to end; without it, at Ctrl-C.")
@in_language
@common_options
@pass_state
def command(
    state: State,
    url: str | None,
    pid: int | None,
    api_key_env: str | None,
    api_key_file: Path | None,
    ca: Path | None,
    every: float,
    duration: float | None,
) -> int:
    """Show what a running engine does: requests, cache, tokens, steps, GPU, and what holds it up.

    What holds it up is named only where the numbers tell. In a pipe a line is printed for every look. Only GET requests
    are sent.

    \b
    Example:
      profiler watch --url http://127.0.0.1:8000
      profiler watch --url http://127.0.0.1:8000 --every 500ms --duration 1min | tee watch.txt
    """  # fmt: skip
    with client_of(url, pid, api_key_env, api_key_file, ca) as client:
        found = discover(client, registry.engines(), gpu_processes)
        opened = devices()[0] if found.processes else None
        page = Live(console=state.out, auto_refresh=False) if state.out.is_terminal else None
        with page or nullcontext(), Interrupts() as interrupts:
            deadline = None if duration is None else time.monotonic() + duration

            def over() -> bool:
                return interrupts.seen or (deadline is not None and time.monotonic() >= deadline)

            _look(client, found, opened, every, over, state, page)
        if opened is not None:
            opened.close()
    return EXIT_INTERRUPTED if interrupts.seen else 0


def _look(
    client: Client, found: Discovery, opened: Devices | None, every: float, over: Callable[[], bool], state: State,
    page: Live | None,
) -> None:  # fmt: skip
    """One look after the other, each against the one before."""
    path = metrics_path(found)
    before: tuple[float, MetricsSnapshot] | None = None
    asked, answering = False, Answering()
    while not over():
        began = time.monotonic()
        answer = client.get(path)
        seen = reading(answer.text, registry.engines(), "now") if answer.ok else None
        if seen is None and not asked:
            live = None if found.engine is None else found.engine.live
            how = (live.metrics_needs if live is not None else "") or "Give the address of an engine, not of a router"
            raise MissingEvidence(found.url, f"no metrics of a known engine at {path} (status {answer.status})", how)
        asked = True
        now = None
        if seen is not None and answering.take(seen.process):
            before = None
        if answering.returned is not None:
            raise MissingEvidence(f"{found.url}{path}", told(answering.returned), OWN_ADDRESS)
        if seen is not None and before is not None:
            now = live_state(before[1], seen, began - before[0], _settings(found, seen))
        before = before if seen is None else (began, seen)
        silent = "" if seen is not None else said("no answer: {what}", what=answer.text[:80])
        _show(state, page, found, now, _gpus(opened), silent)
        while not over() and time.monotonic() < began + every:
            time.sleep(min(TICK, max(began + every - time.monotonic(), 0.0)))


def _show(
    state: State, page: Live | None, found: Discovery, now: LiveState | None, gpus: tuple[Row, ...], note: str
) -> None:
    stamp = datetime.now().astimezone().strftime("%H:%M:%S")
    if page is not None:
        title = f"{found.url}: {found.title}"
        page.update(live_page(title, stamp, now, gpus, note or ("" if now else said("the first look"))), refresh=True)
    elif now is not None:
        state.out.print(live_line(stamp, now, gpus), markup=False, highlight=False, soft_wrap=True)
    elif note:
        state.out.print(f"{stamp}  {note}", markup=False, highlight=False, soft_wrap=True)


def _settings(found: Discovery, seen: MetricsSnapshot) -> dict[str, object]:
    """Settings in force: as the server states them, as its command does, as its metrics do."""
    if found.engine is None:
        return {}
    told = from_fields(found.engine.knobs, dict(seen.settings))
    return {**told, **from_command(found.engine, found.command), **found.facts}


def _gpus(opened: Devices | None) -> tuple[Row, ...]:
    try:
        samples = () if opened is None else opened.read()
    except SampleFailed:
        return ()
    rows = []
    for one in samples:
        used = "-" if one.utilisation is None else f"{one.utilisation:.0f}%"
        power = "" if one.power is None else f" {one.power:.0f} W"
        clock = "" if one.clock is None else f" {one.clock:.0f} MHz"
        links = "".join(f", {said(link)} {value / 1e3:.2f} GB/s" for link, value in one.links.items())
        rows.append((f"gpu {one.index}", used + power + clock + links))
    return tuple(rows)
