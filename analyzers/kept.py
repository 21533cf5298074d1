"""What is made of traces alone, kept with them: nothing of it is made again for large traces that were seen before.

Each function gives what the one that it stands for gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from profiler.analyzers.communication import AcrossRanks
from profiler.analyzers.device import DeviceAccount, accounts_of
from profiler.analyzers.device_view import DeviceView, views_of
from profiler.analyzers.joined_path import JoinedPath, joined
from profiler.analyzers.trust import TrustCheck, checks_of, lost_kernels
from profiler.model.run import Run
from profiler.model.trace import Trace
from profiler.store.derived import derived

# What of our code has a part in it. What engines' files say of a trace's names is part of the trace.
CODE: Final = ("profiler.analyzers", "profiler.store", "profiler.model")


def kept_accounts(trace: Trace, views: Callable[[Trace], Sequence[DeviceView]] = views_of) -> tuple[DeviceAccount, ...]:
    """See ``accounts_of``; ``views`` is asked for the trace's where they are needed."""
    kind = tuple[DeviceAccount, ...]
    return derived((trace,), "accounts", kind, CODE, lambda: accounts_of(trace, views(trace)))


def kept_checks(trace: Trace) -> tuple[TrustCheck, ...]:
    """See ``checks_of``."""
    return derived((trace,), "checks", tuple[TrustCheck, ...], CODE, lambda: checks_of(trace))


def kept_lost_kernels(trace: Trace) -> tuple[TrustCheck, ...]:
    """See ``lost_kernels``."""
    return derived((trace,), "lost kernels", tuple[TrustCheck, ...], CODE, lambda: lost_kernels(trace))


def kept_joined(
    run: Run, across: AcrossRanks | None, views: Callable[[Trace], Sequence[DeviceView]]
) -> JoinedPath | None:
    """See ``joined``; ``across`` follows from the run's traces."""
    return derived(run.traces, "joined path", JoinedPath | None, CODE, lambda: joined(run, across, views))
