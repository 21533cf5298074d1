"""Attaches to a running engine everything that applies, and always lets go again.

Two passes. The first is measured: nothing but sampling goes on. The second, where it is asked for, runs the same load
once more and takes host stacks and a short trace of it; its own result is thrown away, and how much slower it was is
the profiler's toll.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from profiler.collectors.availability import GPU, LOAD, devices, metrics_path, pieces
from profiler.collectors.discovery import Discovery
from profiler.collectors.forward_passes import folder_of, publishers
from profiler.collectors.gpu.counter_csv import GpuCountersWriter
from profiler.collectors.http_client import Client
from profiler.collectors.interrupts import Interrupts
from profiler.collectors.load_command import Load, placed
from profiler.collectors.recording_manifest import document
from profiler.collectors.recording_plan import Outcome, Plan
from profiler.collectors.run_folder import OutOfSpace, RunFolder
from profiler.collectors.sampling import Collector, Cost, Sampling
from profiler.collectors.scheduler.forward_pass_stream import NAME as PASSES
from profiler.collectors.scheduler.forward_pass_stream import ForwardPassStream
from profiler.collectors.scheduler.log_tail import LOG, LogTail
from profiler.collectors.scheduler.scrape import LoadScrape, MetricsScrape, StepsDrain
from profiler.collectors.second_pass import SecondPass
from profiler.collectors.workers import Worker, engines_of, missing
from profiler.model.extension import Engine

TICK: Final = 0.1
FIRST_SAMPLE: Final = 5.0


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
        self._own = Worker(found.url, "", found)
        self._servers: tuple[Worker, ...] = ()
        self._out = Outcome()
        self._broken = False
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
                self._found, self._plan.version, self._plan.load, self._began, self._out.window, state, out.costs,
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
            self._out.window = began, time.time() - self._began
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
            if isinstance(one, MetricsScrape) and one.doubt is not None:
                self._out.problems.append(one.doubt)
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
        plan, folder = self._plan, self._folder
        self._own = Worker(self._found.url, "", self._found, pieces(self._found, self._client))
        self._servers = engines_of(self._own, self._workers)
        self._out.missing = missing(self._own, self._workers)
        chosen = self._scheduler(self._own)
        for server in self._servers:
            chosen += self._scheduler(server) if server.folder and not server.why else []
            chosen += self._steps(server)
        chosen += self._passes()
        chosen += self._logs()
        local = any(one.found is not None and one.found.processes for one in (self._own, *self._servers))
        if plan.dcgm is not None:
            exporter = Client(plan.dcgm.removesuffix("/metrics"))
            chosen.append(MetricsScrape(exporter, "/metrics", folder, plan.period, "dcgm"))
            chosen[-1].vital = False
        elif (local or GPU not in self._out.missing) and (opened := devices()[0]) is not None:
            chosen.append(GpuCountersWriter(opened, folder, plan.period))
        return tuple(chosen)

    def _scheduler(self, server: Worker) -> list[Collector]:
        """What samples one server's scheduler: its metrics, or what it says of its load where it has none."""
        ready = {piece.name: piece for piece in server.told if piece.ready}
        folder, period, client = self._folder, self._plan.period, self._client.again(server.url)
        if "metrics" in ready and server.found is not None:
            # Of a router nothing is differenced that is not its own view.
            told_by = self._engines if server.found.component is None else ()
            into = server.folder or "metrics"
            return [MetricsScrape(client, metrics_path(server.found), folder, period, into, told_by)]
        if LOAD in ready:
            return [LoadScrape(client, ready[LOAD].found, folder, period, server.folder or "load")]
        return []

    def _steps(self, server: Worker) -> list[Collector]:
        """What tells one server's steps: the list that it empties, or the file of our stat logger."""
        found, into = server.found, server.inside("steps.jsonl")
        live = None if found is None or found.engine is None else found.engine.live
        chosen: list[Collector] = []
        if live is not None and live.records is not None and any(p.name == "steps" and p.ready for p in server.told):
            client = self._client.again(server.url)
            chosen.append(StepsDrain(client, live.records, self._folder, self._plan.period, into))
        processes = () if found is None else found.processes
        written = next((one.step_log for one in processes if one.step_log), None)
        if written is not None and Path(written).is_file():
            chosen.append(LogTail(written, None, self._folder, into))
        return chosen

    def _passes(self) -> list[Collector]:
        """What tells every step as it ends, of whoever publishes it."""
        folders = {one.url: one.folder for one in self._workers if one.found is not None and not one.why}
        chosen: list[Collector] = []
        for one in (self._own, *(one for one in self._servers if one is not self._own)):
            if one.found is not None and any(piece.name == PASSES and piece.ready for piece in one.told):
                place = folder_of(one.found, one.folder, folders)
                chosen.append(ForwardPassStream(publishers(one.found), self._folder, place))
        return chosen

    def _logs(self) -> list[Collector]:
        """The log of every server on this machine. What several of them write into one file can't be told apart, and is
        kept as nobody's."""
        given, files = self._plan.log, dict[str, list[Worker]]()
        # A log that is given is the only engine's, or else the router's.
        for one in () if given is not None and len(self._servers) == 1 else (*self._servers, self._own):
            if one.log is not None and one not in files.setdefault(one.log, []):
                files[one.log].append(one)
        chosen: list[Collector] = []
        if given is not None:
            files.pop(given, None)
            engine = self._servers[0].found if len(self._servers) == 1 else self._found
            chosen.append(LogTail(given, None if engine is None else engine.engine, self._folder))
            self._out.missing.pop("log", None)
        for file, writers in files.items():
            first = writers[0]
            engines = [one.folder for one in writers if one in self._servers]
            if len(engines) > 1:
                why = f"they write into one file, {file}, where their lines can't be told apart"
                self._out.missing[f"log of {', '.join(engines)}"] = f"{why}: give each an output of its own"
            elif first.found is not None and not (given is not None and first is self._own):
                chosen.append(LogTail(file, first.found.engine, self._folder, first.inside(LOG)))
        return chosen

    def _trace(self) -> None:
        self._say("second pass: the same load once more, to be traced; its own result is thrown away")
        SecondPass(
            self._plan, self._out, self._client, self._own, self._servers, self._engines, self._folder, self._began,
            self._ended, self._break,
        ).run()  # fmt: skip
