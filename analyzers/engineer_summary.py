"""What an engineer asks of two runs before reading on: what ran on what, with which features, how well it served, what
can be watched in it, and what nobody measured. Every value with the file that it was read from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from profiler.analyzers.device import DeviceAccount
from profiler.analyzers.gap.measured import counters_of
from profiler.analyzers.load_curve import load_of
from profiler.analyzers.metrics import unit_of
from profiler.analyzers.repeats import repeats_of
from profiler.model.diagnosis import SummaryLine, SummaryTopic
from profiler.model.requests import BenchResult
from profiler.model.run import Run

Value = float | str | None
Seen = tuple[Value, str]
_NOTHING: Final[Seen] = (None, "")
_MODEL: Final = (
    ("model", ("model.name",)),
    ("precision", ("setting.dtype", "model.dtype")),
    ("quantization", ("setting.quantization", "model.quantization")),
    ("device", ("hardware.gpu", "hardware.cpu", "hardware.device")),
    ("devices", ("hardware.count",)),
    ("tensor parallel", ("setting.tensor_parallel",)),
    ("pipeline parallel", ("setting.pipeline_parallel",)),
    ("data parallel", ("setting.data_parallel",)),
    ("expert parallel", ("setting.expert_parallel",)),
    ("longest context", ("setting.max_model_len",)),
)
_FEATURES: Final = (
    ("chunked prefill", ("setting.chunked_prefill",)),
    ("prefill and decode in one step", ("setting.mixed_prefill",)),
    ("prefix cache", ("setting.prefix_cache",)),
    ("CUDA Graph", ("setting.cuda_graph",)),
    ("CUDA Graph mode", ("setting.cuda_graph_mode",)),
    ("compilation", ("setting.compile",)),
    ("overlapped scheduling", ("setting.overlap",)),
    ("scheduling policy", ("setting.schedule_policy",)),
    ("speculative decoding", ("setting.speculative",)),
    ("attention backend", ("setting.attention_backend",)),
    ("KV cache precision", ("setting.kv_dtype",)),
    ("sequence limit", ("setting.max_num_seqs",)),
    ("token budget", ("setting.token_budget",)),
)
_SERVED: Final = (
    "output_throughput", "request_throughput", "mean_ttft", "p99_ttft", "mean_tpot", "p99_tpot", "mean_e2e",
)  # fmt: skip


@dataclass(frozen=True)
class RunSeen:
    """A run, the load of it that is compared (None: it holds no result), that load's metrics, and its account."""

    run: Run
    bench: BenchResult | None
    values: Mapping[str, float]
    traced: DeviceAccount | None


def engineer_summary(a: RunSeen, b: RunSeen, slo: Mapping[str, float]) -> tuple[SummaryLine, ...]:
    """The lines that at least one run has something to say to, and what each left unmeasured."""
    sides = (a, b)
    lines: list[SummaryLine] = []

    def add(topic: SummaryTopic, name: str, unit: str, seen: Sequence[Seen]) -> None:
        if any(value is not None for value, _ in seen):
            (one, one_source), (two, two_source) = seen
            lines.append(SummaryLine(topic=topic, name=name, unit=unit, a=one, b=two, a_source=one_source,
                                     b_source=two_source))  # fmt: skip

    for name, keys in _MODEL:
        add("model and hardware", name, "", [_fact(side.run, keys) for side in sides])
    for name, keys in _FEATURES:
        add("features", name, "", [_fact(side.run, keys) for side in sides])
    add("features", "kernels that a graph replays", "fraction", [_replayed(side) for side in sides])
    add("features", "prompt tokens from the prefix cache", "fraction", [_cached(side) for side in sides])
    add("service at this load", "load", "", [_load(side) for side in sides])
    add("service at this load", "requests completed", "count", [_counted(side, "completed") for side in sides])
    add("service at this load", "requests failed", "count", [_counted(side, "failed") for side in sides])
    for metric in _SERVED:
        add("service at this load", metric, unit_of(metric), [_metric(side, metric) for side in sides])
    if slo:
        add("service at this load", "goodput", "requests/s", [_metric(side, "goodput") for side in sides])
    for name, found in zip(_OPERABLE, zip(*(_operability(side.run) for side in sides), strict=True), strict=True):
        add("operability", name, "files", found)
    add("not measured", "not measured", "", [(_unmeasured(side, slo), "") for side in sides])
    return tuple(lines)


def _fact(run: Run, keys: Iterable[str]) -> Seen:
    found = next((fact for key in keys if (fact := run.facts.get(key)) is not None), None)
    if found is None:
        return _NOTHING
    value = found.value
    text = ("on" if value else "off") if isinstance(value, bool) else str(value)
    return text, f"{found.source} (inferred)" if found.inferred else found.source


def _replayed(side: RunSeen) -> Seen:
    steps = None if side.traced is None else side.traced.steps
    if side.traced is None or steps is None or side.traced.launches_known is None or not steps.kernels.sum():
        return _NOTHING
    return float(steps.replayed.sum() / steps.kernels.sum()), side.traced.trace


def _cached(side: RunSeen) -> Seen:
    counters, _ = counters_of(side.run.snapshots, None)
    queries = counters.get("prefix_queries")
    if not queries or "prefix_hits" not in counters:
        return _NOTHING
    return counters["prefix_hits"] / queries, _files(snapshot.path for snapshot in side.run.snapshots)


def _load(side: RunSeen) -> Seen:
    return _NOTHING if side.bench is None else (load_of(side.bench)[2], side.bench.path)


def _counted(side: RunSeen, what: str) -> Seen:
    return _NOTHING if side.bench is None else (float(getattr(side.bench, what)), side.bench.path)


def _metric(side: RunSeen, name: str) -> Seen:
    value = side.values.get(name)
    return _NOTHING if value is None or side.bench is None else (value, side.bench.path)


_OPERABLE: Final = (
    "scheduler metrics", "logs with steps", "traces", "device counters", "host stacks", "records of single requests",
)  # fmt: skip


def _operability(run: Run) -> list[Seen]:
    """What there was to watch the engine by, as many files of each."""
    paths = (
        [snapshot.path for snapshot in run.snapshots],
        [log.path for log in run.logs if len(log.steps)],
        [trace.path for trace in run.traces],
        [table.path for table in run.counters],
        [table.path for table in run.stacks],
        [bench.path for bench in run.benches if bench.requests is not None],
    )
    return [(float(len(set(found))), _files(found)) for found in paths]


def _unmeasured(side: RunSeen, slo: Mapping[str, float]) -> str:
    """What the run's files leave open, in words; empty where nothing is."""
    run, bench = side.run, side.bench
    missing = [name for name, (count, _) in zip(_OPERABLE, _operability(run), strict=True) if not count]
    if bench is None:
        missing.insert(0, "benchmark result")
    else:
        missing += [] if len(repeats_of(run.benches, bench)) > 1 else ["repeats of this load"]
        missing += [] if len({load_of(one)[:2] for one in run.benches}) > 1 else ["other loads"]
        missing += [] if slo else ["goodput (no SLO given)"]
    return ", ".join([*missing, "quality of the answers"])


def _files(paths: Iterable[str]) -> str:
    every = list(dict.fromkeys(paths))
    return "" if not every else every[0] + (f" and {len(every) - 1:,} more" if len(every) > 1 else "")
