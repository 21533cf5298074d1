"""A scrape of ``/metrics`` as a snapshot in shared words, whichever engine exposes it."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Final

from profiler.collectors.knob_values import from_fields
from profiler.collectors.redaction import redact
from profiler.collectors.scheduler.component_metrics import component_snapshot, components_in
from profiler.collectors.scheduler.exposition import NAME, Sample, samples
from profiler.errors import BadInput
from profiler.model.answering import STARTED
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.metrics import GAUGES, HISTOGRAMS, ComponentSnapshot, MetricsSnapshot
from profiler.model.problem import Problem
from profiler.model.run import Reading

LARGEST: Final = 1 << 26
FIRST: Final = -1.0
LAST: Final = 1e18
RATIOS: Final = frozenset({"kv_usage"})
# Of the interpreter, and of the resource that OpenTelemetry calls a process.
_INFO: Final = frozenset({"python_info", "target_info"})
_COMMENT: Final = re.compile(rf"# (?:TYPE|HELP|UNIT) {NAME}\b|# EOF$")
_LINE: Final = re.compile(
    rf"{NAME}(?:\{{[^}}]*\}})?\s+[+-]?(?:\d[\d.eE+-]*|[iI]nf|[nN]a[nN])(?:\s+\d[\d.eE+-]*)?\s*(?:#.*)?"
)
_SECONDS: Final = re.compile(r"^# EOF\s*\Z", re.M)
_BEFORE: Final = re.compile(r"(?:^|[-_.])(?:before|start|pre)(?:[-_.]|$)", re.I)
_AFTER: Final = re.compile(r"(?:^|[-_.])(?:after|final|end|post)(?:[-_.]|$)", re.I)


class Prometheus:
    """Prometheus text or OpenMetrics; see ``profiler.model.extension.Format``."""

    name = "prometheus"
    version = 3

    def sniff(self, head: bytes, name: str) -> float:
        """Sure of TYPE and HELP comments that name a metric, less sure of bare samples."""
        lines = [line for line in head[:8192].decode("utf-8", "replace").splitlines()[:40] if line.strip()]
        if len(lines) > 1 and len(head) > 8192:
            lines.pop()
        if not lines:
            return 0.0
        comments = sum(1 for line in lines if _COMMENT.match(line))
        good = comments + sum(1 for line in lines if _LINE.fullmatch(line.strip()))
        if comments and good >= 0.6 * len(lines):
            return 0.9
        # A line of letters and a number is also what collapsed stacks look like: those are many words long.
        return 0.45 if len(lines) > 1 and good == len(lines) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One snapshot for each engine, and for each component beside it, whose metrics are in the text."""
        with source.open() as stream:
            data = stream.read(LARGEST + 1)
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", f"{source.broken}; metrics past this point are missing"))
        if len(data) > LARGEST:
            problems.append(Problem(source.name, "error", f"only the first {LARGEST} bytes were read"))
        moments, bad = _moments(data[:LARGEST].decode("utf-8", "replace"), source.name)
        problems += bad
        if not moments:
            raise BadInput(source.name, "no metric sample found", "Save the answer of GET /metrics as it is", "line 1")
        named, _ = position(source.name)
        snapshots: list[MetricsSnapshot] = []
        beside: list[ComponentSnapshot] = []
        for stamp, series in moments:
            order = named if stamp is None or (named and len(moments) == 1) else stamp
            components = components_in(series)
            # Under a borrowed prefix nothing is the engine's own.
            own = () if any(one.borrows for one in components) else series
            said = (snapshot(engine, own, source.name) for engine in engines)
            snapshots += [one if order == named else replace(one, order=order, seconds=None) for one in said if one]
            beside += [component_snapshot(one, series, source.name, order) for one in components]
        facts: dict[str, Fact[object]] = {}
        for found in snapshots:
            engine = next(engine for engine in engines if engine.name == found.engine)
            facts["engine.name"] = Fact(engine.name, f"{source.name}: prefix of the metric names")
            for key, value in from_fields(engine.knobs, dict(found.settings)).items():
                facts[key] = Fact(value, f"{source.name}: info metric", inferred=False)
        for one in beside:
            if not one.values:
                detail = f"the metrics are those of {one.title}, and none answers a question that is asked here"
                problems.append(Problem(source.name, "info", detail))
        if not snapshots and not beside:
            problems.append(Problem(source.name, "info", _stranger(moments[-1][1])))
        return Reading(snapshots=tuple(snapshots), components=tuple(beside), facts=facts, problems=tuple(problems))


def snapshot(engine: Engine, series: Sequence[Sample], path: str) -> MetricsSnapshot | None:
    """What an engine's metrics say, or None where the text holds none of its concepts.

    Series of a metric are summed over their labels; equal series of repeated ranks count once, ratios are averaged.
    """
    own = [sample for sample in series if sample.name.startswith(engine.metric_prefixes)]
    if not own:
        return None
    by_name: dict[str, list[Sample]] = {}
    for sample in own:
        by_name.setdefault(_canonical(engine, sample.name), []).append(sample)
    values: dict[str, float] = {}
    for metric, concept in engine.metrics.items():
        _take(values, concept, by_name, metric, engine, None)
    for concept, metric, label, wanted in engine.metric_labels:
        _take(values, concept, by_name, metric, engine, (label, wanted))
    settings: dict[str, str] = {}
    for metric in engine.info_metrics:
        for sample in by_name.get(metric, []):
            settings |= {key: str(redact(value, key)) for key, value in sample.labels}
    if not values and not settings:
        return None
    order, seconds = position(path)
    return MetricsSnapshot(path, engine.name, order, seconds, values, settings, constants(series, [engine]))


def constants(series: Iterable[Sample], engines: Sequence[Engine]) -> dict[str, str]:
    """What tells the process that answered from any other: values by metric and labels, labels by info metric; of
    labels, which may hold what is nobody's business, a digest.

    Rows of an info metric that has several come and go with whatever they are about, and tell nothing.
    """
    valued = {STARTED, *(name for engine in engines for name in engine.process_constants)}
    info = {*_INFO, *(name for engine in engines for name in engine.info_metrics)}
    found: dict[str, str] = {}
    rows: dict[str, list[str]] = {}
    for sample in series:
        name = next((_canonical(one, sample.name) for one in engines if sample.name.startswith(one.metric_prefixes)),
                    sample.name)  # fmt: skip
        labels = hashlib.sha256(repr(sample.labels).encode("utf-8", "replace")).hexdigest()[:16]
        if name in valued and math.isfinite(sample.value):
            found[f"{name}{{{labels}}}" if sample.labels else name] = str(sample.value)
        elif name in info:
            rows.setdefault(name, []).append(labels)
    return found | {name: labels for name, (labels, *more) in rows.items() if not more}


def constants_in(text: str, engines: Sequence[Engine]) -> dict[str, str]:
    """The same of a scrape's text, of which only the lines that tell are read."""
    own = (
        prefix + name.removeprefix(engine.metric_prefixes[0])
        for engine in engines
        for name in (*engine.process_constants, *engine.info_metrics)
        for prefix in engine.metric_prefixes
    )
    telling = (STARTED, *_INFO, *own)
    lines = [line for line in text.splitlines() if line.startswith(telling)]
    return constants((sample for _, sample in samples(lines) if sample is not None), engines)


def position(path: str) -> tuple[float, float | None]:
    """Where a snapshot stands in its run, from its file's name: (order, seconds since the run began).

    ``0014002.prom`` is 14.002 s; ten and more digits are a time of day and order only; before sorts first, after last.
    """
    stem = PurePosixPath(path.replace("\\", "/")).name.split(".")[0]
    digits = re.search(r"(?:^|[-_])(\d{1,18})$", stem) if re.search(r"\d$", stem) else None
    if digits is not None and (digits[1] == stem or len(digits[1]) >= 7):
        value = int(digits[1])
        return (float(value), None) if len(digits[1]) >= 10 else (value / 1e3, value / 1e3)
    if _BEFORE.search(stem):
        return FIRST, None
    return (LAST, None) if _AFTER.search(stem) else (0.0, None)


def _moments(text: str, path: str) -> tuple[list[tuple[float | None, list[Sample]]], list[Problem]]:
    """The distinct series of each moment in order of time: one moment, unless series repeat at several time stamps.

    Of a series that is repeated at one time the last sample stays.
    """
    found: dict[tuple[str, tuple[tuple[str, str], ...], float | None], Sample] = {}
    malformed: list[int] = []
    repeated: list[int] = []
    for number, sample in samples(text.splitlines(), 1.0 if _SECONDS.search(text) else 1e-3):
        if sample is None:
            malformed.append(number)
        else:
            key = (sample.name, sample.labels, sample.stamp)
            if key in found:
                repeated.append(number)
            found[key] = sample
    problems: list[Problem] = []
    if malformed:
        problems.append(
            Problem(path, "warning", "a line is no sample and was left out", f"line {malformed[0]}", len(malformed))
        )
    if repeated:
        problems.append(
            Problem(
                path, "warning", "a series is given twice; the last one counts", f"line {repeated[0]}", len(repeated)
            )
        )
    every = list(found.values())
    if len({(one.name, one.labels) for one in every}) == len(every):
        # A scrape whose series were last set at different times is one moment: the last of them.
        last = max((one.stamp for one in every if one.stamp is not None), default=None)
        return ([(last, every)] if every else []), problems
    moments: dict[float | None, list[Sample]] = {}
    for one in every:
        moments.setdefault(one.stamp, []).append(one)
    return sorted(moments.items(), key=lambda item: -1.0 if item[0] is None else item[0]), problems


def _take(
    values: dict[str, float],
    concept: str,
    by_name: Mapping[str, list[Sample]],
    metric: str,
    engine: Engine,
    only: tuple[str, str] | None,
) -> None:
    """Adds a concept from one metric unless an earlier metric already gave it."""
    plain = _plain(metric)
    if concept in HISTOGRAMS:
        for ending in ("_sum", "_count"):
            key = concept + ending
            rows = by_name.get(metric + ending) or by_name.get(plain + ending) or []
            if key not in values and (total := _total(rows, engine, only, average=False)) is not None:
                values[key] = total
        return
    rows = by_name.get(metric) or by_name.get(f"{plain}_total") or by_name.get(plain) or []
    total = _total(rows, engine, only, average=concept in RATIOS and concept in GAUGES)
    if concept not in values and total is not None:
        values[concept] = total


def _total(rows: Sequence[Sample], engine: Engine, only: tuple[str, str] | None, *, average: bool) -> float | None:
    repeated = frozenset((engine.repeated_ranks or "").split())
    taken: dict[tuple[tuple[str, str], ...], tuple[tuple[tuple[int, str], ...], float]] = {}
    for row in rows:
        labels = dict(row.labels)
        if not math.isfinite(row.value) or (only is not None and not _wanted(labels.get(only[0]), only[1])):
            continue
        group = tuple(item for item in row.labels if item[0] not in repeated)
        rank = tuple((len(labels[name]), labels[name]) for name in sorted(repeated & labels.keys()))
        if group not in taken or rank < taken[group][0]:
            taken[group] = (rank, row.value)
    if not taken:
        return None
    total = math.fsum(value for _, value in taken.values())
    return total / len(taken) if average else total


def _wanted(value: str | None, patterns: str) -> bool:
    """Whether a label's value is one of the patterns; with "!" in front, whether it is none of them."""
    if value is None:
        return False
    hit = any(fnmatchcase(value, pattern) for pattern in patterns.removeprefix("!").split("|"))
    return hit != patterns.startswith("!")


def _canonical(engine: Engine, name: str) -> str:
    """The name as the engine itself spells it: gateways replace the colon of the prefix."""
    first = engine.metric_prefixes[0]
    prefix = next(prefix for prefix in engine.metric_prefixes if name.startswith(prefix))
    return first + name[len(prefix) :]


def _plain(metric: str) -> str:
    return metric.removesuffix("_total")


def _stranger(series: Sequence[Sample]) -> str:
    """One sentence about metrics that no engine claims."""
    if any(sample.name.startswith("DCGM_FI_") for sample in series):
        return "the metrics are the DCGM exporter's GPU counters, none of which is one that is used"
    starts = sorted({re.split(r"[:_]", sample.name, maxsplit=1)[0] for sample in series})[:3]
    return (
        f"the metrics begin with {', '.join(starts)}, which no known engine uses; "
        "check that the scrape is of the engine's own port"
    )


FORMAT: Final = Prometheus()
