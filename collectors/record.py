"""Attaches to a running engine everything that applies, and always lets go again.

Two passes. The first is measured: nothing but sampling goes on. The second, where it is asked for, runs the same load
once more and takes host stacks and a short trace of it; its own result is thrown away, and how much slower it was is
the profiler's toll.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from profiler.collectors.availability import LOAD, Piece, devices, metrics_path, pieces
from profiler.collectors.discovery import Discovery
from profiler.collectors.gpu.counter_csv import GpuCountersWriter
from profiler.collectors.host.pyspy import HostStacks, program
from profiler.collectors.http_client import Client
from profiler.collectors.interrupts import Interrupts
from profiler.collectors.load_command import Load, placed
from profiler.collectors.recording_manifest import document
from profiler.collectors.run_folder import OutOfSpace, RunFolder
from profiler.collectors.sampling import Collector, Cost, Sampling
from profiler.collectors.scheduler.log_tail import LogTail
from profiler.collectors.scheduler.scrape import LoadScrape, MetricsScrape, StepsDrain
from profiler.collectors.trace_pass import Level, TracePass, level_of
from profiler.collectors.workers import Worker
from profiler.model.extension import Engine

TICK: Final = 0.1
FIRST_SAMPLE: Final = 5.0
STACK_SECONDS: Final = 10.0
# Of the load's time, so that a short one leaves room for a trace.
STACK_SHARE: Final = 0.4


@dataclass(frozen=True)
class Plan:
    """What is asked for. ``duration``: without a load how long to record, with one when to end it; ``period`` in
    seconds; ``log`` a file, docker:NAME or journal:UNIT; ``dcgm`` the address of a DCGM exporter;
    ``version`` is ours."""

    out: Path
    load: tuple[str, ...] = ()
    duration: float | None = None
    period: float = 1.0
    profile: bool = False
    stacks: bool = False
    trace_steps: int = 20
    trace_seconds: float = 10.0
    most_bytes: int = 4 << 30
    log: str | None = None
    dcgm: str | None = None
    version: str = ""


@dataclass
class Outcome:
    """How it went. ``problems`` are what is missing of what was asked for."""

    interrupted: bool = False
    problems: list[str] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    trace: dict[str, object] = field(default_factory=dict)


class Recording:
    """One recording of one server, or of a router and its ``workers``. ``say`` is told what happens, a line each."""

    def __init__(
        self,
        plan: Plan,
        client: Client,
        found: Discovery,
        engines: Sequence[Engine],
        say: Callable[[str], None],
        workers: Sequence[Worker] = (),
    ) -> None:
        self._plan, self._client, self._found, self._engines, self._say = plan, client, found, engines, say
        self._workers = tuple(workers)
        self._out = Outcome()
        self._broken = False
        self._window: tuple[float, float] | None = None
        self._folder = RunFolder(plan.out, plan.most_bytes)
        self._began = time.time()

    def run(self) -> Outcome:
        """Both passes. Whatever happens, a run that opens is left behind and the engine is let go."""
        state = "broken"
        with self._client, Interrupts() as interrupts:
            self._interrupts = interrupts
            try:
                self._write("recording")
                self._measure()
                if not self._ended() and (self._plan.profile or self._plan.stacks):
                    self._trace()
                state = "interrupted" if interrupts.seen else "incomplete" if self._out.problems else "done"
            except OutOfSpace as error:
                self._out.problems.append(str(error.strerror))
            finally:
                self._out.interrupted = interrupts.seen
                self._out.costs.append(
                    Cost("discovery", requests=self._client.requests, received=self._client.received)
                )
                try:
                    self._write(state)
                except OSError as error:
                    self._out.problems.append(f"run.json keeps the state of the beginning: {error.strerror or error}")
        return self._out

    def _ended(self) -> bool:
        return self._interrupts.seen or self._broken

    def _write(self, state: str) -> None:
        out = self._out
        self._folder.manifest(
            document(
                self._found, self._plan.version, self._plan.load, self._began, self._window, state, out.costs,
                out.missing, out.problems, out.trace, self._workers,
            )
        )  # fmt: skip

    def _measure(self) -> None:
        if self._found.settings:
            self._folder.write("server_info.json", json.dumps(self._found.settings, indent=1).encode())
        for worker in self._workers:
            if worker.found is not None and worker.found.settings and not worker.why:
                settings = json.dumps(worker.found.settings, indent=1).encode()
                self._folder.write(f"{worker.folder}/server_info.json", settings)
        collectors = self._collectors()
        sampling = Sampling(collectors, self._began, self._break)
        load = None
        try:
            sampling.start()
            self._wait(lambda: all(c.cost.samples + c.cost.missed for c in collectors), FIRST_SAMPLE)
            began = time.time() - self._began
            if self._plan.load and not self._ended():
                load = Load(placed(self._plan.load, self._plan.out, self._plan.out.absolute()))
            if load is not None or not self._plan.load:
                self._wait(lambda: load is not None and load.status is not None, self._plan.duration)
            self._window = began, time.time() - self._began
        finally:
            status = None if load is None else load.status
            if load is not None:
                load.end()
            sampling.stop()
            self._out.costs += [one.cost for one in collectors]
        if sampling.broken:
            self._out.problems.append(sampling.broken)
        if status not in (None, 0):
            self._out.problems.append(f"the load ended with status {status}")
            self._broken = True
        elif load is not None and status is None and not self._ended():
            self._say(f"the load was ended after {self._plan.duration:g} s, as --duration says")
        for one in collectors:
            if one.cost.samples == 0 or (one.vital and one.cost.missed):
                why = one.cost.problems[0] if one.cost.problems else "no sample was taken"
                self._out.problems.append(f"{one.cost.collector}: {one.cost.missed} samples are missing ({why})")

    def _break(self) -> None:
        self._broken = True

    def _wait(self, over: Callable[[], bool], seconds: float | None) -> None:
        deadline = None if seconds is None else time.monotonic() + seconds
        while not over() and not self._ended() and (deadline is None or time.monotonic() < deadline):
            time.sleep(TICK)

    def _collectors(self) -> tuple[Collector, ...]:
        """Everything that applies; what does not is noted with what it would need."""
        plan, found, folder = self._plan, self._found, self._folder
        told = {piece.name: piece for piece in pieces(found, self._client)}
        self._out.missing = {
            p.name: f"{p.found}; {p.needs}" if p.needs else p.found for p in told.values() if not p.ready
        }
        live = None if found.engine is None else found.engine.live
        chosen: list[Collector] = []
        chosen += self._scheduler(found, told.values(), self._client, "")
        if live is not None and live.records is not None and told["steps"].ready:
            chosen.append(StepsDrain(self._client.again(), live.records, folder, plan.period))
        for worker in self._workers:
            if worker.why or worker.found is None:
                self._out.missing[f"{worker.folder} ({worker.url})"] = worker.why
            else:
                chosen += self._scheduler(worker.found, worker.told, self._client.again(worker.url), worker.folder)
        # The steps of several workers ran side by side: no log of one of them is the run's.
        only = self._workers[0].found if len(self._workers) == 1 and self._workers[0].found else found
        log = plan.log or only.log
        if log is not None:
            chosen.append(LogTail(log, only.engine, folder))
            self._out.missing.pop("log", None)
        written = next((one.step_log for one in found.processes if one.step_log), None)
        if written is not None and Path(written).is_file():
            chosen.append(LogTail(written, None, folder, "steps.jsonl"))
        if plan.dcgm is not None:
            exporter = Client(plan.dcgm.removesuffix("/metrics"))
            chosen.append(MetricsScrape(exporter, "/metrics", folder, plan.period, "dcgm"))
            chosen[-1].vital = False
        elif (found.processes or told["gpu"].ready) and (opened := devices()[0]) is not None:
            chosen.append(GpuCountersWriter(opened, folder, plan.period))
        return tuple(chosen)

    def _scheduler(self, found: Discovery, told: Iterable[Piece], client: Client, into: str) -> list[Collector]:
        """What samples one server's scheduler: its metrics, or what it says of its load where it has none."""
        ready = {piece.name: piece for piece in told if piece.ready}
        folder, period = self._folder, self._plan.period
        if "metrics" in ready:
            return [MetricsScrape(client.again(), metrics_path(found), folder, period, into or "metrics")]
        return [LoadScrape(client.again(), ready[LOAD].found, folder, period, into or "load")] if LOAD in ready else []

    def _trace(self) -> None:
        self._say("second pass: the same load once more, to be traced; its own result is thrown away")
        aside = Path(tempfile.mkdtemp(prefix="profiler-load-"))
        load = Load(placed(self._plan.load, self._plan.out, aside), heard=False) if self._plan.load else None

        def over() -> bool:
            return self._ended() or (load is not None and load.status is not None)

        level = level_of(self._folder.path / "metrics", self._engines)
        client = self._client.again()
        tracing = TracePass(client, self._found, self._engines, self._folder, over)
        try:
            began, ended = self._window or (0.0, 0.0)
            tracing.ramp(level, ended - began)
            if self._plan.stacks:
                self._stacks(over)
            if self._plan.profile and not over():
                self._profile(tracing, level)
            elif self._plan.profile:
                self._out.problems.append("the load ended before a trace could be taken: make it longer")
        finally:
            client.close()
            if load is not None:
                load.end()
            shutil.rmtree(aside, ignore_errors=True)

    def _stacks(self, over: Callable[[], bool]) -> None:
        spy = program()
        seen = self._found.host_processes
        if spy is None or not seen:
            self._out.problems.append(f"host stacks: {self._out.missing.get('host stacks', 'no process is known')}")
            return
        stacks = HostStacks(spy, seen, self._folder)
        sampling = Sampling((stacks,), self._began, self._break)
        sampling.start()
        try:
            began, ended = self._window or (0.0, 0.0)
            most = STACK_SHARE * (ended - began) if self._plan.load and self._plan.profile else STACK_SECONDS
            deadline = time.monotonic() + min(most, STACK_SECONDS)
            self._wait(lambda: over() or time.monotonic() >= deadline, None)
        finally:
            sampling.stop()
            self._out.costs.append(stacks.cost)
        self._out.problems += [f"host stacks: {problem}" for problem in stacks.cost.problems]

    def _profile(self, tracing: TracePass, level: Level) -> None:
        self._out.trace, problems = tracing.take(level, self._plan.trace_steps, self._plan.trace_seconds)
        self._out.problems += problems
        self._out.costs.append(tracing.cost)
