"""Two runs in, the result document out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from profiler.analyzers.baseline import baseline_of
from profiler.analyzers.causes.hardware import median_clock
from profiler.analyzers.compared_loads import several_loads
from profiler.analyzers.corroboration import HIGH_TOLL, contradicted
from profiler.analyzers.curves import curves_of, role_rows
from profiler.analyzers.device import DeviceAccount
from profiler.analyzers.engineer_summary import RunSeen, engineer_summary
from profiler.analyzers.fairness import rules as fairness
from profiler.analyzers.gap import intervals, spread
from profiler.analyzers.gap.contention import known
from profiler.analyzers.gap.ledger import Context
from profiler.analyzers.gap.ledgers import DEFAULT_METRICS, Drawn, Played, drawn_of, ledger_of, played_pair
from profiler.analyzers.gap.measured import Measured, measure
from profiler.analyzers.gap.model import models_of
from profiler.analyzers.gap.played import with_all_steps
from profiler.analyzers.gap.rows import causes_of
from profiler.analyzers.gap.traces import (
    chosen,
    comparable_devices,
    kernel_rows,
    shown_devices,
    trace_gap,
    traced_steps,
)
from profiler.analyzers.gap.view import View, differences
from profiler.analyzers.goodput import goodput, goodput_interval
from profiler.analyzers.interactions import beside_rows
from profiler.analyzers.kept import kept_lost_kernels
from profiler.analyzers.knobs import NotPredictable
from profiler.analyzers.metrics import THROUGHPUTS, higher_is_better, metrics_of, unit_of
from profiler.analyzers.recommend import recommended
from profiler.analyzers.recording_cost import costs_told
from profiler.analyzers.repeats import focused, log_values, repeats_of, typical
from profiler.analyzers.run_names import told_apart
from profiler.analyzers.run_summary import problems_of, summary_of
from profiler.analyzers.traced_pair import traced_pair
from profiler.analyzers.verdict import verdict_of, winner_of
from profiler.model.diagnosis import SCHEMA, Additive, Diagnosis, Gap, Recommendation
from profiler.model.document import DocumentProblem, Interval
from profiler.model.extension import Engine
from profiler.model.requests import BenchResult
from profiler.model.run import Run

# More knobs than this are left to ``profiler recommend``.
_MOST_KNOBS: Final = 3


def diagnose(
    run_a: Run,
    run_b: Run,
    metrics: Sequence[str] = DEFAULT_METRICS,
    slo: Mapping[str, float] | None = None,
    engines: Sequence[Engine] = (),
) -> Diagnosis:
    """Explain B against A. ``slo`` (seconds by ttft, tpot, e2e) adds goodput to the metrics; ``engines`` are those
    whose knobs may be recommended."""
    run_a, run_b = told_apart((run_a, run_b))
    bench_a, bench_b = matching(run_a.benches, run_b.benches)
    if bench_a is None or bench_b is None:
        return _without_benchmark(run_a, run_b, bench_a, bench_b)
    loads = several_loads((run_a, run_b), slo or {})
    baseline = baseline_of(run_b)
    repeats = repeats_of(run_a.benches, bench_a), repeats_of(run_b.benches, bench_b)
    bench_a, bench_b = typical(repeats[0], bench_a), typical(repeats[1], bench_b)
    run_a, run_b = focused(run_a, bench_a, repeats[0]), focused(run_b, bench_b, repeats[1])
    traced = traced_pair(run_a, run_b)
    a, b = measure(run_a, bench_a, traced.accounts[0]), measure(run_b, bench_b, traced.accounts[1])
    repeated = [[metrics_of(bench) for bench in side] for side in repeats]
    noise = {
        metric: spread.between(
            log_values(repeated[0], metric), log_values(repeated[1], metric), a.device, b.device, metric
        )
        for metric in ("output_throughput", *metrics)
    }
    values = _values(bench_a, slo), _values(bench_b, slo)
    context = Context(a, b, _clock_ratio(run_a, run_b))
    untrusted = untrusted_traces(a, b)
    same_profiler = profilers_agree(a, b) and not untrusted
    models = models_of(a, b, same_profiler)
    if models is not None:
        full = with_all_steps(a, models[0]), with_all_steps(b, models[1])
        if full[0] is not a or full[1] is not b:
            a, b = full
            context, models = Context(a, b, context.clock_ratio), models_of(a, b, same_profiler)
    view = View(context, *(models or (None, None)))
    wanted = [m for m in (*metrics, *(("goodput",) if slo else ())) if m in values[0] and m in values[1]]
    replicas = drawn_of(wanted, view, values)
    played = played_pair(view) if wanted else None
    gaps = tuple(
        _gap(metric, view, values, replicas, played, noise.get(metric, noise["output_throughput"]).deviation, slo)
        for metric in wanted
    )
    rules = fairness.check(run_a, run_b, bench_a, bench_b, known=traced.accounts)
    runs = summary_of(run_a, values[0], len(repeats[0])), summary_of(run_b, values[1], len(repeats[1]))
    missing = (*_missing(view), *_unsplit(a, b, profilers_agree(a, b)), *untrusted)
    return Diagnosis(
        schema=SCHEMA,
        runs=runs,
        verdict=verdict_of(gaps, rules, runs, missing, differences(view)),
        gaps=gaps,
        fairness=rules,
        recommendations=_recommendations(a, b, gaps, slo, engines),
        problems=_problems(run_a, run_b),
        kernels=kernel_rows(chosen(a.accounts), chosen(b.accounts)),
        traced=traced_steps(chosen(a.accounts), chosen(b.accounts)),
        shown=shown_devices((run_a, run_b), (a.accounts, b.accounts)),
        missing=missing,
        method=(
            *_method(view),
            *_explained(a, repeats[0]),
            *_explained(b, repeats[1]),
            noise["output_throughput"].told,
            *costs_told(run_a),
            *(costs_told(run_b) if run_b.path != run_a.path else ()),
        ),
        roles=role_rows(a, b),
        curves=(*curves_of(a, "a"), *curves_of(b, "b")),
        timelines=traced.timelines,
        moments=traced.moments,
        loads=loads,
        summary=engineer_summary(
            RunSeen(run_a, bench_a, values[0], chosen(a.accounts)),
            RunSeen(run_b, bench_b, values[1], chosen(b.accounts)),
            slo or {},
        ),
        baseline=baseline,
    )


def _recommendations(
    a: Measured, b: Measured, gaps: Sequence[Gap], slo: Mapping[str, float] | None, engines: Sequence[Engine]
) -> tuple[Recommendation, ...]:
    """The best knobs of the run that loses the first metric; none where no run does, or nothing can be predicted."""
    first = next((gap for gap in gaps if gap.winner is not None), None)
    if first is None:
        return ()
    loser, winner = (a, b) if first.winner == "b" else (b, a)
    engine = next((e for e in engines if e.name == loser.run.fact("engine.name")), None)
    if engine is None:
        return ()
    try:
        known = loser.accounts, winner.accounts
        knobs = recommended(loser.run, engine, winner.run, first.metric, slo, known)[:_MOST_KNOBS]
        return beside_rows(knobs, first)
    except NotPredictable:
        return ()


def matching(
    ours: Sequence[BenchResult], theirs: Sequence[BenchResult]
) -> tuple[BenchResult | None, BenchResult | None]:
    """The pair of results with the most equal load; among equals the last of each run (re-runs are appended)."""
    if not ours or not theirs:
        return (ours[-1] if ours else None), (theirs[-1] if theirs else None)

    def alike(pair: tuple[BenchResult, BenchResult]) -> int:
        one, two = pair
        return sum(
            (
                one.max_concurrency == two.max_concurrency,
                one.request_rate == two.request_rate,
                one.completed + one.failed == two.completed + two.failed,
                one.total_output_tokens == two.total_output_tokens,
            )
        )

    pairs = [(one, two) for one in ours for two in theirs]
    best = max(range(len(pairs)), key=lambda i: (alike(pairs[i]), i))
    return pairs[best]


def untrusted_traces(a: Measured, b: Measured) -> tuple[str, ...]:
    """What can't be claimed because a trace lost kernels: one line for each failed check."""
    lines = []
    for measured in (a, b):
        for detail in _lost(measured.run, measured.traced):
            lines.append(f"{measured.name}: {detail}: its trace is not used to split step time")
    return tuple(lines)


def _lost(run: Run, account: DeviceAccount | None) -> list[str]:
    """Why an account's kernel time can't be claimed: what its trace lacks, or what the device's counters say."""
    trace = next((t for t in run.traces if account is not None and t.path == account.trace), None)
    if trace is None or account is None:
        return []
    return [check.detail for check in (*kept_lost_kernels(trace), *contradicted(run, account))]


def profilers_agree(a: Measured, b: Measured) -> bool:
    """Whether the traces of two CPU engines were taken alike: stacks slow a CPU engine's operators themselves."""
    if a.device != "cpu" or b.device != "cpu":
        return True
    stacks = []
    for measured in (a, b):
        account = measured.traced
        trace = next((t for t in measured.run.traces if account is not None and t.path == account.trace), None)
        stacks.append(None if trace is None else trace.metadata.get("with_stack", "0") == "1")
    return stacks[0] == stacks[1]


def _gap(
    metric: str,
    view: View,
    values: tuple[Mapping[str, float], Mapping[str, float]],
    replicas: Sequence[Drawn],
    played: Played | None,
    deviation: float,
    slo: Mapping[str, float] | None,
) -> Gap:
    a, b = view.a, view.b
    value_a, value_b = values[0][metric], values[1][metric]
    gap = value_b - value_a
    ledger, causes = ledger_of(metric, view, values, replicas, played)
    drawn = [replica.gap for replica in replicas]
    factor, additive = 1.0, None
    interval: Interval | None
    if metric in THROUGHPUTS:
        work = _work(metric, a.bench), _work(metric, b.bench)
        seconds = a.duration / max(a.tokens, 1), b.duration / max(b.tokens, 1)
        factor = -(work[0] / a.duration) * (work[1] / b.duration) * (a.tokens / max(work[0], 1))
        if metric == "output_throughput":
            additive = Additive(a=seconds[0], b=seconds[1], gap=seconds[1] - seconds[0], factor=factor)
            interval = intervals.throughput_interval(a, b, drawn, deviation)
        else:
            low, high = intervals.throughput_interval(a, b, drawn, deviation)
            scale = work[0] / max(a.tokens, 1)
            interval = low * scale, high * scale
    elif metric == "goodput":
        interval = goodput_interval(a.bench, b.bench, slo or {}, deviation)
    else:
        interval = intervals.latency_interval(a.bench, b.bench, metric, deviation)
    bounds = {} if ledger is None else intervals.cause_intervals(ledger, causes, deviation)
    rows, unexplained = causes_of(ledger, view, bounds, factor, gap)
    higher = higher_is_better(metric)
    return Gap(
        metric=metric,
        unit="requests/s" if metric == "goodput" else unit_of(metric),
        higher_is_better=higher,
        a=value_a,
        b=value_b,
        gap=gap,
        relative=gap / value_a if value_a else None,
        interval=interval,
        winner=winner_of(gap, interval, higher),
        causes=rows,
        unexplained=unexplained,
        seconds_per_output_token=additive,
    )


def _work(metric: str, bench: BenchResult) -> int:
    """What a throughput counts."""
    if metric == "request_throughput":
        return bench.completed
    return bench.total_output_tokens + (bench.total_input_tokens if metric == "total_token_throughput" else 0)


def _values(bench: BenchResult, slo: Mapping[str, float] | None) -> dict[str, float]:
    values = metrics_of(bench)
    good = goodput(bench, slo) if slo else None
    return values if good is None else values | {"goodput": good}


def _clock_ratio(run_a: Run, run_b: Run) -> float | None:
    a, b = median_clock(run_a), median_clock(run_b)
    return b / a if a and b else None


def _without_benchmark(run_a: Run, run_b: Run, bench_a: BenchResult | None, bench_b: BenchResult | None) -> Diagnosis:
    traced = traced_pair(run_a, run_b)
    a, b = chosen(traced.accounts[0]), chosen(traced.accounts[1])
    gaps: tuple[Gap, ...] = ()
    missing = [f"{run.name} holds no benchmark result: its throughput and latencies are not known"
               for run, bench in ((run_a, bench_a), (run_b, bench_b)) if bench is None]  # fmt: skip
    for run, account in ((run_a, a), (run_b, b)):
        if account is None:
            missing.append(f"{run.name} holds no trace with device work: kernels can't be compared")
            continue
        missing += [f"{run.name}: {detail}: its kernel time is not complete" for detail in _lost(run, account)]
        if account.steps is None or account.steps.spans.inferred:
            missing.append(f"{run.name}'s trace has no engine's step annotations: equal work can't be shown")
    if a is not None and b is not None and comparable_devices(a, b):
        gaps = (trace_gap(a, b),)
    runs = tuple(
        summary_of(run, {} if bench is None else metrics_of(bench))
        for run, bench in ((run_a, bench_a), (run_b, bench_b))
    )
    return Diagnosis(
        schema=SCHEMA,
        runs=runs,
        verdict=verdict_of(gaps, (), (runs[0], runs[1]), missing, ()),
        gaps=gaps,
        fairness=(),
        recommendations=(),
        problems=_problems(run_a, run_b),
        kernels=kernel_rows(a, b),
        traced=traced_steps(a, b),
        shown=shown_devices((run_a, run_b), traced.accounts),
        missing=tuple(missing),
        method=(
            "Only traces were compared: device seconds of a step, each instant counted once, without a claim about "
            "throughput.",
        ),
        timelines=traced.timelines,
        moments=traced.moments,
        summary=engineer_summary(
            RunSeen(run_a, bench_a, runs[0].metrics, a), RunSeen(run_b, bench_b, runs[1].metrics, b), {}
        ),
        baseline=baseline_of(run_b),
    )


def _problems(run_a: Run, run_b: Run) -> tuple[DocumentProblem, ...]:
    return (*problems_of(run_a), *problems_of(run_b))


def _missing(view: View) -> tuple[str, ...]:
    lines = []
    for measured in (view.a, view.b):
        if measured.steps is None:
            lines.append(f"{measured.name}: no steps (iteration log, batch log or annotated trace), so nothing inside "
                         "its time can be split")  # fmt: skip
        elif measured.steps.seconds is None:
            lines.append(f"{measured.name}: single steps are not timed; their mean comes from {measured.steps.timing}")
        if measured.steps is not None and measured.traced is None:
            lines.append(f"{measured.name}: no trace with step annotations, so kernel, cuda_graph and scheduling can't "
                         "be told apart inside its steps")  # fmt: skip
        if not measured.run.snapshots:
            lines.append(f"{measured.name}: no scheduler metrics, so queue and cache are not known")
    return tuple(lines)


def _unsplit(a: Measured, b: Measured, same_profiler: bool) -> tuple[str, ...]:
    if same_profiler:
        return ()
    return (
        f"{a.name} and {b.name} were traced with different profiler settings (Python stacks in one only), which slow a "
        "CPU engine's operators themselves: step time is not split into kernel and host",
    )


def _method(view: View) -> tuple[str, ...]:
    lines = [
        "Throughput is explained as engine seconds per output token; each part is given in tokens/s by one common "
        "factor, so the parts add up in both.",
        "Composition (which steps) is separated from rates (how long an equal step takes); intervals resample residual "
        "step times and traced steps in blocks.",
    ]
    if view.model_a is not None and view.model_b is not None and known(view.model_a, view.model_b):
        lines.append(
            "What host and device hide of each other's changes is counted for neither alone, so a row is not the "
            "difference of its evidence times the steps."
        )
    for measured, model in ((view.a, view.model_a), (view.b, view.model_b)):
        if measured.steps is not None:
            lines.append(
                f"{measured.name}: steps from {measured.steps.source}; step time from {measured.steps.timing}."
            )
            if measured.steps.parallel > 1:
                lines.append(
                    f"{measured.name}: {measured.steps.parallel} engines served the load side by side; throughput is "
                    "split by steps as shares of the wall clock, a latency by whole steps; kernels are those of the "
                    "first trace."
                )
            toll = None if model is None else model.toll(measured.steps.load)
            if toll is not None:
                warn = " Above 2: the split of host time is only indicative." if toll > HIGH_TOLL else ""
                lines.append(f"{measured.name}: traced steps take {toll:.2f} times the unprofiled ones.{warn}")
    return tuple(lines)


def _explained(measured: Measured, repeats: Sequence[BenchResult]) -> tuple[str, ...]:
    """Which of several repeats the rows are about."""
    if len(repeats) < 2:
        return ()
    return (f"{measured.name}: {measured.bench.path} stands for {len(repeats)} repeats of its load: its throughput is "
            "nearest to their mean.",)  # fmt: skip
