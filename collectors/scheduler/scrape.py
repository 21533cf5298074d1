"""A server's own numbers, taken while it runs: its metrics, and the list of steps where it keeps one."""

from __future__ import annotations

import json
from collections.abc import Sequence

from profiler.collectors.http_client import Client
from profiler.collectors.redaction import redact
from profiler.collectors.run_folder import RunFolder
from profiler.collectors.sampling import Cost, SampleFailed
from profiler.collectors.scheduler.exposition import samples
from profiler.collectors.scheduler.prometheus import constants_in, snapshot
from profiler.model.answering import OWN_ADDRESS, Answering, told
from profiler.model.extension import Engine
from profiler.model.metrics import MetricsSnapshot


class MetricsScrape:
    """Prometheus text, one file a scrape, named by the milliseconds since the run began: ``metrics/0014002.prom``.

    Its time is that of the answer's arrival: a busy server may answer late.
    """

    vital = True

    def __init__(
        self, client: Client, path: str, folder: RunFolder, period: float, into: str = "metrics",
        engines: Sequence[Engine] = (),
    ) -> None:  # fmt: skip
        self.cost = Cost(into)
        self.period = period
        self.answering = Answering()
        self._client, self._path, self._folder, self._into = client, path, folder, into
        self._engines = engines

    def take(self, seconds: float) -> None:
        """One scrape."""
        answer = self._client.get(self._path)
        if not answer.ok:
            why = answer.text if answer.status == 0 else f"status {answer.status}"
            raise SampleFailed(f"{self._client.url}{self._path}: {why}")
        name = f"{self._into}/{round(seconds * 1e3):07d}.prom"
        self.cost.written += self._folder.write(name, answer.text.encode())
        if self._engines and self.answering.returned is None:
            self.answering.take(constants_in(answer.text, self._engines))

    @property
    def doubt(self) -> str | None:
        """Why nothing can be made of these scrapes, None where nothing speaks against them."""
        name = self.answering.returned
        return None if name is None else f"{self._client.url}{self._path}: {told(name)}. {OWN_ADDRESS}"

    def close(self) -> None:
        """Count what it took."""
        self.cost.requests, self.cost.received = self._client.requests, self._client.received
        self._client.close()


class LoadScrape:
    """An engine's answer about its load as it is at the moment, one file a sample: ``load/0014002.json``."""

    vital = True

    def __init__(self, client: Client, path: str, folder: RunFolder, period: float, into: str = "load") -> None:
        self.cost = Cost(into)
        self.period = period
        self._client, self._path, self._folder, self._into = client, path, folder, into

    def take(self, seconds: float) -> None:
        """One answer."""
        answer = self._client.get(self._path)
        if not answer.ok or answer.document is None:
            raise SampleFailed(f"{self._client.url}{self._path}: no load (status {answer.status})")
        name = f"{self._into}/{round(seconds * 1e3):07d}.json"
        self.cost.written += self._folder.write(name, json.dumps(redact(answer.document)).encode())

    def close(self) -> None:
        """Count what it took."""
        self.cost.requests, self.cost.received = self._client.requests, self._client.received
        self._client.close()


class StepsDrain:
    """A list of steps that the server empties whenever it is read: what it holds at first is from before the run and
    is dropped. Kept as JSON lines in ``into``."""

    vital = False

    def __init__(self, client: Client, path: str, folder: RunFolder, period: float, into: str) -> None:
        self.cost = Cost(into.removesuffix(".jsonl"))
        self.period = period
        self._client, self._path, self._folder, self._into, self._first = client, path, folder, into, True

    def take(self, seconds: float) -> None:
        """Whatever came since the last time."""
        answer = self._client.get(self._path)
        if not answer.ok or not isinstance(answer.document, list):
            raise SampleFailed(f"{self._client.url}{self._path}: no list of steps (status {answer.status})")
        records, self._first = ([] if self._first else answer.document), False
        if records:
            lines = "".join(json.dumps(redact(one)) + "\n" for one in records)
            self.cost.written += self._folder.append(self._into, lines.encode())

    def close(self) -> None:
        """Count what it took."""
        self.cost.requests, self.cost.received = self._client.requests, self._client.received
        self._client.close()


def reading(text: str, engines: Sequence[Engine], name: str) -> MetricsSnapshot | None:
    """What a scrape says in shared words, of the first engine whose metrics are in it."""
    series = [sample for _, sample in samples(text.splitlines()) if sample is not None]
    return next((found for engine in engines if (found := snapshot(engine, series, name)) is not None), None)
