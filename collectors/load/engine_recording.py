"""Recordings of an engine that LLMServingSim keeps beside its simulations: ``meta.json`` and ``requests.jsonl``.

They are of the real engine, run offline in one process: a request's times are those of the engine's own clock (seconds,
monotonic), from the moment it was queued. No client, no chunks; ``arrival_time`` is another clock and is not used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors.bounded_text import whole_text
from profiler.collectors.json_text import count, mapping, number, objects, parse, string
from profiler.collectors.knob_values import from_fields
from profiler.collectors.load.request_rows import Row, failures, result_of
from profiler.collectors.redaction import redact_text
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.run import Reading

TOOL: Final = "LLMServingSim's recording"
_FACTS: Final = {
    "model": "model.name",
    "dataset_path": "workload.dataset",
    "dataset_hash": "workload.dataset_sha256",
    "num_requests": "workload.requests",
}
_HARDWARE: Final = {"device_name": "gpu", "device_count": "count", "cuda_version": "cuda"}


class RecordingMeta:
    """``meta.json``; see ``profiler.model.extension.Format``."""

    name = "simulator_meta"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By two keys near its beginning."""
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"
        return 0.85 if start and b'"schema_version"' in head and b'"engine_kwargs"' in head else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """Engine, version, model, settings and device, as facts."""
        document = parse(whole_text(source))
        if not isinstance(document, dict):
            raise BadInput(source.name, "no JSON object", "Copy the file again")
        found: dict[str, object] = {}
        for engine in engines:
            version = string(document.get(f"{engine.name}_version"))
            if version is not None:
                fields = {**mapping(document.get("engine_kwargs")), **mapping(document.get("kv_cache"))}
                found |= {"engine.name": engine.name, "engine.version": redact_text(version)}
                found |= from_fields(engine.knobs, fields)
        for key, fact in _FACTS.items():
            found |= _stated(fact, document.get(key))
        for key, fact in _HARDWARE.items():
            found |= _stated(f"hardware.{fact}", mapping(document.get("hardware")).get(key))
        if not found:
            raise BadInput(source.name, "none of its settings is there", "Copy the file again")
        return Reading(facts={key: Fact(value, source.name, False) for key, value in found.items()})


class RecordingRequests:
    """``requests.jsonl``; see ``profiler.model.extension.Format``."""

    name = "simulator_requests"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By the keys of its first line."""
        first = head.split(b"\n", 1)[0]
        return 0.85 if all(b'"%s"' % key in first for key in (b"request_id", b"input_toks", b"queued_ts")) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One load, in the order the requests were queued."""
        rows: list[Row] = []
        strange: list[int] = []
        for line, record in objects(whole_text(source)):
            queued = None if record is None else number(record.get("queued_ts"))
            if record is None or queued is None:
                strange.append(line)
            else:
                rows.append(_row(record, queued))
        problems = [Problem(source.name, "error", source.broken)] if source.broken else []
        if strange:
            detail = "a line is no request record and was left out"
            problems.append(Problem(source.name, "error", detail, f"line {strange[0]}", len(strange)))
        if not rows:
            raise BadInput(source.name, "no request record", "Copy the file again")
        detail = "times of the engine itself, run offline: nothing of a client or a network is in them"
        told = (*problems, Problem(source.name, "info", detail), *failures(source.name, rows))
        return Reading(benches=(result_of(TOOL, source.name, rows, {"clock": "engine"}),), problems=told)


def _row(record: Mapping[str, object], queued: float) -> Row:
    first, last = number(record.get("first_token_ts")), number(record.get("last_token_ts"))
    return Row(
        start=queued,
        ttft=None if first is None else first - queued,
        e2e=None if last is None else last - queued,
        input_tokens=count(record.get("input_toks")),
        output_tokens=count(record.get("output_toks")),
        ok=first is not None and last is not None,
    )


def _stated(key: str, value: object) -> dict[str, object]:
    if isinstance(value, str):
        return {key: redact_text(value)}
    return {key: value} if isinstance(value, int | float) and not isinstance(value, bool) else {}


META: Final = RecordingMeta()
REQUESTS: Final = RecordingRequests()
