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
from profiler.collectors.discovery import Discovery
from profiler.collectors.http_client import Client
from profiler.collectors.process_tree import sees_our_files
from profiler.collectors.run_folder import RunFolder
from profiler.collectors.sampling import Cost
from profiler.collectors.scheduler.scrape import reading
from profiler.collectors.torch_trace.remote import SessionRefused, TraceSession, settled
from profiler.model.extension import Engine
from profiler.model.live import TraceControl, TraceWindow
from profiler.model.metrics import MetricsSnapshot

RAMP_SECONDS: Final = 15.0
BLIND_RAMP: Final = 3.0
# Without a count of steps and without a bound in the request, so long is traced.
BLIND_WINDOW: Final = 2.0
FLUSH_SECONDS: Final = 60.0
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
    first, last = busy[0], busy[-1]
    spent = None if first.seconds is None or last.seconds is None else last.seconds - first.seconds
    return Level(
        running=median(one.values["running_requests"] for one in busy),
        tokens_per_second=rate(first, last, "generation_tokens", spent),
        steps_per_second=rate(first, last, steps_of(last), spent),
    )


def rate(first: MetricsSnapshot, last: MetricsSnapshot, concept: str, seconds: float | None) -> float | None:
    """A counter's growth a second; None where it is not told or did not grow."""
    a, b = first.values.get(concept), last.values.get(concept)
    return None if a is None or b is None or not seconds or seconds <= 0 or b <= a else (b - a) / seconds


def steps_of(one: MetricsSnapshot) -> str:
    """The concept that counts this engine's steps."""
    return "steps" if "steps" in one.values else "step_tokens_count"


class TracePass:
    """``over`` says that the load has ended, or that the recording has to."""

    def __init__(
        self, client: Client, found: Discovery, engines: Sequence[Engine], folder: RunFolder, over: Callable[[], bool]
    ) -> None:
        self.cost = Cost("trace")
        self._client, self._found, self._engines, self._folder, self._over = client, found, engines, folder, over

    def ramp(self, level: Level, measured: float) -> None:
        """Wait until about as many requests run as did in the measured pass, which took so many seconds."""
        longest = BLIND_RAMP if level.running is None else RAMP_SECONDS
        deadline = time.monotonic() + min(longest, _RAMP_SHARE * measured)
        while not self._over() and time.monotonic() < deadline:
            now = None if level.running is None else self._now()
            if now is not None and now.values.get("running_requests", 0) >= _SETTLED_SHARE * (level.running or 0):
                return
            self._sleep(_POLL)

    def take(self, level: Level, steps: int, seconds: float) -> tuple[dict[str, object], list[str]]:
        """One session: what is to be told of it, and its problems."""
        live = None if self._found.engine is None else self._found.engine.live
        control = None if live is None else live.trace
        if control is None:
            return {}, [f"trace: {'no engine is known' if live is None else live.trace_needs}"]
        version = self._found.identity.version
        # A server in a container sees other folders than we do: then it keeps to its own.
        shared = bool(self._found.processes) and sees_our_files(self._found.processes[0].pid)
        into = str(self._folder.path.absolute() / "trace") if shared and control.chooses_folder else None
        if into is not None:
            Path(into).mkdir(exist_ok=True)
        window = TraceWindow(steps, seconds, into, "profiler")
        session = TraceSession(self._client, control, window, version)
        cpu, since = time.thread_time(), time.time()
        told: dict[str, object] = {"steps_asked": steps, "began_epoch": round(since, 6)}
        try:
            with session:
                first, began = self._now(), time.monotonic()
                self._sit(control, version, first, level, steps, seconds)
                last, spent = self._now(), time.monotonic() - began
        except SessionRefused as error:
            return told, [f"trace: {error}"]
        finally:
            self.cost.cpu_seconds = time.thread_time() - cpu
            self.cost.requests, self.cost.received = self._client.requests, self._client.received
        traced = None if first is None or last is None else rate(first, last, "generation_tokens", spent)
        told |= {"seconds": round(spent, 3), "stop_seconds": round(session.stop_seconds or 0.0, 3)}
        told["tokens_per_second"] = {"measured": level.tokens_per_second, "traced": traced}
        if traced and level.tokens_per_second:
            told["toll"] = round(level.tokens_per_second / traced, 3)
        problems = [session.problem] if session.problem else []
        return told, problems + self._fetch(control, into, since, told)

    def _sit(
        self,
        control: TraceControl,
        version: str | None,
        first: MetricsSnapshot | None,
        level: Level,
        steps: int,
        seconds: float,
    ) -> None:
        """Until so many steps have run, or the time is up."""
        limit = seconds
        counted = first is not None and steps_of(first) in first.values
        if not counted and not control.stops_itself(version):
            per_second = level.steps_per_second
            limit = min(seconds, steps / per_second if per_second else BLIND_WINDOW)
        deadline = time.monotonic() + limit
        while not self._over() and time.monotonic() < deadline:
            self._sleep(min(_POLL, max(deadline - time.monotonic(), 0.0)))
            now = self._now() if counted else None
            if now is not None and first is not None:
                name = steps_of(first)
                # One more than was asked for: the last one is cut.
                if now.values.get(name, 0) > first.values[name] + steps + 1:
                    return

    def _fetch(self, control: TraceControl, into: str | None, since: float, told: dict[str, object]) -> list[str]:
        place = into or control.folder(self._found.command, self._found.settings)
        told["folder"] = place
        if place is None:
            return ["trace: the server wrote it where it was told to; that folder is not known from here"]
        seen = Path(place)
        if into is None and self._found.processes:
            seen = Path(f"/proc/{self._found.processes[0].pid}/root") / place.lstrip("/")
        files = settled(seen, control.files, since, FLUSH_SECONDS) if seen.is_dir() else ()
        if not files:
            where = place if seen.is_dir() else f"{place} on the server's machine"
            return [f"trace: no file of it came into {where}: look there, and copy it into the run's trace/"]
        for path in files:
            size = path.stat().st_size
            if into is None:
                if self._folder.written + size > self._folder.most_bytes:
                    return [f"trace: {path} ({size >> 20} MiB) would pass the run's bound; it was left where it is"]
                (self._folder.path / "trace").mkdir(exist_ok=True)
                shutil.copyfile(path, self._folder.path / "trace" / path.name)
            self._folder.written += size
            self.cost.written += size
        told["files"] = [path.name for path in files]
        return []

    def _now(self) -> MetricsSnapshot | None:
        answer = self._client.get(metrics_path(self._found))
        return reading(answer.text, self._engines, "now") if answer.ok else None

    def _sleep(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self._over() and time.monotonic() < deadline:
            time.sleep(min(_TICK, max(deadline - time.monotonic(), 0.0)))
