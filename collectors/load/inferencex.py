"""InferenceX's aggregate of one point: the summary of a serving benchmark in seconds, per GPU.

Read off the project's process_result.py: every ``*_ms`` of the benchmark becomes the same name in seconds,
``intvty`` is 1 / TPOT, ``tput_per_gpu`` counts input and output tokens. The number of requests is not in the file, so
throughput is known per GPU only; with separate prefill and decode GPUs the two are divided by their own GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors.bounded_text import whole_text
from profiler.collectors.json_text import count, number, objects, string
from profiler.collectors.redaction import redact, redact_text
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.requests import BenchResult
from profiler.model.run import Reading

TOOL: Final = "inferencex"
_LATENCY: Final = re.compile(r"(mean|median|std|min|max|p\d{1,2}(?:\.\d+)?)_(ttft|tpot|itl|e2el|e2e)")
_KEYS: Final = (b'"tput_per_gpu"', b'"isl"', b'"osl"')


class Inferencex:
    """See ``profiler.model.extension.Format``."""

    name = "inferencex"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By throughput per GPU and the two lengths."""
        return 0.9 if head.lstrip()[:1] in (b"{", b"[") and all(key in head for key in _KEYS) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One result for each point; rates only per GPU, as the file states them."""
        text = whole_text(source)
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", source.broken))
        benches: list[BenchResult] = []
        strange: list[int] = []
        facts: dict[str, Fact[object]] = {}
        for line, record in objects(text):
            if record is None or number(record.get("tput_per_gpu")) is None:
                strange.append(line)
                continue
            benches.append(_result(record, source.name))
            facts = facts or _facts(record, engines, source.name)
        if strange:
            detail = "an item is no aggregate of a point and was left out"
            problems.append(Problem(source.name, "error", detail, f"line {strange[0]}", len(strange)))
        if not benches:
            raise BadInput(source.name, "no aggregate found", "Take the project's agg_*.json as it is")
        detail = (
            "an aggregate without the number of requests: rates are known per GPU only; put the benchmark's own result "
            "file beside it"
        )
        problems.append(Problem(source.name, "info", detail, count=len(benches)))
        return Reading(benches=tuple(benches), facts=facts if len(benches) == 1 else {}, problems=tuple(problems))


def _result(record: Mapping[str, object], path: str) -> BenchResult:
    summary: dict[str, float] = {}
    for key, raw in record.items():
        value = number(raw)
        match = _LATENCY.fullmatch(key)
        if value is None or abs(value) == float("inf"):
            continue
        if match is not None:
            summary[f"{match[1]}_{'e2e' if match[2] == 'e2el' else match[2]}"] = value
        elif key.endswith(("_per_gpu", "intvty")):
            summary[f"inferencex.{key}"] = value
    model = string(record.get("model"))
    kept = {
        key: str(redact(value, key))[:200]
        for key, value in record.items()
        if isinstance(value, str | int | bool) and _LATENCY.fullmatch(key) is None and value != ""
    }
    return BenchResult(
        path=path,
        tool=TOOL,
        duration=float("nan"),
        completed=0,
        failed=0,
        total_input_tokens=0,
        total_output_tokens=0,
        max_concurrency=count(record.get("conc")),
        model=None if model is None else redact_text(model),
        summary=summary,
        metadata=kept,
    )


def _facts(record: Mapping[str, object], engines: Sequence[Engine], path: str) -> dict[str, Fact[object]]:
    facts: dict[str, Fact[object]] = {}
    framework = (string(record.get("framework")) or "").lower().replace("-", "").replace("_", "")
    engine = next((one for one in engines if framework and one.name.startswith(framework)), None)
    if engine is not None:
        facts["engine.name"] = Fact(engine.name, f"{path}: framework")
    for key, fact in (("model", "model.name"), ("hw", "hardware.gpu"), ("precision", "setting.quantization")):
        value = string(record.get(key))
        if value is not None:
            facts[fact] = Fact(redact_text(value), f"{path}: {key}", inferred=False)
    if count(record.get("tp")) and not record.get("disagg"):
        facts["setting.tensor_parallel"] = Fact(count(record.get("tp")), f"{path}: tp", inferred=False)
    return facts


FORMAT: Final = Inferencex()
