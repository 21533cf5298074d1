"""Dynamo's forward-pass metrics: JSON lines of the schema ``dynamo.fpm.trace.v1``, one a step of a worker.

Read off a recording of Dynamo 1.6.1 and its documentation. ``wall_time`` spans scheduling to result. Lines without a
request and time are heartbeats. ``counter_id`` counts on: a gap is a lost line. Decode tokens are taken as one a
request, which speculative decoding exceeds. The engine behind the worker is not named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from profiler.collectors.bounded_text import whole_text
from profiler.collectors.json_text import count, mapping, number, objects
from profiler.collectors.scheduler.server_log import step_table
from profiler.collectors.step_annotations import phase
from profiler.errors import BadInput
from profiler.model.extension import Engine, LogStep, Source
from profiler.model.problem import Problem
from profiler.model.run import Reading
from profiler.model.steps import EngineLog, StepLabel

SCHEMA: Final = b'"schema":"dynamo.fpm.'


class ForwardPass:
    """See ``profiler.model.extension.Format``."""

    name = "dynamo_fpm"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By the schema that every line names."""
        first = head.lstrip().split(b"\n", 1)[0].replace(b" ", b"")
        return 0.95 if first[:1] == b"{" and SCHEMA in first else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One log for each worker and data-parallel rank."""
        text = whole_text(source)
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", source.broken))
        workers: dict[tuple[str, int], list[tuple[int | None, bool, float, LogStep | None]]] = {}
        strange: list[int] = []
        for line, record in objects(text):
            event = mapping((record or {}).get("event"))
            stated = mapping(event.get("fpm"))
            if not stated:
                strange.append(line)
                continue
            key = str(stated.get("worker_id", ""))[:80], count(stated.get("dp_rank")) or 0
            observed = number(event.get("observed_at_unix_ms"))
            clock = float("nan") if observed is None else observed / 1e3
            whole = event.get("capture_mode") == "full"
            workers.setdefault(key, []).append((count(stated.get("counter_id")), whole, clock, _step(stated)))
        if strange:
            detail = "a line is no forward pass and was left out"
            problems.append(Problem(source.name, "warning", detail, f"line {strange[0]}", len(strange)))
        if not workers:
            raise BadInput(source.name, "no forward pass found", "Take the worker's own JSON lines as they are")
        logs: list[EngineLog] = []
        for (worker, rank), rows in workers.items():
            numbers = [index for index, _, _, _ in rows if index is not None]
            lost = sum(max(later - earlier - 1, 0) for earlier, later in pairwise(numbers))
            full = all(whole for _, whole, _, _ in rows)
            place = f"worker {worker}, rank {rank}"
            if lost:
                problems.append(Problem(source.name, "warning", "the count has gaps: lines were lost", place, lost))
            if not full:
                problems.append(Problem(source.name, "info", "sampled: most steps are not in the file", place))
            steps = [(clock, step) for _, _, clock, step in rows if step is not None]
            logs.append(
                EngineLog(source.name, "dynamo", step_table(steps), every_step=bool(steps) and full and not lost)
            )
        return Reading(logs=tuple(logs), problems=tuple(problems))


def _step(stated: Mapping[str, object]) -> LogStep | None:
    """The step, or None for a heartbeat."""
    ran, queued = mapping(stated.get("scheduled_requests")), mapping(stated.get("queued_requests"))
    prefill, decoding = count(ran.get("num_prefill_requests")) or 0, count(ran.get("num_decode_requests")) or 0
    seconds = number(stated.get("wall_time"))
    if not (prefill or decoding or seconds):
        return None
    return LogStep(
        label=StepLabel(
            phase(prefill, decoding),
            prefill,
            count(ran.get("sum_prefill_tokens")),
            decoding,
            decoding,
            decode_context=count(ran.get("sum_decode_kv_tokens")),
        ),
        seconds=seconds,
        waiting=(count(queued.get("num_prefill_requests")) or 0) + (count(queued.get("num_decode_requests")) or 0),
    )


FORMAT: Final = ForwardPass()
