"""The second pass: the same load once more, in which host stacks are taken and the engines' own profilers run.

Several engines are traced together, each by a session of its own that is told to stop whatever becomes of the others;
only those that write into one folder under names that do not tell them apart are traced one after the other.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, zip_longest
from pathlib import Path
from typing import Final

from profiler.collectors.host.pyspy import MOST_PROCESSES, HostStacks, program
from profiler.collectors.http_client import Client
from profiler.collectors.load_command import Load, placed
from profiler.collectors.process_tree import Process
from profiler.collectors.recording_plan import Outcome, Plan
from profiler.collectors.run_folder import RunFolder
from profiler.collectors.sampling import Sampling
from profiler.collectors.trace_pass import Traced, TracePass, ramp, toll_of
from profiler.collectors.workers import Worker
from profiler.model.extension import Engine

TICK: Final = 0.1
STACK_SECONDS: Final = 10.0
# Of the load's time, so that a short one leaves room for a trace.
STACK_SHARE: Final = 0.4
MOST_TRACED: Final = 8


class SecondPass:
    """``servers`` are those with engines, ``own`` the one that was asked (a router is none of them). ``ended`` says
    that the recording has to end, and ``end`` makes it."""

    def __init__(
        self,
        plan: Plan,
        out: Outcome,
        client: Client,
        own: Worker,
        servers: Sequence[Worker],
        engines: Sequence[Engine],
        folder: RunFolder,
        began: float,
        ended: Callable[[], bool],
        end: Callable[[], None],
    ) -> None:
        self._plan, self._out, self._client, self._own, self._servers = plan, out, client, own, servers
        self._engines, self._folder, self._began, self._ended, self._end = engines, folder, began, ended, end

    def run(self) -> None:
        """What is found goes into the outcome; the load is ended and every profiler let go."""
        plan = self._plan
        aside = Path(tempfile.mkdtemp(prefix="profiler-load-"))
        load = Load(placed(plan.load, plan.out, aside), heard=False) if plan.load else None

        def over() -> bool:
            return self._ended() or (load is not None and load.status is not None)

        passes = [
            TracePass(self._client.again(one.url), one, self._engines, self._folder, over)
            for one in self._servers[:MOST_TRACED]
        ]
        try:
            ramp(passes, over, self._out.measured)
            if plan.stacks:
                self._stacks(over, passes)
            if plan.profile and not over():
                self._profile(passes)
            elif plan.profile:
                self._out.problems.append("the load ended before a trace could be taken: make it longer")
        finally:
            for one in passes:
                one.close()
            if load is not None:
                if load.status not in (None, 0) and not self._ended():
                    self._out.problems.append(f"the load ended with status {load.status} in the second pass")
                load.end()
            shutil.rmtree(aside, ignore_errors=True)

    def _stacks(self, over: Callable[[], bool], passes: Sequence[TracePass]) -> None:
        spy = program()
        seen = self._host_processes()
        if spy is None or not seen:
            whys = (why for name, why in self._out.missing.items() if name.startswith("host stacks"))
            self._out.problems.append(f"host stacks: {next(whys, 'no process is known')}")
            return
        if len(seen) > MOST_PROCESSES:
            self._out.problems.append(f"host stacks: taken of {MOST_PROCESSES} of {len(seen)} processes")
        stacks = HostStacks(spy, seen, self._folder, self._plan.native)
        sampling = Sampling((stacks,), self._began, self._end)
        before = [one.look() for one in passes]
        sampling.start()
        try:
            shared = self._plan.load and self._plan.profile
            most = STACK_SHARE * self._out.measured if shared else STACK_SECONDS
            deadline = time.monotonic() + min(most, STACK_SECONDS)
            while not over() and time.monotonic() < deadline:
                time.sleep(TICK)
            # A load that ended in between has made fewer tokens for that reason.
            if not over():
                rates = [one.rates(since) for one, since in zip(passes, before, strict=True)]
                stacks.cost.toll = toll_of(rates, len(self._servers))
        finally:
            sampling.stop()
            self._out.costs.append(stacks.cost)
        self._out.problems += [f"host stacks: {problem}" for problem in stacks.cost.problems]

    def _host_processes(self) -> list[tuple[str, Process]]:
        """Each with the folder that its stacks go to; one of each server before the second of any."""
        servers = self._servers if self._own in self._servers else (*self._servers, self._own)
        each = [
            [(one.inside("stacks"), process) for process in one.found.host_processes]
            for one in servers
            if one.found is not None
        ]
        return [pair for pair in chain(*zip_longest(*each)) if pair is not None]

    def _profile(self, passes: Sequence[TracePass]) -> None:
        if not passes:
            self._out.problems.append("trace: none of the servers behind the router was reached")
            return
        groups: dict[object, list[TracePass]] = {}
        for one in passes:
            groups.setdefault(one.alone or one, []).append(one)
        # Each thread stops what it started; leaving the block waits for all of them, whatever one of them raised.
        with ThreadPoolExecutor(len(groups)) as pool:
            taken = [traced for group in pool.map(self._in_turn, groups.values()) for traced in group]
        self._out.costs += [one.cost for one in passes]
        for traced in taken:
            self._out.problems += traced.problems
        if len(self._servers) > len(passes):
            left = ", ".join(one.folder for one in self._servers[len(passes) :])
            self._out.problems.append(f"trace: of {len(passes)} workers at most; {left} have none")
        if [one.folder for one in self._servers] == [""]:
            self._out.trace = taken[0].told
            return
        self._out.trace = {"workers": {traced.folder: traced.told for traced in taken}}
        self._out.trace |= {"files": [f"{one.folder}/trace/{name}" for one in taken for name in one.files]}
        if (toll := toll_of([one.rates for one in taken], len(self._servers))) is not None:
            self._out.trace["toll"] = toll

    def _in_turn(self, passes: Sequence[TracePass]) -> list[Traced]:
        return [one.take(self._plan.trace_steps, self._plan.trace_seconds) for one in passes]
