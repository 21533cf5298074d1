"""llama-bench's ``-o json`` and ``-o jsonl``: the model alone, without a server, one test an item.

Read off a file of build 1 and llama.cpp's tools/llama-bench. ``samples_ns`` are the repetitions of a test over
``n_prompt`` and ``n_gen`` tokens; tokenisation and sampling are not part of them, nor is the warm-up. No request and no
first token exists here, so nothing but throughput compares with a server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors.bounded_text import whole_text
from profiler.collectors.json_text import count, number, numbers, objects, string
from profiler.collectors.redaction import redact, redact_text
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.requests import BenchResult
from profiler.model.run import Reading

TOOL: Final = "llama-bench"
ENGINE: Final = "llamacpp"
_SURE: Final = re.compile(rb'\A\s*(?:\[\s*)?\{(?=[\s\S]*"build_commit")(?=[\s\S]*"(?:avg_ts|samples_ns|avg_ns)")')
_KEPT: Final = (
    "build_commit", "build_number", "cpu_info", "gpu_info", "backends", "model_type", "n_batch", "n_ubatch",
    "n_threads", "type_k", "type_v", "n_gpu_layers", "flash_attn", "n_depth", "test_time",
)  # fmt: skip


class LlamaBench:
    """See ``profiler.model.extension.Format``."""

    name = "llama_bench"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By the build and a test's averages."""
        return 0.9 if _SURE.search(head) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One result for each test; a repetition counts as one request."""
        text = whole_text(source)
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", source.broken))
        benches: list[BenchResult] = []
        strange: list[int] = []
        facts: dict[str, Fact[object]] = {}
        for line, record in objects(text):
            result = None if record is None else _result(record, source.name)
            if record is None or result is None:
                strange.append(line)
                continue
            benches.append(result)
            facts = facts or _facts(record, source.name)
        if strange:
            detail = "an item is no test result and was left out"
            problems.append(Problem(source.name, "error", detail, f"line {strange[0]}", len(strange)))
        if not benches:
            raise BadInput(source.name, "no test result found", "Run the benchmark again with -o json")
        detail = (
            "a benchmark of the model alone: tokenisation and sampling are left out and there are no requests, so only "
            "its throughput is shown"
        )
        problems.append(Problem(source.name, "info", detail, count=len(benches)))
        return Reading(benches=tuple(benches), facts=facts, problems=tuple(problems))


def _result(record: Mapping[str, object], path: str) -> BenchResult | None:
    prompt, made = count(record.get("n_prompt")), count(record.get("n_gen"))
    if prompt is None or made is None or (prompt <= 0 and made <= 0):
        return None
    raw, mean = record.get("samples_ns"), number(record.get("avg_ns"))
    samples = numbers(raw) if isinstance(raw, list) else []
    if not samples and mean is None:
        return None
    times = samples or [mean or 0.0]
    summary: dict[str, float] = {}
    for key, name, scale in (
        ("avg_ts", "llama_bench.tokens_per_second.mean", 1.0),
        ("stddev_ts", "llama_bench.tokens_per_second.std", 1.0),
        ("avg_ns", "llama_bench.seconds.mean", 1e9),
        ("stddev_ns", "llama_bench.seconds.std", 1e9),
    ):
        value = number(record.get(key))
        if value is not None:
            summary[name] = value / scale
    model = string(record.get("model_filename")) or string(record.get("model_type"))
    kept = {key: str(redact(record[key], key))[:200] for key in _KEPT if record.get(key) not in (None, "")}
    return BenchResult(
        path=path,
        tool=TOOL,
        duration=sum(times) / 1e9,
        completed=len(times),
        failed=0,
        total_input_tokens=prompt * len(times),
        total_output_tokens=made * len(times),
        max_concurrency=1,
        model=None if model is None else redact_text(model),
        summary=summary,
        metadata={"test": f"pp{prompt}" if not made else f"tg{made}" if not prompt else f"pp{prompt}+tg{made}"} | kept,
    )


def _facts(record: Mapping[str, object], path: str) -> dict[str, Fact[object]]:
    facts: dict[str, Fact[object]] = {"engine.name": Fact(ENGINE, f"{path}: the tool drives this engine only")}
    model, build = string(record.get("model_filename")), count(record.get("build_number"))
    if model is not None:
        facts["model.name"] = Fact(redact_text(model), f"{path}: model_filename")
    if build is not None:
        commit = string(record.get("build_commit")) or ""
        facts["engine.version"] = Fact(f"b{build}-{redact_text(commit)}".rstrip("-"), f"{path}: build", inferred=False)
    for key, fact in (("gpu_info", "hardware.gpu"), ("n_ubatch", "setting.token_budget")):
        value = record.get(key)
        if value:
            facts[fact] = Fact(redact(value, key), f"{path}: {key}", inferred=False)
    return facts


FORMAT: Final = LlamaBench()
