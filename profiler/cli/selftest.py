"""``profiler selftest``: causes put there on purpose on this machine, and whether a diagnosis finds them."""

from __future__ import annotations

import json
import os
import re
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click
import msgspec

from profiler.cli.main import State, common_options, pass_state
from profiler.cli.output import OUTPUT, write_output
from profiler.cli.start import EXIT_INTERRUPTED
from profiler.errors import UsageError
from profiler.examples.miniature_settings import Settings
from profiler.model.diagnosis import CauseName, Diagnosis

if TYPE_CHECKING:
    from profiler.examples.miniature_run import Load

SCHEMA: Final = "profiler.selftest/2"
# Starts of either side, taken in turns. The best of each is diagnosed, since what else runs here can only slow one, and
# more are taken until a side's two best agree.
FEWEST: Final = 2
MOST: Final = 3
AGREE: Final = 0.08
# Requests behind an address: host stacks and a trace are taken while they last.
SERVED: Final = 192
# A cause has its size right where the diagnosis gives it between these multiples of what direct measurement gives it.
SIZES: Final = 0.5, 1.5
NULL: Final = "nothing"

Device = Literal["cpu", "cuda"]
Outcome = Literal["found", "missed", "wrong size", "no difference", "named a winner", "skipped"]


class Planted(msgspec.Struct, frozen=True):
    """One switch in words, the cause that it is, and what it changes."""

    switch: str
    cause: CauseName
    changes: dict[str, Any]


class Case(msgspec.Struct, frozen=True):
    """What B has that A, which is ``base``, has not, and the metric that shows it. Nothing planted: both are the same.
    ``served``: behind an address, recorded by ``record`` and ``bench``; else in this process, on the engine's own
    clock. ``answer``: tokens of an answer; ``needs``: why it can't be done on this device."""

    planted: tuple[Planted, ...]
    base: Settings = Settings()
    metric: str = "output_throughput"
    served: bool = False
    answer: int = 20
    needs: str | None = None

    @property
    def name(self) -> str:
        """What is planted, in words."""
        return " + ".join(one.switch for one in self.planted) or NULL

    @property
    def folder(self) -> str:
        """Where its runs are kept."""
        return "-".join(re.findall(r"\w+", self.name))

    @property
    def sides(self) -> dict[str, Settings]:
        """A and B; where B has several switches, also each of them alone."""
        changes = [one.changes for one in self.planted]
        alone = {f"B-{at}": replace(self.base, **one) for at, one in enumerate(changes, 1)} if len(changes) > 1 else {}
        both = {name: value for one in changes for name, value in one.items()}
        return {"A": self.base, "B": replace(self.base, **both), **alone}


class Result(msgspec.Struct, frozen=True):
    """What became of one planted cause. ``measured`` and ``attributed`` are relative to A's metric; ``expected`` are
    the least and most of the gap that direct measurement gives the cause, ``share`` is what the diagnosis gives it.
    ``repeats`` are the metric of every start by side; ``why`` it was skipped."""

    injected: str
    cause: CauseName | None
    found: tuple[CauseName, ...]
    metric: str
    measured: float | None
    attributed: float | None
    expected: tuple[float, float] | None
    share: float | None
    winner: str | None
    outcome: Outcome
    steady: bool
    repeats: dict[str, tuple[float, ...]]
    why: str | None = None

    @property
    def passed(self) -> bool:
        """Whether the diagnosis named what was done; its size may be off."""
        return self.outcome not in ("missed", "named a winner")


def cases_of(device: Device, gpus: int = 0) -> list[Case]:
    """The switches, each far above what two starts differ by; ``gpus`` is how many there are."""
    work = 0.003 if device == "cuda" else 0.01
    # Less than the model takes, so that it can be hidden.
    hidden = 0.6 * work
    budget = Planted("token budget 6", "batching", {"max_num_batched_tokens": 6})
    attention = Planted("attention 4 times", "kernel", {"attention_copies": 4})
    graphs = [
        Planted("graphs off", "cuda_graph", {"graphs": False}),
        Planted("graphs up to 4 sequences", "cuda_graph", {"graph_sizes": (1, 2, 4)}),
        Planted("padded to 256 sequences", "cuda_graph", {"graph_sizes": (256,)}),
    ]
    return [
        Case(()),
        Case((Planted("at most 2 sequences", "batching", {"max_num_seqs": 2}),)),
        Case((budget,)),
        Case((Planted(f"scheduler takes {1e3 * work:.0f} ms", "scheduling", {"scheduler_work": work}),)),
        Case(
            (Planted(f"no overlap of {1e3 * hidden:.0f} ms", "scheduling", {"overlap": False}),),
            Settings(scheduler_work=hidden, overlap=True),
        ),
        Case((attention,)),
        # Attention is most of the step, so that another way to compute it shows.
        Case(
            (Planted("attention by plain operators", "kernel", {"math_attention": True}),), Settings(attention_copies=4)
        ),
        Case((Planted("norm row by row", "kernel", {"rowwise_norm": True}),)),
        # Short answers, so that prompts computed again are most of the work.
        Case((Planted("prefix cache off", "memory", {"prefix_cache": False}),), answer=10),
        Case((Planted("KV cache for 2", "memory", {"kv_cache_tokens": 480}),), answer=10),
        Case((Planted("frontend 100 ms late", "frontend", {"frontend_delay": 0.1}),), metric="mean_ttft", served=True),
        Case((budget, attention)),
        Case(
            (Planted("last rank's attention 6 times", "communication", {"last_rank_copies": 6}),),
            Settings(ranks=2),
            needs=f"two ranks need two GPUs, and there is {gpus}" if device == "cuda" and gpus < 2 else None,
        ),
        *(Case((one,), needs=None if device == "cuda" else "there are no graphs without a GPU") for one in graphs),
    ]


def judged(case: Case, document: Diagnosis, repeats: dict[str, tuple[float, ...]]) -> list[Result]:
    """A case against its diagnosis: as many causes as were planted, the largest in the direction of the gap, have to be
    the planted ones. One result for each, or for the pair with none."""
    gap = next(gap for gap in document.gaps if gap.metric == case.metric)
    sign = 1.0 if gap.higher_is_better else -1.0
    ranked = sorted(gap.causes, key=lambda cause: cause.gap * gap.gap, reverse=True)
    found = () if gap.winner is None else tuple(one.cause for one in ranked[: len(case.planted) or 1])
    shares = expected(case, {side: max(values, key=lambda v: sign * v) for side, values in repeats.items()})
    results = []
    causes: list[CauseName | None] = [one.cause for one in case.planted]
    for cause, (low, high) in zip(causes or [None], shares, strict=True):
        row = next((one.gap for one in gap.causes if one.cause == cause), None)
        share = None if row is None or gap.gap == 0.0 else row / gap.gap
        outcome: Outcome
        if cause is None:
            outcome = "no difference" if gap.winner is None else "named a winner"
        elif gap.winner != "a" or cause not in found or share is None:
            outcome = "missed"
        else:
            outcome = "found" if SIZES[0] * low <= share <= SIZES[1] * high else "wrong size"
        results.append(
            Result(
                injected=case.name,
                cause=cause,
                found=found,
                metric=case.metric,
                measured=gap.gap / gap.a,
                attributed=None if row is None else row / gap.a,
                expected=None if cause is None else (low, high),
                share=share,
                winner=gap.winner,
                outcome=outcome,
                steady=all(_steady(sign, values) for values in repeats.values()),
                repeats=repeats,
            )
        )
    return results


def expected(case: Case, best: Mapping[str, float]) -> list[tuple[float, float]]:
    """(least, most) of the gap for each planted cause: all of it for one; of two, what each costs when it is added to A
    and what it costs when it is added to the other. ``best`` is the best start of each side."""
    if len(case.planted) < 2:
        return [(1.0, 1.0)]
    # Throughput does not add, its inverse does.
    cost = {side: 1.0 / value for side, value in best.items()}
    whole = cost["B"] - cost["A"]
    first = (cost["B-1"] - cost["A"]) / whole, (cost["B"] - cost["B-2"]) / whole
    second = (cost["B-2"] - cost["A"]) / whole, (cost["B"] - cost["B-1"]) / whole
    return [(min(one), max(one)) for one in (first, second)]


@click.command("selftest")
@click.option("--json", "json_file", type=OUTPUT, help="Write the results as JSON; - prints them.")
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), help="Keep the recorded runs in this folder.")
@common_options
@pass_state
def command(state: State, json_file: Path | None, keep: Path | None) -> int:
    """Plant causes in a miniature engine on this machine, record it, and show whether a diagnosis finds them.

    Needs torch (pip install 'serving-profiler[torch]') and some minutes in which little else runs. Exit status 1: a
    cause was missed, or a winner named where nothing was changed. Ctrl-C shows what was found until then.

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
    load = Load(requests=80, concurrency=16) if device == "cpu" else Load(requests=256, concurrency=16)
    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise UsageError(f"{keep}: holds files already. Name a new folder, so that runs are not mixed")
    with ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, signal.default_int_handler))
        cases = cases_of(device, torch.cuda.device_count())
        results, stopped = all_of(cases, lambda case: _carried_out(case, folder, load, device, state))
    if str(json_file) != "-":
        _print(results, device, state)
    if json_file is not None:
        document = {"schema": SCHEMA, "device": device, "torch": str(torch.__version__), "results": results}
        write_output(json_file, json.dumps(msgspec.to_builtins(document), indent=1), state)
    if stopped:
        return EXIT_INTERRUPTED
    return 0 if all(result.passed for result in results) else 1


def all_of(cases: Sequence[Case], carried_out: Callable[[Case], list[Result]]) -> tuple[list[Result], bool]:
    """(the results of all cases, whether Ctrl-C or a termination came): those that it left out are skipped."""
    results: list[Result] = []
    stopped = False
    for case in cases:
        why = case.needs
        if why is None and not stopped:
            try:
                results += carried_out(case)
                continue
            except KeyboardInterrupt:
                stopped = True
        results += skipped(case, why or "the self-test was stopped")
    return results, stopped


def skipped(case: Case, why: str) -> list[Result]:
    """What is told of a case that was not carried out."""
    causes: list[CauseName | None] = [one.cause for one in case.planted]
    return [
        Result(case.name, cause, (), case.metric, None, None, None, None, None, "skipped", True, {}, why)
        for cause in causes or [None]
    ]


def _carried_out(case: Case, folder: Path, load: Load, device: Device, state: State) -> list[Result]:
    """Record all sides in turns, trace the best start of A and B, and diagnose these two."""
    from profiler.analyzers.diagnosis import diagnose
    from profiler.analyzers.metrics import higher_is_better, metrics_of
    from profiler.cli.reading import read_run
    from profiler.cli.served_start import counters, record_served
    from profiler.examples.miniature_run import SHAPES, record, record_trace

    if not state.quiet:
        state.err.print(f"recording: {case.name}", markup=False, highlight=False)
    place = folder / case.folder
    load = replace(load, output=case.answer)
    sign = 1.0 if higher_is_better(case.metric) else -1.0
    starts: dict[str, list[tuple[float, Path]]] = {side: [] for side in case.sides}
    for repeat in range(1, MOST + 1):
        for side, settings in case.sides.items():
            run = place / f"{side}{repeat}"
            if case.served:
                record_served(run, settings, replace(load, requests=SERVED), SHAPES[device].vocabulary, state)
            else:
                record(run, settings, load, device, counters(run, device))
            starts[side].append((metrics_of(read_run(run, state).benches[0])[case.metric], run))
        if repeat >= FEWEST and all(_steady(sign, [value for value, _ in one]) for one in starts.values()):
            break
    best = {side: max(starts[side], key=lambda start: sign * start[0])[1] for side in ("A", "B")}
    for side, run in () if case.served else best.items():
        record_trace(run, case.sides[side], load, device)
    metrics = dict.fromkeys(("output_throughput", case.metric))
    document = diagnose(read_run(best["A"], state), read_run(best["B"], state), tuple(metrics))
    return judged(case, document, {side: tuple(value for value, _ in one) for side, one in starts.items()})


def _steady(sign: float, values: Sequence[float]) -> bool:
    """Whether the best two agree, so that the best is no accident; ``sign`` is negative where less is better."""
    second, first = sorted(sign * value for value in values)[-2:]
    return first - second <= AGREE * abs(first)


def _print(results: Sequence[Result], device: Device, state: State) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, title=f"Self-test on the {'GPU' if device == 'cuda' else 'CPU'}")
    for heading in ("injected", "is", "found", "B to A", "expected", "share", "outcome"):
        table.add_column(heading, justify="right" if heading in ("B to A", "expected", "share") else "left")
    for one in results:
        table.add_row(
            one.injected,
            one.cause or "–",
            ", ".join(one.found) or "–",
            "–" if one.measured is None else f"{one.measured:+.0%}",
            "–" if one.expected is None else "–".join(dict.fromkeys(f"{share:.0%}" for share in one.expected)),
            "–" if one.share is None else f"{one.share:.0%}",
            one.outcome,
        )
    state.out.print(table)
    for why in dict.fromkeys(one.why for one in results if one.why is not None):
        names = ", ".join(one.injected for one in results if one.why == why)
        state.out.print(f"skipped, since {why}: {names}", highlight=False, soft_wrap=True)
    unsteady = dict.fromkeys(one.injected for one in results if not one.steady)
    if unsteady:
        what = f"the best two of equal starts never agreed to {AGREE:.0%}, so their sizes are less certain"
        state.out.print(f"{what} ({', '.join(unsteady)})", highlight=False, soft_wrap=True)
    done = [one for one in results if one.outcome != "skipped"]
    state.out.print(f"{sum(one.passed for one in done)} of {len(done)} passed", highlight=False)
