"""The traced pass: waits until the load stands as it stood, starts the engine's profiler for a bounded window, fetches
what it wrote, and states what it cost."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from profiler.collectors.availability import metrics_path
from profiler.collectors.http_client import Client
from profiler.collectors.process_tree import sees_our_files
from profiler.collectors.run_folder import RunFolder
from profiler.collectors.sampling import LOST_SECONDS, Cost
from profiler.collectors.scheduler.scrape import reading
from profiler.collectors.torch_trace.remote import SessionRefused, TraceSession, settled
from profiler.collectors.workers import Worker
from profiler.model.answering import another, returned
from profiler.model.extension import Engine
from profiler.model.live import TraceControl, TraceWindow
from profiler.model.metrics import MetricsSnapshot

RAMP_SECONDS: Final = 15.0
BLIND_RAMP: Final = 3.0
# Without a count of steps and without a bound in the request, so long is traced.
BLIND_WINDOW: Final = 2.0
FLUSH_SECONDS: Final = 60.0
ORPHAN_SECONDS: Final = 3.0
_TICK: Final = 0.1
_POLL: Final = 0.5
_SETTLED_SHARE: Final = 0.7
_MOST_READ: Final = 60
# A load that is short must not end before it is traced.
_RAMP_SHARE: Final = 0.3


@dataclass(frozen=True)
class Level:
    """The measured pass while it was busy: requests running, tokens and steps a second. None: not known."""

    running: float | None = None
    tokens_per_second: float | None = None
    steps_per_second: float | None = None


def level_of(folder: Path, engines: Sequence[Engine]) -> Level:
    """From the scrapes of the measured pass, sixty of them at most."""
    files = sorted(folder.glob("*.prom"))
    stride = -(-len(files) // _MOST_READ) or 1
    found = [reading(path.read_text("utf-8", "replace"), engines, path.name) for path in files[::stride]]
    busy = [one for one in found if one is not None and one.values.get("running_requests", 0) > 0]
    if not busy:
        return Level()
    if returned(one.process for one in busy) is not None:
        return Level()
    return Level(
        running=median(one.values["running_requests"] for one in busy),
        tokens_per_second=_rate(busy, "generation_tokens"),
        steps_per_second=_rate(busy, steps_of(busy[-1])),
    )


def _rate(busy: Sequence[MetricsSnapshot], concept: str) -> float | None:
    """A counter's growth a second, from the first scrape that holds it: some show it after their first request only."""
    first, last = next((one for one in busy if concept in one.values), busy[0]), busy[-1]
    spent = None if first.seconds is None or last.seconds is None else last.seconds - first.seconds
    return rate(first, last, concept, spent)


def rate(first: MetricsSnapshot, last: MetricsSnapshot, concept: str, seconds: float | None) -> float | None:
    """A counter's growth a second; None where it is not told or did not grow, or where another process tells."""
    if another(first.process, last.process):
        return None
    a, b = first.values.get(concept), last.values.get(concept)
    return None if a is None or b is None or not seconds or seconds <= 0 or b <= a else (b - a) / seconds


def steps_of(one: MetricsSnapshot) -> str:
    """The concept that counts this engine's steps."""
    return "steps" if "steps" in one.values else "step_tokens_count"


# The output tokens a second of the measured pass and of the second one, None where not known.
Rates = tuple[float | None, float | None]
# A server's metrics and when they were asked for, in seconds of a clock that counts on.
Look = tuple[MetricsSnapshot | None, float]


def toll_of(rates: Sequence[Rates], servers: int) -> float | None:
    """How many times as many tokens a second the measured pass made, where that is known of so many servers."""
    known = [(measured, slowed) for measured, slowed in rates if measured and slowed]
    if not known or len(known) < servers:
        return None
    return round(sum(measured for measured, _ in known) / sum(slowed for _, slowed in known), 3)


@dataclass(frozen=True)
class Traced:
    """What became of one server's session: what ``run.json`` tells of it, the names of its files, its problems.
    ``rates`` are those of both passes."""

    folder: str
    told: dict[str, object]
    files: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    rates: Rates = (None, None)


def ramp(passes: Sequence[TracePass], over: Callable[[], bool], measured: float) -> None:
    """Wait until about as many requests run in all servers as did in the measured pass, which took so many seconds."""
    wanted = sum(one.level.running or 0.0 for one in passes)
    longest = RAMP_SECONDS if wanted else BLIND_RAMP
    deadline = time.monotonic() + min(longest, _RAMP_SHARE * measured)
    while not over() and time.monotonic() < deadline:
        if wanted and sum(one.running() for one in passes) >= _SETTLED_SHARE * wanted:
            return
        _sleep(min(_POLL, deadline - time.monotonic()), over)


class TracePass:
    """The session of one server. ``over`` says that the load has ended, or that the recording has to; ``level`` is what
    the server's measured pass was like."""

    def __init__(
        self, client: Client, server: Worker, engines: Sequence[Engine], folder: RunFolder, over: Callable[[], bool]
    ) -> None:
        self.cost = Cost("trace" if not server.folder else f"trace of {server.folder}")
        self._client, self._server, self._engines, self._folder, self._over = client, server, engines, folder, over
        self._found = server.found
        self.level = level_of(folder.path / (server.folder or "metrics"), engines)
        live = None if self._found is None or self._found.engine is None else self._found.engine.live
        self._needs = "no engine is known" if live is None else live.trace_needs
        self._control = None if live is None else live.trace
        self._name = f"profiler-{server.folder}" if server.folder else "profiler"
        self._silent = False  # whether the last look had no answer
        # A server in a container sees other folders than we do: then it keeps to its own.
        processes = () if self._found is None else self._found.processes
        shared = bool(processes) and sees_our_files(processes[0].pid)
        chooses = self._control is not None and self._control.chooses_folder
        self._into = str(folder.path.absolute() / server.inside("trace")) if shared and chooses else None

    @property
    def alone(self) -> str | None:
        """The folder into which this server writes under names that another server there could write too; sessions
        of equal ones must not overlap. None where nothing is in the way."""
        if self._control is None or self._into is not None or self._marked:
            return None
        return self._place

    def running(self) -> float:
        """Requests that run now; 0 where nothing tells."""
        now = None if self.level.running is None else self._now()
        return 0.0 if now is None else now.values.get("running_requests", 0.0)

    def look(self) -> Look:
        """Its metrics now."""
        return self._now(), time.monotonic()

    def rates(self, since: Look) -> Rates:
        """The tokens a second of the measured pass, and of the time since a look."""
        (first, began), (last, ended) = since, self.look()
        made = None if first is None or last is None else rate(first, last, "generation_tokens", ended - began)
        return self.level.tokens_per_second, made

    def close(self) -> None:
        """Drop the connection."""
        self._client.close()

    def take(self, steps: int, seconds: float) -> Traced:
        """One session, which is told to stop whatever happens."""
        control, found, level = self._control, self._found, self.level
        if control is None or found is None:
            return self._traced({}, [f"trace: {self._needs}"])
        version = found.identity.version
        if self._into is not None:
            Path(self._into).mkdir(parents=True, exist_ok=True)
        window = TraceWindow(steps, seconds, self._into, self._name)
        session = TraceSession(self._client, control, window, version)
        cpu, since = time.thread_time(), time.time()
        told: dict[str, object] = {"steps_asked": steps, "began_epoch": round(since, 6)}
        try:
            with session:
                before = self.look()
                self._sit(control, version, before[0], level, steps, seconds)
                rates, spent = self.rates(before), time.monotonic() - before[1]
        except SessionRefused as error:
            return self._traced(told, [f"trace: {error}"])
        finally:
            self.cost.cpu_seconds = time.thread_time() - cpu
            self.cost.requests, self.cost.received = self._client.requests, self._client.received
        told |= {"seconds": round(spent, 3), "stop_seconds": round(session.stop_seconds or 0.0, 3)}
        told["tokens_per_second"] = dict(zip(("measured", "traced"), rates, strict=True))
        if (toll := toll_of([rates], 1)) is not None:
            told["toll"] = toll
        lost = session.problem is not None and self._now() is None and self._silent
        problems = [session.problem] if session.problem else []
        if lost:
            problems = [f"trace: the server was lost while its profiler ran: {session.problem}"]
        # A server that is gone writes nothing more, unless one of its processes outlived it.
        files, lacking = self._fetch(control, since, told, ORPHAN_SECONDS if lost else FLUSH_SECONDS)
        return self._traced(told, problems + ([] if lost else lacking), files, rates)

    def _traced(
        self,
        told: dict[str, object],
        problems: Sequence[str],
        files: tuple[str, ...] = (),
        rates: Rates = (None, None),
    ) -> Traced:
        folder = self._server.folder
        return Traced(folder, told, files, tuple(f"{folder and f'{folder}: '}{one}" for one in problems), rates)

    @property
    def _marked(self) -> bool:
        """Whether the request gives the files a name of ours."""
        if self._control is None or self._found is None:
            return False
        body = self._control.body(TraceWindow(1, 1.0, self._into, self._name), self._found.identity.version)
        return self._name in (body or {}).values()

    @property
    def _place(self) -> str | None:
        """The folder that is written to, as the server names it."""
        if self._control is None or self._found is None:
            return None
        return self._into or self._control.folder(self._found.command, self._found.settings)

    def _sit(
        self,
        control: TraceControl,
        version: str | None,
        first: MetricsSnapshot | None,
        level: Level,
        steps: int,
        seconds: float,
    ) -> None:
        """Until so many steps have run, the time is up, or the server was lost."""
        limit = seconds
        counted = first is not None and steps_of(first) in first.values
        if not counted and not control.stops_itself(version):
            per_second = level.steps_per_second
            limit = min(seconds, steps / per_second if per_second else BLIND_WINDOW)
        answered = time.monotonic()
        deadline = answered + limit
        while not self._over() and time.monotonic() < deadline:
            self._sleep(min(_POLL, max(deadline - time.monotonic(), 0.0)))
            now = self._now()
            if not self._silent:
                answered = time.monotonic()
            elif time.monotonic() - answered > LOST_SECONDS:
                return
            if counted and now is not None and first is not None:
                name = steps_of(first)
                # One more than was asked for: the last one is cut.
                if now.values.get(name, 0) > first.values[name] + steps + 1:
                    return

    def _fetch(
        self, control: TraceControl, since: float, told: dict[str, object], seconds: float
    ) -> tuple[tuple[str, ...], list[str]]:
        """(the names of the files that are in the run now, problems). The first is waited for that many seconds."""
        place, into, processes = self._place, self._into, () if self._found is None else self._found.processes
        told["folder"] = place
        if place is None:
            return (), ["trace: the server wrote it where it was told to; that folder is not known from here"]
        seen = Path(place)
        if into is None and processes:
            seen = Path(f"/proc/{processes[0].pid}/root") / place.lstrip("/")
        # Several servers may share a folder: then the name tells whose a file is.
        pattern = f"{self._name}[!0-9]{control.files}" if self._server.folder and self._marked else control.files
        files = settled(seen, pattern, since, seconds) if seen.is_dir() else ()
        if files and seconds < FLUSH_SECONDS:
            files = settled(seen, pattern, since, FLUSH_SECONDS)
        inside = self._server.inside("trace")
        if not files:
            where = place if seen.is_dir() else f"{place} on the server's machine"
            return (), [f"trace: no file of it came into {where}: look there, and copy it into the run's {inside}/"]
        for path in files:
            size = path.stat().st_size
            if into is None:
                if self._folder.written + size > self._folder.most_bytes:
                    told_of = f"{path} ({size >> 20} MiB) would pass the run's bound; it was left where it is"
                    return (), [f"trace: {told_of}"]
                (self._folder.path / inside).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, self._folder.path / inside / path.name)
            self._folder.written += size
            self.cost.written += size
        names = tuple(path.name for path in files)
        told["files"] = list(names)
        return names, []

    def _now(self) -> MetricsSnapshot | None:
        if self._found is None:
            return None
        answer = self._client.get(metrics_path(self._found))
        self._silent = answer.status == 0
        return reading(answer.text, self._engines, "now") if answer.ok else None

    def _sleep(self, seconds: float) -> None:
        _sleep(seconds, self._over)


def _sleep(seconds: float, over: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not over() and time.monotonic() < deadline:
        time.sleep(min(_TICK, max(deadline - time.monotonic(), 0.0)))
