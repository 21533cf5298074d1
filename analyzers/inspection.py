"""One run in, what is in it out."""

from __future__ import annotations

from pathlib import PurePosixPath

import numpy as np

from profiler.analyzers.baseline import baseline_of
from profiler.analyzers.corroboration import belongs_of, busy_of, toll_of
from profiler.analyzers.device import DeviceAccount
from profiler.analyzers.device_figures import device_figures
from profiler.analyzers.device_view import Views
from profiler.analyzers.gap.measured import trace_load
from profiler.analyzers.host import host_figures, stack_figures
from profiler.analyzers.identity import engine_of
from profiler.analyzers.joined_path import joinable
from profiler.analyzers.kept import kept_accounts, kept_checks
from profiler.analyzers.kernels import UNCLASSIFIED, family_of
from profiler.analyzers.metrics import metrics_of
from profiler.analyzers.run_summary import problems_of
from profiler.analyzers.serving_figures import serving_figures
from profiler.analyzers.trust import TrustCheck
from profiler.analyzers.worker_figures import worker_figures
from profiler.model.document import DocumentProblem
from profiler.model.inspection import (
    SECTIONS,
    Figure,
    InspectedComponent,
    InspectedDevice,
    InspectedFile,
    InspectedOperator,
    InspectedSteps,
    InspectedTotals,
    InspectedTrust,
    Inspection,
)
from profiler.model.requests import Floats
from profiler.model.run import Run
from profiler.model.totals import CallTotals

SCHEMA = "profiler.inspection/1"
LARGEST = 20
_ON_DEVICE = ("kernels", "device work")


def inspect(run: Run) -> Inspection:
    """The inspection document of a run."""
    views = Views(hold=joinable(run))
    accounts = [account for trace in run.traces for account in kept_accounts(trace, views.of)]
    sources = (*_log_steps(run), *_traced_steps(accounts))
    unknown = [(a.unclassified_share, a.busy_ns) for a in accounts if a.unclassified_share is not None]
    busy = sum(weight for _, weight in unknown)
    bench = run.benches[-1] if run.benches else None
    ranks = {trace.path: trace.rank for trace in run.traces}
    return Inspection(
        schema=SCHEMA,
        run=run.name,
        files=tuple(
            InspectedFile(
                path=file.path,
                format=file.format,
                bytes=file.bytes,
                read=file.read,
                problems=tuple(
                    DocumentProblem(
                        run=run.name, file=p.file, severity=p.severity, detail=p.detail, place=p.place, count=p.count
                    )
                    for p in file.problems
                ),
            )
            for file in run.files
        ),
        engine=engine_of(run),
        facts={key: f"{fact.value} [{fact.source}]" for key, fact in sorted(run.facts.items())},
        requests=sum(b.completed + b.failed for b in run.benches),
        steps=max((source.steps for source in sources), default=0),
        step_sources=sources,
        devices=tuple(_device(account, ranks[account.trace]) for account in accounts),
        unclassified_share=sum(share * weight for share, weight in unknown) / busy if busy else None,
        metrics={} if bench is None else metrics_of(bench),
        problems=problems_of(run),
        trust=_trust(run, accounts),
        figures=_figures(run, accounts, views),
        totals=tuple(map(_totals, run.totals)),
        components=_components(run),
        baseline=baseline_of(run),
    )


def _trust(run: Run, accounts: list[DeviceAccount]) -> tuple[InspectedTrust, ...]:
    """What each trace holds of what it should, by itself and against the rest of the run."""
    found: list[tuple[str, TrustCheck]] = []
    for trace in run.traces:
        found += [(trace.path, check) for check in kept_checks(trace)]
        own = [account for account in accounts if account.trace == trace.path]
        against = [check for account in own for check in (belongs_of(run, account), busy_of(run, trace, account))]
        found += [(trace.path, check) for check in against if check is not None]
    toll = toll_of(run, accounts)
    if toll is not None:
        found.append((next(a.trace for a in accounts if a.steps is not None), toll))
    return tuple(
        InspectedTrust(trace=trace, check=c.name, passed=c.passed, detail=c.detail, concerns=c.concerns)
        for trace, c in found
    )


def _figures(run: Run, accounts: list[DeviceAccount], views: Views) -> tuple[Figure, ...]:
    """Every figure, in the order of the sections."""
    host = [
        figure for trace in run.traces for figure in host_figures(trace, [a for a in accounts if a.trace == trace.path])
    ]
    of_server = (*serving_figures(run), *worker_figures(run))
    found = (*of_server, *device_figures(run, accounts, views.of), *host, *stack_figures(run.stacks))
    return tuple(sorted(found, key=lambda figure: SECTIONS.index(figure.section)))


def _device(account: DeviceAccount, rank: int | None) -> InspectedDevice:
    return InspectedDevice(
        device=account.device,
        trace=account.trace,
        name=account.name,
        kernels=account.kernels,
        kernel_seconds=account.kernel_ns / 1e9,
        busy_seconds=account.busy_ns / 1e9,
        window_seconds=account.window_ns / 1e9,
        categories={name: ns / 1e9 for name, ns in sorted(account.busy.items(), key=lambda item: -item[1])},
        idle={name: ns / 1e9 for name, ns in sorted(account.idle.items(), key=lambda item: -item[1])},
        roles={name: ns / 1e9 for name, ns in sorted(account.roles.items(), key=lambda item: -item[1])},
        layers=account.layers,
        unclassified_share=account.unclassified_share,
        captured=dict(account.captured),
        calls=dict(account.calls),
        role_calls=dict(account.role_calls),
        operators=tuple(
            InspectedOperator(
                kind=one.kind,
                name=one.name,
                seconds=one.nanoseconds / 1e9,
                calls=one.calls,
                host_seconds=None if one.host is None else one.host / 1e9,
                names=one.names,
            )
            for one in account.launchers
        ),
        rank=rank,
    )


def _totals(table: CallTotals) -> InspectedTotals:
    whole = int(table.total.sum())
    categories: dict[str, float] = {}
    unknown = 0
    if table.what in _ON_DEVICE:
        for name, total in zip(table.names, table.total.tolist(), strict=True):
            family = family_of(name)
            category = UNCLASSIFIED if family is None else family.category
            categories[category] = categories.get(category, 0.0) + total / 1e9
            unknown += total if family is None else 0
    first = list(zip(table.names, table.total.tolist(), strict=True))[:LARGEST]
    return InspectedTotals(
        source=table.path,
        tool=table.tool,
        what=table.what,
        names=len(table),
        calls=None if (table.calls < 0).any() else int(table.calls.sum()),
        seconds=whole / 1e9,
        categories=dict(sorted(categories.items(), key=lambda item: -item[1])),
        largest={name: total / 1e9 for name, total in first},
        unclassified_share=unknown / whole if categories and whole else None,
    )


def _components(run: Run) -> tuple[InspectedComponent, ...]:
    """The last scrape of each series: scrapes of one folder that are ordered by time are of the same program."""
    last: dict[tuple[str, str], InspectedComponent] = {}
    for one in run.components:
        key = (one.component, str(PurePosixPath(one.path).parent) if one.order else one.path)
        last[key] = InspectedComponent(
            source=one.path, component=one.component, title=one.title, values=dict(one.values)
        )
    return tuple(last.values())


def _log_steps(run: Run) -> list[InspectedSteps]:
    found = []
    for log in run.logs:
        steps = log.steps
        if len(steps):
            prefill, decode = np.maximum(steps.prefill_requests, 0), np.maximum(steps.decode_requests, 0)
            kind = "one line a step" if log.every_step else "a line every few decode steps"
            found.append(_counted(f"{log.path} ({kind})", prefill, decode, steps.seconds, inferred=False))
    return found


def _traced_steps(accounts: list[DeviceAccount]) -> list[InspectedSteps]:
    found = []
    for account in accounts:
        if account.steps is not None:
            load, known = trace_load(account.steps)
            spans, count = account.steps.spans, len(account.steps.first)
            prefill, decode = np.zeros(count), np.zeros(count)
            prefill[known], decode[known] = load.prefill_requests, load.decode
            source = f"{account.trace} on {account.device} ({spans.source})"
            found.append(_counted(source, prefill, decode, account.steps.seconds, inferred=spans.inferred))
    return found


def _counted(source: str, prefill: Floats, decode: Floats, seconds: Floats, *, inferred: bool) -> InspectedSteps:
    known = np.isfinite(seconds)
    stated = bool((prefill > 0).any() or (decode > 0).any())
    return InspectedSteps(
        source=source,
        steps=len(prefill),
        prefill=int(((prefill > 0) & (decode == 0)).sum()),
        decode=int(((prefill == 0) & (decode > 0)).sum()),
        mixed=int(((prefill > 0) & (decode > 0)).sum()),
        mean_sequences=float((prefill + decode).mean()) if stated else None,
        mean_seconds=float(seconds[known].mean()) if known.any() else None,
        inferred=inferred,
    )
