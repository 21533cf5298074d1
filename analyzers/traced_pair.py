"""What the traces of two runs give a diagnosis, in one walk over them."""

from __future__ import annotations

from dataclasses import dataclass

from profiler.analyzers.device import DeviceAccount
from profiler.analyzers.device_view import views_of
from profiler.analyzers.kept import CODE, kept_accounts
from profiler.analyzers.typical_steps import Traced, laid_beside, standing
from profiler.model.run import Run
from profiler.model.timeline import Moment, StepPair
from profiler.model.trace import Trace
from profiler.store.derived import derived


@dataclass(frozen=True)
class TracedPair:
    """The accounts of both runs' traces, and typical steps of both."""

    accounts: tuple[tuple[DeviceAccount, ...], tuple[DeviceAccount, ...]]
    timelines: tuple[StepPair, ...]
    moments: tuple[Moment, ...]


def traced_pair(run_a: Run, run_b: Run) -> TracedPair:
    """Both runs' accounts and typical steps; no trace's views are built twice, and only those of the two devices whose
    steps are shown are held."""
    found: list[tuple[tuple[DeviceAccount, ...], tuple[DeviceAccount, ...]]] = []

    def steps() -> tuple[tuple[StepPair, ...], tuple[Moment, ...]]:
        (accounts_a, shown_a), (accounts_b, shown_b) = _traced(run_a), _traced(run_b)
        found.append((accounts_a, accounts_b))
        return laid_beside((run_a, run_b), (shown_a, shown_b))

    kind = tuple[tuple[StepPair, ...], tuple[Moment, ...]]
    timelines, moments = derived((*run_a.traces, *run_b.traces), "typical steps", kind, CODE, steps)
    accounts = found[0] if found else (_accounts(run_a), _accounts(run_b))
    return TracedPair(accounts, timelines, moments)


def _accounts(run: Run) -> tuple[DeviceAccount, ...]:
    return tuple(account for trace in run.traces for account in kept_accounts(trace))


def _traced(run: Run) -> tuple[tuple[DeviceAccount, ...], Traced | None]:
    accounts: list[DeviceAccount] = []
    shown: Traced | None = None
    for trace in run.traces:
        if shown is not None and shown.tells:
            accounts += kept_accounts(trace)
        else:
            more, shown = _looked_at(trace, shown)
            accounts += more
    return tuple(accounts), shown


def _looked_at(trace: Trace, shown: Traced | None) -> tuple[tuple[DeviceAccount, ...], Traced | None]:
    views = views_of(trace)
    return kept_accounts(trace, lambda _: views), standing(shown, views)
