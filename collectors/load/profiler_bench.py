"""Loads of ``profiler bench``: one file a point of the sweep (``profiler.collectors.client.result``).

Requests stand in the order of the plan. TTFT and end-to-end time count from the send, as everywhere; where the client
itself sent late, the times from the planned send are said beside them. A client that could not keep up is a warning:
its lag is part of every time that it took.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np

from profiler.collectors.client.job import Record
from profiler.collectors.client.result import TOOL, Line, LoadEnd, LoadHead, Zero
from profiler.collectors.json_text import decode
from profiler.collectors.load.request_rows import Row, failures, span_of, table_of, totals
from profiler.collectors.redaction import redact, redact_text
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.requests import BenchResult
from profiler.model.run import Reading

_HEAD: Final = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\{\s*"type"\s*:\s*"load"\s*,\s*"schema"\s*:\s*"profiler\.load/')
_PLAN: Final = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\{\s*"schema"\s*:\s*"profiler\.plan/')
# Lag of the client, in seconds and against the median TTFT, from which on it shows in the numbers.
LAG: Final = (0.005, 0.1)
# A share of one core from which on a process queues its own work.
BUSY: Final = 0.8


class ProfilerBench:
    """See ``profiler.model.extension.Format``."""

    name = "profiler_bench"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By the first line."""
        return 0.97 if _HEAD.match(head) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One result; a file that was cut gives the requests before the cut."""
        with source.open() as stream:
            text = decode(stream.read())
        problems = [Problem(source.name, "error", source.broken)] if source.broken else []
        head: LoadHead | None = None
        zero: Zero | None = None
        end: LoadEnd | None = None
        records: list[Record] = []
        strange: list[int] = []
        decoder = msgspec.json.Decoder(Line)
        # Not splitlines: other signs than a line feed may stand within a message.
        for number, line in enumerate(text.split("\n"), 1):
            if not line:
                continue
            try:
                value = decoder.decode(line)
            except (msgspec.MsgspecError, RecursionError):
                strange.append(number)
                continue
            if isinstance(value, LoadHead):
                head = value
            elif isinstance(value, Zero):
                zero = value
            elif isinstance(value, LoadEnd):
                end = value
            else:
                records.append(value)
        if head is None:
            raise BadInput(source.name, "the head of the load is missing or damaged", "Copy the file again", "line 1")
        if strange:
            detail = "a line is none of this file and was left out"
            problems.append(Problem(source.name, "error", detail, f"line {strange[0]}", len(strange)))
        load = sorted((one for one in records if one.phase == "load"), key=lambda one: one.i)
        if not load:
            detail = f"no request of the load was sent ({len(records)} of the warm-up were)"
            problems.append(Problem(source.name, "warning", detail))
            problems += [*_kinds(records, source.name), *_ending(head, end, source.name)]
            return Reading(facts=_facts(head, source.name), problems=tuple(problems))
        rows = [_row(one, zero) for one in load]
        problems += failures(source.name, rows)
        problems += _kinds(load, source.name)
        problems += [*_ending(head, end, source.name), *_exhausted(head, load, end, source.name)]
        problems += _counting(load, source.name)
        metadata, warned = _lag(head, load, end, source.name)
        return Reading(
            benches=(_result(head, rows, end, source.name, metadata),),
            facts=_facts(head, source.name),
            problems=(*problems, *warned),
        )


def _row(record: Record, zero: Zero | None) -> Row:
    chunks = record.chunks
    return Row(
        start=(record.sent + (0 if zero is None else zero.epoch)) / 1e9,
        ttft=chunks[0] / 1e9 if chunks else None,
        e2e=chunks[-1] / 1e9 if chunks else None,
        input_tokens=record.input,
        output_tokens=record.output,
        ok=record.ok and bool(chunks),
        gaps=[(later - earlier) / 1e9 for earlier, later in pairwise(chunks)],
    )


def _result(
    head: LoadHead, rows: Sequence[Row], end: LoadEnd | None, path: str, metadata: dict[str, str]
) -> BenchResult:
    failed = sum(not row.ok for row in rows)
    sizes = totals(rows)
    ended = None if end is None else datetime.fromtimestamp(end.ended / 1e9).astimezone().strftime("%Y%m%d-%H%M%S")
    return BenchResult(
        path=path,
        tool=TOOL,
        duration=span_of(rows),
        completed=len(rows) - failed,
        failed=failed,
        total_input_tokens=sizes[0],
        total_output_tokens=sizes[1],
        request_rate=math.inf if head.point.rate is None else head.point.rate,
        max_concurrency=head.point.concurrency,
        model=None if head.model is None else redact_text(head.model),
        ended=ended,
        client_protocol=redact_text(head.endpoint),
        requests=table_of(rows, by_start=False),
        metadata=metadata,
    )


def _facts(head: LoadHead, path: str) -> dict[str, Fact[object]]:
    """What the client knows; the engine is inferred from the server's list of models."""
    stated: dict[str, object] = {
        "model.name": head.model,
        "engine.name": head.engine,
        "workload.plan": head.plan,
        "workload.seed": head.seed,
        "workload.source": head.source,
        "workload.endpoint": head.endpoint,
        "workload.prompts": head.prompts,
        "workload.ignore_eos": head.ignore_eos,
        "workload.extra_body": redact(head.extra) or None,
    }
    return {
        key: Fact(redact_text(value) if isinstance(value, str) else value, f"{path}: head", key == "engine.name")
        for key, value in stated.items()
        if value is not None
    }


def _kinds(load: Sequence[Record], path: str) -> list[Problem]:
    """Each kind of failure once, with the first message and how often it came."""
    first: dict[str, Record] = {}
    counts: dict[str, int] = {}
    for record in load:
        if record.kind is not None:
            first.setdefault(record.kind, record)
            counts[record.kind] = counts.get(record.kind, 0) + 1
    found = [
        Problem(path, "warning", f"{kind}: {redact_text(one.error or '')[:200]}", f"request {one.i}", counts[kind])
        for kind, one in first.items()
    ]
    again = sum(record.reconnects for record in load)
    if again:
        detail = "a request was sent again, because the server had closed an idle connection"
        found.append(Problem(path, "info", detail, count=again))
    return found


def _ending(head: LoadHead, end: LoadEnd | None, path: str) -> list[Problem]:
    if end is None:
        return [Problem(path, "warning", "the file has no end: the load was cut off, what was recorded is used")]
    if end.stopped is not None:
        detail = f"the load was stopped ({end.stopped}): {end.unsent} of {head.requests} requests were not sent"
        return [Problem(path, "warning", detail)]
    if end.unsent:
        detail = f"the time was over: {end.unsent} of {head.requests} planned requests were not needed"
        return [Problem(path, "info", detail)]
    return []


def _exhausted(head: LoadHead, load: Sequence[Record], end: LoadEnd | None, path: str) -> list[Problem]:
    """A closed loop whose plan was sent before its time was over."""
    asked = head.point.duration
    if asked is None or head.point.rate is not None or end is None or end.stopped is not None:
        return []
    lasted = max(one.sent for one in load) / 1e9
    if len(load) < head.requests or lasted >= asked:
        return []
    detail = (
        f"all {head.requests} planned requests were sent after {lasted:.1f} s of {asked:g} s: plan more (--requests)"
    )
    return [Problem(path, "warning", detail)]


def _counting(load: Sequence[Record], path: str) -> list[Problem]:
    guessed = sum(record.ok and record.counted == "chunks" for record in load)
    if not guessed:
        return []
    detail = "the server did not say how many tokens an answer has; its chunks were counted, and one may hold several"
    return [Problem(path, "warning", detail, count=guessed)]


def _lag(
    head: LoadHead, load: Sequence[Record], end: LoadEnd | None, path: str
) -> tuple[dict[str, str], list[Problem]]:
    """The client's own lateness, as metadata and, where it shows in the numbers, as a warning."""
    metadata = {
        "arrival": head.point.arrival or "closed loop",
        "processes": str(head.processes),
        "plan": head.plan[:16],
    }
    ttft = np.array([one.chunks[0] / 1e9 for one in load if one.ok and one.chunks])
    late = np.array([max(one.sent - one.due, 0) / 1e9 for one in load if one.due is not None])
    loop = max((one.loop_p99 for one in end.senders), default=0.0) if end is not None else 0.0
    cpu = max((one.cpu for one in end.senders), default=0.0) if end is not None else 0.0
    metadata |= {"event_loop_delay_p99_ms": f"{loop * 1e3:.2f}", "client_cpu": f"{cpu:.2f}"}
    bound = max(LAG[0], LAG[1] * float(np.median(ttft)) if len(ttft) else 0.0)
    problems: list[Problem] = []
    reasons = []
    if len(late):
        metadata["send_lag_p50_ms"] = f"{np.percentile(late, 50) * 1e3:.2f}"
        metadata["send_lag_p99_ms"] = f"{np.percentile(late, 99) * 1e3:.2f}"
    if len(late) and np.percentile(late, 99) > bound:
        if head.point.concurrency is None:
            reasons.append(f"requests left up to {np.percentile(late, 99) * 1e3:.1f} ms late (99%)")
        else:
            problems.append(_held_back(head, load, path))
    if loop > bound:
        reasons.append(f"its event loop was {loop * 1e3:.1f} ms behind (99%)")
    if cpu > BUSY:
        reasons.append(f"a process used {cpu:.0%} of a core")
    if reasons:
        # A process that waits without being busy is kept off its core by others; more of them would wait as well.
        how = "use more --processes" if cpu > BUSY / 2 else "give the client a core, or a machine, of its own"
        detail = f"the client did not keep up: {', '.join(reasons)}; its lag is part of the times measured here: {how}"
        problems.append(Problem(path, "warning", detail))
    return metadata, problems


def _held_back(head: LoadHead, load: Sequence[Record], path: str) -> Problem:
    """Requests waited for a free place: what a user would have waited counts from when they were due."""
    from_due = [
        (one.sent - one.due + one.chunks[0]) / 1e9 for one in load if one.ok and one.chunks and one.due is not None
    ]
    said = f"mean {np.mean(from_due):.3f} s, 99% {np.percentile(from_due, 99):.3f} s" if from_due else "not known"
    detail = (
        f"the limit of {head.point.concurrency} in flight held requests back: TTFT from when they were due is {said}, "
        "and the times shown count from the send"
    )
    return Problem(path, "warning", detail)


class LoadPlan:
    """The plan beside the loads; see ``profiler.model.extension.Format``."""

    name = "profiler_plan"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By the first line."""
        return 0.97 if _PLAN.match(head) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """Says what it is: what was sent stands in the loads' own files."""
        detail = "the requests of a load as planned; another engine gets the same ones with `profiler bench --plan`"
        return Reading(problems=(Problem(source.name, "info", detail),))


FORMAT: Final = ProfilerBench()
PLAN_FORMAT: Final = LoadPlan()
