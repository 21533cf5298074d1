"""``profiler selftest``: causes put there on purpose on this machine, and whether a diagnosis finds them."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click
import msgspec

from profiler.cli.main import State, common_options, pass_state
from profiler.cli.output import OUTPUT, write_output
from profiler.errors import UsageError
from profiler.examples.miniature_engine import Settings
from profiler.model.diagnosis import CauseName, Diagnosis

if TYPE_CHECKING:
    from profiler.examples.miniature_run import Load

SCHEMA: Final = "profiler.selftest/1"
# Starts of either side, taken in turns. The best of each is diagnosed, since what else runs here can only slow one, and
# more are taken until a side's two best agree.
FEWEST: Final = 2
MOST: Final = 3
AGREE: Final = 0.08
# A cause has its size right where the diagnosis gives it at least this share of the measured gap, and at most that.
SHARES: Final = 0.5, 1.5
NULL: Final = "nothing"

Device = Literal["cpu", "cuda"]
Outcome = Literal["found", "missed", "wrong size", "no difference", "named a winner"]


class Case(msgspec.Struct, frozen=True):
    """One switch, the cause that it is, and the metric that shows it. No cause: both sides are the same."""

    injected: str
    cause: CauseName | None
    settings: Settings
    metric: str = "output_throughput"


class Result(msgspec.Struct, frozen=True):
    """What became of a case. ``measured`` and ``attributed`` are relative to A's metric; ``repeats`` are the metric of
    every start, A's and B's."""

    injected: str
    cause: CauseName | None
    found: CauseName | None
    metric: str
    measured: float
    attributed: float | None
    winner: str | None
    outcome: Outcome
    steady: bool
    repeats: tuple[tuple[float, ...], tuple[float, ...]]

    @property
    def passed(self) -> bool:
        """Whether the diagnosis named what was done; its size may be off."""
        return self.outcome not in ("missed", "named a winner")


def cases_of(device: Device) -> list[Case]:
    """The switches, each far above what two starts differ by."""
    a = Settings()
    spin = 0.003 if device == "cuda" else 0.01
    cases = [
        Case(NULL, None, a),
        Case("at most 2 sequences", "batching", replace(a, max_num_seqs=2)),
        Case("token budget 6", "batching", replace(a, max_num_batched_tokens=6)),
        Case(f"scheduler spins {1e3 * spin:.0f} ms", "scheduling", replace(a, scheduler_spin=spin)),
        Case("attention 4 times", "kernel", replace(a, attention_copies=4)),
        Case("norm row by row", "kernel", replace(a, rowwise_norm=True)),
        Case("prefix cache off", "memory", replace(a, prefix_cache=False)),
        Case("KV cache for 2", "memory", replace(a, kv_cache_tokens=480)),
        Case("frontend 100 ms late", "frontend", replace(a, frontend_delay=0.1), "mean_ttft"),
    ]
    if device == "cuda":
        cases.append(Case("graphs off", "cuda_graph", replace(a, graphs=False)))
    return cases


def judged(case: Case, document: Diagnosis, repeats: tuple[tuple[float, ...], tuple[float, ...]]) -> Result:
    """A case against its diagnosis: the largest cause in the direction of the gap has to be the injected one."""
    gap = next(gap for gap in document.gaps if gap.metric == case.metric)
    largest = max(gap.causes, key=lambda cause: cause.gap * gap.gap)
    attributed = next((one.gap / gap.a for one in gap.causes if one.cause == case.cause), None)
    outcome: Outcome
    if case.cause is None:
        outcome = "no difference" if gap.winner is None else "named a winner"
    elif gap.winner != "a" or largest.cause != case.cause or attributed is None:
        outcome = "missed"
    else:
        outcome = "found" if SHARES[0] <= attributed * gap.a / gap.gap <= SHARES[1] else "wrong size"
    return Result(
        injected=case.injected,
        cause=case.cause,
        found=None if gap.winner is None else largest.cause,
        metric=case.metric,
        measured=gap.gap / gap.a,
        attributed=attributed,
        winner=gap.winner,
        outcome=outcome,
        steady=all(_steady(1.0 if gap.higher_is_better else -1.0, values) for values in repeats),
        repeats=repeats,
    )


@click.command("selftest")
@click.option("--json", "json_file", type=OUTPUT, help="Write the results as JSON; - prints them.")
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), help="Keep the recorded runs in this folder.")
@common_options
@pass_state
def command(state: State, json_file: Path | None, keep: Path | None) -> int:
    """Plant causes in a miniature engine on this machine, record it, and show whether a diagnosis finds them.

    Needs torch (pip install 'serving-profiler[torch]') and some minutes in which little else runs. Exit status 1: a
    cause was missed, or a winner named where nothing was changed.

    \b
    Example:
      profiler selftest --keep selftest-runs
    """  # fmt: skip
    if find_spec("torch") is None:
        raise UsageError("selftest runs a small engine with torch: pip install 'serving-profiler[torch]'")
    # Kineto reports every start and stop of the profiler otherwise.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    import torch

    from profiler.examples.miniature_run import Load

    device: Device = "cuda" if torch.cuda.is_available() else "cpu"
    load = Load(requests=96, concurrency=16) if device == "cpu" else Load(requests=256, concurrency=16)
    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise UsageError(f"{keep}: holds files already. Name a new folder, so that runs are not mixed")
    with ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        results = [_carried_out(case, folder, load, device, state) for case in cases_of(device)]
    if str(json_file) != "-":
        _print(results, device, state)
    if json_file is not None:
        document = {"schema": SCHEMA, "device": device, "torch": str(torch.__version__), "results": results}
        write_output(json_file, json.dumps(msgspec.to_builtins(document), indent=1), state)
    return 0 if all(result.passed for result in results) else 1


def _carried_out(case: Case, folder: Path, load: Load, device: Device, state: State) -> Result:
    """Record both sides in turns, trace the best start of each, and diagnose these two."""
    from profiler.analyzers.diagnosis import diagnose
    from profiler.analyzers.metrics import higher_is_better
    from profiler.cli.reading import read_run
    from profiler.examples.miniature_run import record, record_trace

    if not state.quiet:
        state.err.print(f"recording: {case.injected}", markup=False, highlight=False)
    place = folder / case.injected.replace(" ", "-")
    sides = {"A": Settings(), "B": case.settings}
    sign = 1.0 if higher_is_better(case.metric) else -1.0
    starts: dict[str, list[tuple[float, Path]]] = {"A": [], "B": []}
    for repeat in range(1, MOST + 1):
        for side, settings in sides.items():
            run = place / f"{side}{repeat}"
            record(run, settings, load, device)
            starts[side].append((_metric(run, case.metric), run))
        if repeat >= FEWEST and all(_steady(sign, [value for value, _ in one]) for one in starts.values()):
            break
    best = {side: max(one, key=lambda start: sign * start[0])[1] for side, one in starts.items()}
    for side, settings in sides.items():
        record_trace(best[side], settings, load, device)
    metrics = dict.fromkeys(("output_throughput", case.metric))
    document = diagnose(read_run(best["A"], state), read_run(best["B"], state), tuple(metrics))
    values = {side: tuple(value for value, _ in one) for side, one in starts.items()}
    return judged(case, document, (values["A"], values["B"]))


def _steady(sign: float, values: Sequence[float]) -> bool:
    """Whether the best two agree, so that the best is no accident; ``sign`` is negative where less is better."""
    second, first = sorted(sign * value for value in values)[-2:]
    return first - second <= AGREE * abs(first)


def _metric(run: Path, metric: str) -> float:
    """A start's metric, from the result that it wrote."""
    result = json.loads((run / "bench.json").read_text("utf-8"))
    if metric == "mean_ttft":
        return float(sum(result["ttfts"]) / len(result["ttfts"]))
    return float(result[metric])


def _print(results: Sequence[Result], device: Device, state: State) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, title=f"Self-test on the {'GPU' if device == 'cuda' else 'CPU'}")
    for heading in ("injected", "is", "found", "B to A", "share", "outcome"):
        table.add_column(heading, justify="right" if heading in ("B to A", "share") else "left")
    for one in results:
        share = None if one.attributed is None else one.attributed / one.measured
        table.add_row(
            one.injected,
            one.cause or "–",
            one.found or "–",
            f"{one.measured:+.0%}",
            "–" if share is None else f"{share:.0%}",
            one.outcome,
        )
    state.out.print(table)
    unsteady = [one.injected for one in results if not one.steady]
    if unsteady:
        what = f"the best two of equal starts never agreed to {AGREE:.0%}, so their sizes are less certain"
        state.out.print(f"{what} ({', '.join(unsteady)})", highlight=False, soft_wrap=True)
    passed = sum(one.passed for one in results)
    state.out.print(f"{passed} of {len(results)} cases passed", highlight=False)
