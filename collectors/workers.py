"""The servers behind a router: which of them answer, what each is, and what can be sampled of it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from profiler.collectors.availability import LOAD, Piece, pieces
from profiler.collectors.discovery import Discovery, GpusOf, discover
from profiler.collectors.http_client import Client
from profiler.errors import UsageError
from profiler.model.extension import Engine

# Each worker that is sampled has a thread and a connection; a larger fleet is better sampled by its own Prometheus.
MOST: Final = 64
AT_ONCE: Final = 16


@dataclass(frozen=True)
class Worker:
    """A server that a router names. ``folder`` is where its samples go in the run; ``found`` is None where it did not
    answer, and ``why`` says what keeps it from being sampled. ``told`` is what can be collected of it, by name."""

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
    def document(self) -> dict[str, object]:
        """What ``run.json`` says of it."""
        said: dict[str, object] = {"url": self.url}
        if self.found is not None and self.found.engine is not None:
            said |= {"engine": self.found.engine.name, "version": self.found.identity.version}
        return said | ({"not_sampled": self.why} if self.why else {"folder": self.folder})


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


def unlike(workers: Sequence[Worker]) -> tuple[str, ...]:
    """The settings that workers state and that are not the same for all of them."""
    stated: dict[str, set[str]] = {}
    for worker in workers:
        facts = {} if worker.found is None else worker.found.facts
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
