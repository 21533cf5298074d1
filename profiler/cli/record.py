"""``profiler record``: attach to a running engine and write a run."""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from profiler import __version__, registry
from profiler.cli.main import EXIT_INCOMPLETE, State, common_options, pass_state
from profiler.cli.output import in_language
from profiler.cli.quantities import Duration, Size
from profiler.cli.server import client_of, gpu_processes, server_options
from profiler.cli.start import EXIT_INTERRUPTED
from profiler.collectors.availability import restarts
from profiler.collectors.discovery import discover
from profiler.collectors.record import Recording
from profiler.collectors.recording_plan import Plan
from profiler.collectors.workers import unlike, workers_of
from profiler.errors import UsageError
from profiler.reports.language import said


@click.command("record")
@server_options
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="RUN",
    help="The new folder of the run.",
)
@click.option("--duration", type=Duration(), metavar="TIME", help="How long to record; with a load, when to end it.")
@click.option(
    "--every", type=Duration(), default="1s", show_default=True, metavar="TIME", help="The time between two samples."
)
@click.option("--profile", is_flag=True, help="Run the load once more and start the engine's own profiler in it.")
@click.option("--stacks", is_flag=True, help="Run the load once more and take host stacks of the engine (py-spy).")
@click.option("--native", is_flag=True, help="Stacks with native frames too: processes are paused for each sample.")
@click.option(
    "--trace-steps",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    help="Steps that the engine's profiler traces.",
)
@click.option(
    "--trace-seconds",
    type=Duration(),
    default="10s",
    show_default=True,
    metavar="TIME",
    help="The longest that it traces.",
)
@click.option(
    "--most",
    type=Size(),
    default="4GiB",
    show_default=True,
    metavar="SIZE",
    help="The most that the run may take on the disk.",
)
@click.option("--log", metavar="SOURCE", help="The server's log: a file, docker:CONTAINER or journal:UNIT.")
@click.option("--dcgm", metavar="URL", help="The address of a DCGM exporter.")
@click.argument("load", nargs=-1, type=click.UNPROCESSED)
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
    out: Path,
    duration: float | None,
    every: float,
    profile: bool,
    stacks: bool,
    native: bool,
    trace_steps: int,
    trace_seconds: float,
    most: int,
    log: str | None,
    dcgm: str | None,
    load: tuple[str, ...],
) -> int:
    """Attach to a running engine, sample it while LOAD runs, and write a run that inspect and diagnose read.

    Nothing but GET requests is sent until --profile asks for the engine's profiler. {run} in LOAD stands for the run's
    folder.

    \b
    Example:
      profiler record --url http://127.0.0.1:8000 --out run-A --duration 30s
      profiler record --url http://127.0.0.1:8000 --out run-A --profile -- \\
        LOAD-GENERATOR --its-options --result-dir {run}
    """  # fmt: skip
    if not load and duration is None:
        raise UsageError("give a load behind --, or a --duration")

    def say(line: str) -> None:
        if not state.quiet:
            state.err.print(Text(said(line)), soft_wrap=True)

    client = client_of(url, pid, api_key_env, api_key_file, ca)
    found = discover(client, registry.engines(), gpu_processes)
    say(f"{found.url}: {found.title}" + (f", {found.identity.model}" if found.identity.model else ""))
    plan = Plan(
        out, load, duration, every, profile, stacks or native, native, trace_steps, trace_seconds, most, log, dcgm,
        __version__,
    )  # fmt: skip
    workers = workers_of(found, client, registry.engines(), gpu_processes)
    told = [one for one in (found, *(w.found for w in workers if w.found is not None)) if one.engine is not None]
    live = [one.engine.live for one in told if one.engine is not None and one.engine.live is not None]
    for note in dict.fromkeys(note for one in live for note in one.notes):
        say(f"note: {note}")
    for worker in workers:
        say(f"behind it: {worker.title}")
    if differing := unlike(workers):
        say(f"note: the workers differ in {', '.join(differing)}; the run shows the first one's")
    for unnamed in found.identity.unnamed:
        say(f"behind it: {unnamed}")
    outcome = Recording(plan, client, found, registry.engines(), say, workers).run()
    for name, why in outcome.missing.items():
        say(f"not collected: {name}: {why}")
    if profile and not outcome.trace.get("files"):
        for tool, line in restarts(told[0] if told else found).items():
            say(f"with {tool}, start the server as: {line}")
    for problem in outcome.problems:
        state.err.print(Text(said("problem: {what}", what=said(problem)), style="yellow"), soft_wrap=True)
    for cost in outcome.costs:
        say(f"cost of {cost.collector}: {cost.cpu_seconds:.2f} CPU s, {cost.requests} requests, "
            f"{cost.received:,} bytes received, {cost.written:,} written, {cost.samples} samples")  # fmt: skip
        if cost.toll is not None:
            say(f"toll of {cost.collector}: {cost.toll:.2f} times as many tokens a second before it as during it")
    say(f"written: {out}")
    if outcome.interrupted:
        return EXIT_INTERRUPTED
    return EXIT_INCOMPLETE if outcome.problems else 0
