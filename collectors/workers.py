"""The servers that are recorded: one, or those behind a router; which of them answer, and what can be had of each."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from profiler.collectors.availability import GPU, LOAD, Piece, pieces
from profiler.collectors.discovery import Discovery, GpusOf, discover
from profiler.collectors.http_client import Client
from profiler.collectors.knob_values import from_command
from profiler.collectors.scheduler.forward_pass_stream import NAME as PASSES
from profiler.errors import UsageError
from profiler.model.extension import Engine

# Each worker that is sampled has a thread and a connection; a larger fleet is better sampled by its own Prometheus.
MOST: Final = 64
AT_ONCE: Final = 16
# Workers that are named in one line.
_SHOWN: Final = 6
# What is asked of the engines behind a router, and not of the router.
_ENGINES_OWN: Final = ("settings", "trace")
ELSEWHERE: Final = "its processes are not on this machine; --dcgm URL of its exporter, or record it there"


@dataclass(frozen=True)
class Worker:
    """A server that is recorded, usually one that a router names. ``folder`` is where its files go in the run ("": the
    run's own folder); ``found`` is None where it did not answer, and ``why`` says what keeps it from being sampled.
    ``told`` is what can be collected of it, by name."""

    url: str
    folder: str
    found: Discovery | None = None
    told: tuple[Piece, ...] = ()
    why: str = ""

    @property
    def title(self) -> str:
        """Its address and what it is, in words."""
        return f"{self.url}: {self.why or (self.found.title if self.found is not None else '')}"

    @property
    def log(self) -> str | None:
        """The file that its output goes to, None where that is none or can't be seen."""
        return None if self.found is None else self.found.log

    def inside(self, name: str) -> str:
        """The path of one of its files, relative to the run."""
        return f"{self.folder}/{name}" if self.folder else name

    @property
    def document(self) -> dict[str, object]:
        """What ``run.json`` says of it."""
        said: dict[str, object] = {"url": self.url}
        if self.found is not None and self.found.engine is not None:
            said |= {"engine": self.found.engine.name, "version": self.found.identity.version}
        if self.found is not None and self.found.processes:
            said |= {"command": list(self.found.command), "processes": processes_told(self.found)}
        said |= {"not_sampled": self.why} if self.why else {}
        return said | ({} if self.found is None else {"folder": self.folder})


def workers_of(found: Discovery, client: Client, engines: Sequence[Engine], gpus_of: GpusOf) -> tuple[Worker, ...]:
    """Every server whose address a router gave, in its order. Only GET requests are sent, to each what ``discover`` and
    ``pieces`` send; the router's key goes to no other host."""
    urls = found.identity.workers

    def ask(at: int) -> Worker:
        return _asked(urls[at], f"worker-{at}", client, engines, gpus_of)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = list(pool.map(ask, range(min(len(urls), MOST))))
    more = f"only the first {MOST} workers are sampled"
    return (*asked, *(Worker(url, f"worker-{at}", why=more) for at, url in enumerate(urls[MOST:], MOST)))


def engines_of(own: Worker, workers: Sequence[Worker]) -> tuple[Worker, ...]:
    """The servers whose steps are recorded: those behind a router, else ``own``, the server that was asked."""
    behind = tuple(one for one in workers if one.found is not None and one.found.component is None)
    return behind if own.found is not None and own.found.component is not None else (own,)


def missing(own: Worker, workers: Sequence[Worker]) -> dict[str, str]:
    """What can't be collected -> why, and what it needs. What several workers lack for the same reason is one entry."""
    router = own.found is not None and own.found.component is not None and bool(workers)
    # A router has no steps, and of what it has the workers' own is better.
    found = {one.name: one.told for one in own.told if not one.ready and not (router and one.name in _ENGINES_OWN)}
    component = None if own.found is None else own.found.component
    if own.found is not None and component is not None and component.workers_need and own.found.identity.unnamed:
        found["workers"] = component.workers_need
    # What workers publish is known of the router that they are registered with, or of each alone.
    had = {one.name for one in own.told if one.ready and one.name == PASSES} if router else set[str]()
    lacking: dict[tuple[str, str], list[str]] = {}
    for worker in workers:
        if worker.why or worker.found is None:
            found[f"{worker.folder} ({worker.url})"] = worker.why
            continue
        for piece in worker.told:
            if not piece.ready and piece.name != GPU and piece.name not in had:
                lacking.setdefault((piece.name, piece.told), []).append(worker.folder)
        if not worker.found.processes:
            lacking.setdefault((GPU, ELSEWHERE), []).append(worker.folder)
    for (name, why), folders in lacking.items():
        more = f" and {len(folders) - _SHOWN} more" if len(folders) > _SHOWN else ""
        found[f"{name} of {', '.join(folders[:_SHOWN])}{more}"] = why
    return found


def processes_told(found: Discovery) -> list[dict[str, object]]:
    """What ``run.json`` says of a server's processes."""
    return [
        {
            "pid": one.pid,
            "parent": one.parent,
            "role": one.role,
            "rank": one.rank,
            "gpus": None if one.gpus is None else list(one.gpus),
            "visible_devices": one.visible,
        }
        for one in found.processes
    ]


def unlike(workers: Sequence[Worker]) -> tuple[str, ...]:
    """The settings that workers state, or have on their command line, and that are not the same for all of them."""
    stated: dict[str, set[str]] = {}
    for worker in workers:
        found = worker.found
        given = {} if found is None or found.engine is None else from_command(found.engine, found.command)
        facts = {} if found is None else {**given, **found.facts}
        for key, value in facts.items():
            stated.setdefault(key, set()).add(repr(value))
    return tuple(sorted(key.removeprefix("setting.") for key, values in stated.items() if len(values) > 1))


def _asked(url: str, folder: str, client: Client, engines: Sequence[Engine], gpus_of: GpusOf) -> Worker:
    try:
        with client.again(url) as own:
            found = discover(own, engines, gpus_of)
            told = pieces(found, own)
    except UsageError as error:
        return Worker(url, folder, why=str(error))
    if found.component is not None:
        return Worker(url, folder, found, told, "it is a router itself: record it by its own address")
    sampled = any(piece.ready for piece in told if piece.name in ("metrics", LOAD))
    metrics = next(piece for piece in told if piece.name == "metrics")
    return Worker(url, folder, found, told, "" if sampled else metrics.told)
