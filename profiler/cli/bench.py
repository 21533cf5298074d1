"""``profiler bench``: a seeded load, the same requests for every engine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from profiler import __version__, registry
from profiler.cli.load_values import Concurrencies, Duration, JsonObject, LengthsType, Prefix, Rates
from profiler.cli.main import EXIT_INCOMPLETE, State, common_options, pass_state
from profiler.cli.output import in_language
from profiler.cli.reading import read_run
from profiler.collectors.client import load
from profiler.collectors.client.arrivals import ARRIVALS, Arrival
from profiler.collectors.client.lengths import Lengths
from profiler.collectors.client.plan import Form
from profiler.collectors.client.target import parse_target, secret_headers
from profiler.collectors.client.workload import Workload
from profiler.errors import UsageError
from profiler.reports.language import said
from profiler.reports.load_table import load_table
from profiler.reports.safe_text import plain

FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
# What shapes the requests: a plan has all of it already.
SHAPING: Final = ("rates", "concurrencies", "arrival", "burstiness", "requests", "duration", "warmup", "input_tokens",
                  "output_tokens", "shared_prefix", "dataset", "seed", "prompts", "vocabulary")  # fmt: skip


@click.command("bench")
@click.option("--url", required=True, metavar="URL", help="The server: http://HOST:PORT.")
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="The run's folder.")
@click.option("--rate", "rates", type=Rates(), metavar="R[,R…]", help="Open loop: requests/s; several are a sweep.")
@click.option("--concurrency", "concurrencies", type=Concurrencies(), metavar="N[,N…]",
              help="Closed loop: requests in flight, several are a sweep. With --rate: at most so many.")  # fmt: skip
@click.option("--arrival", type=click.Choice(ARRIVALS), help="Gaps of an open loop; poisson, or a trace's own times.")
@click.option("--burstiness", type=click.FloatRange(0.01, 100), default=1.0, show_default=True,
              help="Shape of gamma arrivals: below 1 is burstier than Poisson.")  # fmt: skip
@click.option("--requests", type=click.IntRange(1, 10_000_000), metavar="N",
              help="Requests of each point; 200 where no --duration bounds them.")  # fmt: skip
@click.option(
    "--duration", type=Duration(), metavar="TIME", help="Send for so long (60s, 5min), then wait for answers."
)
@click.option("--warmup", type=click.IntRange(0, 100_000), default=10, show_default=True, metavar="N",
              help="Requests before each point, with prompts of their own; no part of the result.")  # fmt: skip
@click.option("--input-tokens", type=LengthsType(), default="512", show_default=True, metavar="LENGTHS",
              help="512, 256-1024, normal:512:128 or lognormal:512:0.6.")  # fmt: skip
@click.option("--output-tokens", type=LengthsType(), metavar="LENGTHS",
              help="Likewise; 128, or what a data set says.")  # fmt: skip
@click.option("--shared-prefix", type=Prefix(), metavar="GROUPSxTOKENS",
              help="Begin the prompts of each group with the same tokens, on top of --input-tokens.")  # fmt: skip
@click.option("--dataset", type=FILE, help="JSON lines, ShareGPT, or a trace of Mooncake, BurstGPT or Azure.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="One seed, one plan.")
@click.option("--prompts", type=click.Choice(["ids", "text"]),
              help="Drawn prompts as token ids (exact lengths) or words; words for chat, else ids.")  # fmt: skip
@click.option("--vocabulary", type=click.IntRange(16, 10_000_000), default=20_000, show_default=True,
              help="Token ids are drawn below this.")  # fmt: skip
@click.option("--plan", type=FILE, help="Send the plan of another run (its load/plan.jsonl) instead.")
@click.option("--endpoint", type=click.Choice(["completions", "chat", "native"]), help="completions where not said.")
@click.option("--model", help="As the server calls it; else the first that it lists.")
@click.option("--engine", help="The engine that answers, where its list of models does not say.")
@click.option("--ignore-eos/--no-ignore-eos", default=True, show_default=True,
              help="Generate as many tokens as planned, where the engine can.")  # fmt: skip
@click.option("--extra-body", type=JsonObject(), metavar="JSON", help="More fields for every request.")
@click.option("--api-key-env", metavar="NAME", help="The environment variable that holds the key.")
@click.option("--api-key-file", type=FILE, help="A file that holds the key.")
@click.option("--header-file", type=FILE, help="A file with more headers, one Name: value a line.")
@click.option("--ca-file", type=FILE, help="Trust this certificate authority for https.")
@click.option("--processes", type=click.IntRange(1, 256), default=1, show_default=True, help="Client processes.")
@click.option("--timeout", type=Duration(), default="10min", show_default=True, help="For one request.")
@in_language
@common_options
@pass_state
@click.pass_context
def command(
    context: click.Context,
    state: State,
    url: str,
    out: Path,
    rates: tuple[float, ...] | None,
    concurrencies: tuple[int, ...] | None,
    arrival: Arrival | None,
    burstiness: float,
    requests: int | None,
    duration: float | None,
    warmup: int,
    input_tokens: Lengths,
    output_tokens: Lengths | None,
    shared_prefix: tuple[int, int] | None,
    dataset: Path | None,
    seed: int,
    prompts: Form | None,
    vocabulary: int,
    plan: Path | None,
    endpoint: str | None,
    model: str | None,
    engine: str | None,
    ignore_eos: bool,
    extra_body: dict[str, object] | None,
    api_key_env: str | None,
    api_key_file: Path | None,
    header_file: Path | None,
    ca_file: Path | None,
    processes: int,
    timeout: float,
) -> int:
    """Send a load to an OpenAI-compatible server and keep every request's times as a run.

    The requests are planned and written first; the same seed makes the same ones for every engine.

    \b
    Example:
      profiler bench --url http://localhost:8000 --out run-A --rate 1,2,4 --duration 60s
      profiler bench --url http://localhost:8000 --out run-B --concurrency 16 --requests 500 --input-tokens 256-1024
    """  # fmt: skip
    if plan is not None:
        given = [
            name for name in SHAPING if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        ]
        if given:
            option = next(p.opts[0] for p in context.command.params if p.name == given[0])
            raise UsageError(f"{option} shapes a new plan, and --plan sends one that is made. Give one of them")
    work = Workload(
        rates=rates or (),
        concurrencies=concurrencies or (),
        arrival=arrival,
        burstiness=burstiness,
        requests=requests,
        duration=duration,
        warmup=warmup,
        input=input_tokens,
        output=output_tokens,
        shared_prefix=shared_prefix,
        dataset=dataset,
        seed=seed,
        form=prompts or ("text" if endpoint == "chat" else "ids"),
        vocabulary=vocabulary,
    )
    order = load.Order(
        target=parse_target(url, secret_headers(api_key_env, api_key_file, header_file), ca_file),
        out=out,
        work=work,
        plan=plan,
        engine=engine,
        model=model,
        endpoint=endpoint,
        ignore_eos=ignore_eos,
        extra_body=extra_body or {},
        processes=processes,
        timeout=timeout,
        version=__version__,
        command=["profiler", *sys.argv[1:]],
    )
    with _progress(state) as report:
        carried = load.send_load(order, registry.engines(), report)
    run = read_run(out, state, required=False)
    benches = [bench for bench in run.benches if _ours(bench.path)]
    if benches:
        state.out.print(load_table(benches))
    found = [p.detail for p in run.problems if _ours(p.file) and (p.severity != "info" or state.verbose)]
    for text in (*carried.notes, *found):
        state.err.print(Text(said("note: {what}", what=said(plain(text))), "yellow"), soft_wrap=True)
    if not state.quiet:
        state.err.print(Text(said("written: {file}", file=plain(str(out)))), soft_wrap=True)
    served = all(bench.completed for bench in benches)
    return EXIT_INCOMPLETE if carried.stopped is not None or not served else 0


def _ours(path: str) -> bool:
    return Path(path).parts[:1] == (load.FOLDER,)


@contextmanager
def _progress(state: State) -> Iterator[load.Progress]:
    """A bar for each point on a terminal; nothing in a pipe, or where quiet is asked for."""
    if state.quiet or not state.err.is_terminal:
        yield lambda *_: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=state.err) as progress:
        bars: dict[str, TaskID] = {}

        def report(label: str, answered: int, planned: int) -> None:
            if label not in bars:
                bars[label] = progress.add_task(label, total=planned)
            progress.update(bars[label], completed=answered)

        yield report
