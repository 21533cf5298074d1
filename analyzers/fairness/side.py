"""One side of a comparison as the rules see it: what its files state, and what cheap reductions of them show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from profiler.analyzers.device import DeviceAccount
from profiler.analyzers.gap.measured import counters_of
from profiler.analyzers.gap.window import Window, measured_window
from profiler.analyzers.kept import kept_accounts
from profiler.analyzers.repeats import repeats_of
from profiler.model.requests import BenchResult, RequestTable
from profiler.model.run import Run


@dataclass(frozen=True)
class Side:
    """A run and the load of it that is compared; ``bench`` None where the run holds no benchmark result. ``known``: its
    traces' accounts, where they were made before."""

    run: Run
    bench: BenchResult | None
    known: tuple[DeviceAccount, ...] | None = None

    def fact(self, *keys: str) -> object | None:
        """The first of the facts that the run states; None where it states none of them."""
        return next((fact.value for key in keys if (fact := self.run.facts.get(key)) is not None), None)

    def source(self, *keys: str) -> str:
        """Where that fact was read; empty where nothing states it."""
        return next((fact.source for key in keys if (fact := self.run.facts.get(key)) is not None), "")

    def number(self, key: str) -> float | None:
        """A fact that is a number."""
        value = self.fact(key)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    @property
    def requests(self) -> RequestTable | None:
        """The per-request records."""
        return None if self.bench is None else self.bench.requests

    @property
    def sent(self) -> int | None:
        """Requests sent, failed ones included."""
        return None if self.bench is None else self.bench.completed + self.bench.failed

    @property
    def told_by_command(self) -> bool:
        """Whether the server's whole command is known, so that a flag that is not in it was not given."""
        return self.run.fact("engine.command") is not None

    @property
    def on_cpu(self) -> bool:
        """Whether the run says that its engine has no accelerator."""
        return self.run.fact("hardware.device") == "cpu"

    @cached_property
    def repeats(self) -> tuple[BenchResult, ...]:
        """The results of this load in the run, this one included."""
        return () if self.bench is None else repeats_of(self.run.benches, self.bench)

    @cached_property
    def logged(self) -> tuple[str, Window] | None:
        """The log that ties best to the load, and its steps of it."""
        bench = self.bench
        if bench is None:
            return None
        found = [
            (log.path, w)
            for log in self.run.logs
            if (w := measured_window(log.steps, bench, log.every_step)) is not None
        ]
        return max(found, key=lambda one: (one[1].exact, len(one[1].steps)), default=None)

    @property
    def window(self) -> Window | None:
        """The log's steps of the load."""
        return None if self.logged is None else self.logged[1]

    @cached_property
    def decoded(self) -> int | None:
        """Tokens that the log's steps decoded, where it prints every step and the load's are found exactly."""
        bench = self.bench
        if bench is None:
            return None
        for log in self.run.logs:
            window = measured_window(log.steps, bench, log.every_step) if log.every_step else None
            if window is not None and window.exact:
                return int(np.maximum(window.steps.decode_tokens, 0).sum())
        return None

    @cached_property
    def settings(self) -> Mapping[str, str]:
        """Every setting that the run states."""
        return {key: str(fact.value) for key, fact in self.run.facts.items() if key.startswith("setting.")}

    @cached_property
    def scraped(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """(counters' increments as they were scraped, gauges under load)."""
        return counters_of(self.run.snapshots, None)

    @property
    def gauges(self) -> Mapping[str, float]:
        """Gauges under load: means, and maxima as ``name_max``."""
        return self.scraped[1]

    def counter(self, name: str) -> float | None:
        """How far a counter rose; None where nothing counts it."""
        return self.scraped[0].get(name)

    @cached_property
    def hit_rate(self) -> float | None:
        """Prompt tokens found in the prefix cache, 0..1 of those looked up."""
        asked, hits = self.counter("prefix_queries"), self.counter("prefix_hits")
        if not asked:
            asked, hits = self.counter("prompt_tokens"), self.counter("cached_tokens")
        return None if not asked or hits is None else hits / asked

    def first_token(self, *histograms: str) -> tuple[float, float] | None:
        """(mean seconds of the histograms' stages added up, requests counted); None where one of them is missing."""
        counted, _ = counters_of(self.run.snapshots, self.bench)
        counts = [counted.get(f"{name}_count", 0.0) for name in histograms]
        if not all(counts):
            return None
        means = [counted[f"{name}_sum"] / count for name, count in zip(histograms, counts, strict=True)]
        # Not those, which are scaled to the load: a warm-up that was scraped too has to show.
        return sum(means), max(self.counter(f"{name}_count") or 0.0 for name in histograms)

    @cached_property
    def traced_replays(self) -> float | None:
        """The share of the traces' steps that replayed a graph: of those that only decode, where the trace tells them
        apart (a prefill beside them is larger than what is captured). None without a trace of launches."""
        accounts = self.known
        if accounts is None:
            accounts = tuple(account for trace in self.run.traces for account in kept_accounts(trace))
        for use in (account.graphs for account in accounts):
            if use is not None and len(use.mode):
                decode = np.array([phase == "decode" for phase in use.phase], np.float64)
                return None if (eager := use.share("eager", decode if decode.any() else None)) is None else 1 - eager
        return None

    @cached_property
    def graph_share(self) -> float | None:
        """The share of decode steps that replayed a CUDA graph; None where no file says."""
        if self.window is not None:
            steps = self.window.steps
            known = (steps.graph >= 0) & (steps.decode_requests > 0)
            if known.any():
                return float(np.average(steps.graph[known], weights=steps.weight[known]))
        replayed, eager = self.counter("graph_steps"), self.counter("eager_steps")
        if replayed is None and eager is None:
            return None
        total = (replayed or 0.0) + (eager or 0.0)
        return (replayed or 0.0) / total if total else None

    @cached_property
    def pinned(self) -> float | None:
        """The share of steps that ran at the sequence limit; None where limit or steps are not known."""
        limit = self.number("setting.max_num_seqs")
        if not limit:
            return None
        if self.window is not None:
            steps = self.window.steps
            running = np.maximum(steps.decode_requests, 0) + np.maximum(steps.prefill_requests, 0)
            return float(np.average(running >= 0.97 * limit, weights=steps.weight))
        most = self.gauges.get("running_requests_max")
        return None if most is None else float(most >= 0.97 * limit)

    @property
    def pinned_source(self) -> str:
        """Where ``pinned`` was read."""
        return "metrics" if self.logged is None else self.logged[0]

    @cached_property
    def kv_tokens(self) -> float | None:
        """The KV cache's capacity in tokens."""
        stated = self.number("setting.kv_tokens")
        blocks, size = self.number("setting.kv_blocks"), self.number("setting.kv_block_size")
        return stated if stated is not None else None if blocks is None or size is None else blocks * size

    @cached_property
    def dtype(self) -> str | None:
        """The type that the model computes in; ``auto`` is the checkpoint's."""
        stated = self.fact("setting.dtype")
        value = self.fact("model.dtype") if stated is None or stated == "auto" else stated
        return None if value is None else str(value).removeprefix("torch.")

    @property
    def open_loop(self) -> bool | None:
        """True where requests were sent at a rate, False where a number was kept in flight; None: not stated."""
        if self.bench is None:
            return None
        rate = self.bench.request_rate
        if rate is not None and np.isfinite(rate):
            return True
        return None if rate is None and self.bench.max_concurrency is None else False

    @cached_property
    def saturated(self) -> bool | None:
        """Whether an open loop's queue grew to the end; None where the records can't say.

        Of the requests sent in each half of the sending, more were still unanswered at the end of the second half than
        at the end of the first, by a tenth of those sent in it, and their first tokens took half as long again.
        """
        table = self.requests
        if not self.open_loop or table is None or int(table.ok.sum()) < 40 or not np.isfinite(table.start).all():
            return None
        start, end = table.start[table.ok], (table.start + table.e2e)[table.ok]
        ttft = table.ttft[table.ok]
        middle, last = float(np.median(start)), float(start.max())
        waiting = [int(((start <= moment) & (end > moment)).sum()) for moment in (middle, last)]
        later = start > middle
        slower = np.median(ttft[later]) > 1.5 * np.median(ttft[~later])
        return bool(waiting[1] - waiting[0] > 0.1 * int(later.sum()) and slower)


def first_tokens(a: Side, b: Side) -> tuple[str, list[tuple[float, float] | None]]:
    """What the servers themselves measured up to a first token, one way for both: (its name, (mean seconds, requests
    counted) of each). Without a histogram of all of it in both, that of the engine alone: its queue and its prefill."""
    whole = [side.first_token("ttft_seconds") for side in (a, b)]
    inside = [side.first_token("queue_seconds", "prefill_seconds") for side in (a, b)]
    if whole.count(None) > inside.count(None):
        return "mean TTFT inside the engine", inside
    return "mean TTFT, server", whole
