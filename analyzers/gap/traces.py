"""Two traces without a benchmark: what a step costs on each device, category by category. No throughput is claimed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from profiler.analyzers.device import DeviceAccount
from profiler.analyzers.device_view import CPU
from profiler.analyzers.gap.measured import trace_load
from profiler.analyzers.gap.model import component_of
from profiler.analyzers.trace_steps import Spans
from profiler.model.diagnosis import (
    Cause,
    CauseName,
    Evidence,
    Gap,
    KernelRow,
    Part,
    ShownDevice,
    TracedSteps,
    Unexplained,
)
from profiler.model.run import Run
from profiler.model.timeline import Side

_CAUSES: Mapping[str, str] = {
    "kernel": "kernel time by category, each instant counted once",
    "communication": "collectives that no compute hides",
    "cuda_graph": "device idle in a step until a launch arrives",
    "scheduling": "device idle between steps",
}


def chosen(accounts: tuple[DeviceAccount, ...]) -> DeviceAccount | None:
    """The account that stands for a run: the first with steps, else the one with the most device time."""
    with_steps = [a for a in accounts if a.steps is not None]
    if with_steps:
        return with_steps[0]
    return max(accounts, key=lambda a: a.busy_ns, default=None)


def per_step(account: DeviceAccount) -> tuple[dict[str, float], int]:
    """(seconds a step by bucket, number of steps). Without steps the whole window counts as one."""
    steps = account.steps
    if steps is None:
        buckets = {name: ns / 1e9 for name, ns in {**account.busy, **account.idle}.items()}
        return buckets, 1
    count = len(steps.first)
    return {name: float(values.sum()) / count for name, values in {**steps.busy, **steps.idle}.items()}, count


def trace_gap(a: DeviceAccount, b: DeviceAccount) -> Gap:
    """Device seconds of a step, B minus A. Intervals come from the steps where each trace has at least eight."""
    buckets_a, count_a = per_step(a)
    buckets_b, count_b = per_step(b)
    amounts: dict[tuple[str, str], float] = {}
    levels: dict[str, list[float]] = {}
    for buckets, account, sign in ((buckets_a, a, -1.0), (buckets_b, b, 1.0)):
        for bucket, seconds in buckets.items():
            cause, part = component_of(bucket, account.device)
            amounts[cause, part] = amounts.get((cause, part), 0.0) + sign * seconds
            levels.setdefault(cause, [0.0, 0.0])[0 if sign < 0 else 1] += seconds
    total_a, total_b = sum(buckets_a.values()), sum(buckets_b.values())
    gap = total_b - total_a
    rows = tuple(
        Cause(
            cause=_name(cause),
            gap=value,
            share=value / gap if gap else None,
            interval=None,
            extrapolated=False,
            summary=text,
            evidence=(
                Evidence(
                    name=f"{text}, per step",
                    a=levels.get(cause, [0.0, 0.0])[0],
                    b=levels.get(cause, [0.0, 0.0])[1],
                    unit="s",
                    source=f"{a.trace} | {b.trace}",
                ),
            ),
            parts=tuple(
                Part(name=part, gap=amount, share=amount / gap if gap else None)
                for (name, part), amount in sorted(amounts.items(), key=lambda item: -abs(item[1]))
                if name == cause
            ),
        )
        for cause, text in _CAUSES.items()
        for value in (sum(v for (name, _), v in amounts.items() if name == cause),)
        if cause in levels or cause in ("kernel", "cuda_graph", "scheduling")
    )
    rows = (*rows, _batching(a, b))
    left = gap - sum(row.gap for row in rows)
    return Gap(
        metric="device_seconds_per_step",
        unit="s",
        higher_is_better=False,
        a=total_a,
        b=total_b,
        gap=gap,
        relative=gap / total_a if total_a else None,
        interval=_interval(a, b) if min(count_a, count_b) >= 8 else None,
        winner=None,
        causes=tuple(sorted(rows, key=lambda row: -abs(row.gap))),
        unexplained=Unexplained(gap=left, share=left / gap if gap else None),
    )


def traced_steps(a: DeviceAccount | None, b: DeviceAccount | None) -> tuple[TracedSteps, ...]:
    """What the steps carried that kernel rows are averages of; of a run without traced steps nothing."""
    found = []
    for run, account in (("a", a), ("b", b)):
        if account is None or account.steps is None:
            continue
        load, known = trace_load(account.steps)
        told, steps = len(known) > 0, len(account.steps.first)
        prefill, decode = load.prefill_requests > 0, load.decode > 0
        found.append(
            TracedSteps(
                run="a" if run == "a" else "b",
                steps=steps,
                prefills=int(prefill.sum()) if told else None,
                prompt_tokens=float(load.prefill_tokens[prefill].mean()) if prefill.any() else None,
                sequences=float(load.decode[decode].mean()) if decode.any() else None,
                decoded=float(load.decode.sum()) if len(known) == steps else None,
            )
        )
    return tuple(found)


def shown_devices(
    runs: tuple[Run, Run], accounts: tuple[tuple[DeviceAccount, ...], tuple[DeviceAccount, ...]]
) -> tuple[ShownDevice, ...]:
    """Which device's kernels stand for each run that has a trace."""
    sides: tuple[Side, Side] = ("a", "b")
    found = []
    for side, run, every in zip(sides, runs, accounts, strict=True):
        one = chosen(every)
        if one is not None:
            rank = next((trace.rank for trace in run.traces if trace.path == one.trace), None)
            found.append(ShownDevice(run=side, trace=one.trace, device=one.device, rank=rank, of=len(every)))
    return tuple(found)


def kernel_rows(a: DeviceAccount | None, b: DeviceAccount | None, most: int = 200) -> tuple[KernelRow, ...]:
    """Categories (largest first) and under each its kernels, seconds and calls per step of both traces.

    Kernels beyond ``most`` a category are added up as "… and n more", so that the table still adds up.
    """
    sides = [_side(a), _side(b)]
    categories = sorted(
        {category for side in sides for category, _ in side},
        key=lambda c: (-max(sum(v[0] for (k, _), v in side.items() if k == c) for side in sides), c),
    )
    rows: list[KernelRow] = []
    for category in categories:
        rows.append(_row(category, None, [_sum(side, category) for side in sides]))
        names = {name for side in sides for k, name in side if k == category}
        ordered = sorted(names, key=lambda n: (-max(s.get((category, n), (0.0, 0.0))[0] for s in sides), n))
        rows += [_row(category, name, [side.get((category, name)) for side in sides]) for name in ordered[:most]]
        rest = ordered[most:]
        if rest:
            sums = [_sum({k: v for k, v in side.items() if k[1] in set(rest)}, category) for side in sides]
            rows.append(_row(category, f"… and {len(rest)} more", sums))
    return tuple(rows)


_Side = dict[tuple[str, str], tuple[float, float]]


def _side(account: DeviceAccount | None) -> _Side:
    if account is None:
        return {}
    count = 1 if account.steps is None else len(account.steps.first)
    return {(t.category, t.name): (t.seconds / count, t.calls / count) for t in account.totals}


def _sum(side: _Side, category: str) -> tuple[float, float] | None:
    values = [v for (k, _), v in side.items() if k == category]
    return (sum(v[0] for v in values), sum(v[1] for v in values)) if values else None


def _row(category: str, name: str | None, pair: list[tuple[float, float] | None]) -> KernelRow:
    a, b = pair
    return KernelRow(
        category=category,
        name=name,
        a_seconds=None if a is None else a[0],
        b_seconds=None if b is None else b[0],
        a_calls=None if a is None else a[1],
        b_calls=None if b is None else b[1],
    )


def _name(cause: str) -> CauseName:
    if cause == "kernel":
        return "kernel"
    if cause == "communication":
        return "communication"
    return "cuda_graph" if cause == "cuda_graph" else "scheduling"


def _batching(a: DeviceAccount, b: DeviceAccount) -> Cause:
    texts = [_composition(x.steps.spans) if x.steps is not None else "no steps" for x in (a, b)]
    evidence = Evidence(name="batch of the traced steps", a=texts[0], b=texts[1], unit="", source="step annotations")
    summary = "not known: traced steps are compared as they are; equal batches make the comparison one of kernels"
    if texts[0] == texts[1]:
        summary = f"both traces hold steps of the same batch ({texts[0]})"
    return Cause(
        cause="batching", gap=0.0, share=0.0, interval=None, extrapolated=False, summary=summary, evidence=(evidence,)
    )


def _composition(spans: Spans) -> str:
    found = sorted(
        {
            f"{label.prefill_requests or 0} prefill ({label.prefill_tokens or 0} tokens), "
            f"{label.decode_requests if label.decode_requests is not None else label.requests or 0} decode"
            for label in spans.labels
        }
    )
    if spans.inferred:
        return f"{len(spans)} steps, batch not stated ({spans.source})"
    return "; ".join(found[:3]) + (f"; … {len(found) - 3} more" if len(found) > 3 else "")


def _interval(a: DeviceAccount, b: DeviceAccount) -> tuple[float, float] | None:
    if a.steps is None or b.steps is None:
        return None
    one, two = a.steps.seconds, b.steps.seconds
    error = float(np.hypot(np.std(one) / np.sqrt(len(one)), np.std(two) / np.sqrt(len(two))))
    gap = float(two.mean() - one.mean())
    return gap - 1.96 * error, gap + 1.96 * error


def comparable_devices(a: DeviceAccount, b: DeviceAccount) -> bool:
    """Whether both accounts are of one kind: a GPU against a CPU's operators compares nothing."""
    return (a.device == CPU) == (b.device == CPU)
