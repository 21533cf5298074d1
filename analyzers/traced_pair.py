"""What the traces of two runs give a diagnosis, in one walk over them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain

from profiler.analyzers.device import DeviceAccount
from profiler.analyzers.device_view import DeviceView, views_of
from profiler.analyzers.kept import CODE, kept_accounts
from profiler.analyzers.typical_steps import Traced, laid_beside, standing
from profiler.model.run import Run
from profiler.model.timeline import Moment, StepPair
from profiler.model.trace import Trace
from profiler.store.derived import derived
from profiler.store.side_by_side import side_by_side

Accounts = tuple[DeviceAccount, ...]


@dataclass(frozen=True)
class TracedPair:
    """The accounts of both runs' traces, and typical steps of both."""

    accounts: tuple[Accounts, Accounts]
    timelines: tuple[StepPair, ...]
    moments: tuple[Moment, ...]


def traced_pair(run_a: Run, run_b: Run) -> TracedPair:
    """Both runs' accounts and typical steps; no trace's views are built twice, and only those of the two devices whose
    steps are shown are held. The accounts of all traces that are not walked through for that are made side by side."""
    found: list[tuple[Accounts, Accounts]] = []

    def steps() -> tuple[tuple[StepPair, ...], tuple[Moment, ...]]:
        walked = _Walked.through(run_a), _Walked.through(run_b)
        left = [(one, trace) for one in walked for trace in one.run.traces if trace.path not in one.accounts]
        made = side_by_side(lambda item: item[0].account(item[1]), left)
        for (one, trace), accounts in zip(left, made, strict=True):
            one.accounts[trace.path] = accounts
        found.append((walked[0].in_order(), walked[1].in_order()))
        return laid_beside((run_a, run_b), (walked[0].shown, walked[1].shown))

    kind = tuple[tuple[StepPair, ...], tuple[Moment, ...]]
    timelines, moments = derived((*run_a.traces, *run_b.traces), "typical steps", kind, CODE, steps)
    accounts = found[0] if found else (_Walked(run_a).in_order(), _Walked(run_b).in_order())
    return TracedPair(accounts, timelines, moments)


@dataclass
class _Walked:
    """A run whose traces were looked at in order up to the one with the device that stands for it (``shown``, with the
    ``views`` of its trace); ``accounts`` by the path of a trace, of those before it."""

    run: Run
    shown: Traced | None = None
    views: tuple[DeviceView, ...] = ()
    accounts: dict[str, Accounts] = field(default_factory=dict[str, Accounts])

    @staticmethod
    def through(run: Run) -> _Walked:
        walked = _Walked(run)
        for trace in run.traces:
            walked.views = views_of(trace)
            walked.shown = standing(walked.shown, walked.views)
            if walked.shown is not None and walked.shown.tells:
                return walked
            walked.accounts[trace.path] = walked.account(trace)
        walked.views = ()
        return walked

    def account(self, trace: Trace) -> Accounts:
        """Of one trace."""
        held = self.views if self.views and self.views[0].trace is trace else None
        return kept_accounts(trace, views_of if held is None else lambda _: held)

    def in_order(self) -> Accounts:
        """Of all traces."""
        made = self.accounts
        return tuple(chain(*(made[t.path] if t.path in made else self.account(t) for t in self.run.traces)))
