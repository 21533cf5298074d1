"""A command line kept as text: split into words, also where JSON arguments lost their quotes (``/proc/…/cmdline``)."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from typing import Final

from profiler.collectors.knob_values import flags, setting
from profiler.model.extension import Engine

_DECODER: Final = json.JSONDecoder()
_WORD: Final = re.compile(r"[^\s'\"]*(?:'[^']*'|\"(?:\\.|[^\"\\])*\"|[^\s'\"]+)*")
_PART: Final = re.compile(r"[^A-Za-z0-9]+")
# Words of a load generator's own command: it names the server's engine as a protocol, and runs none.
_CLIENT: Final = re.compile(
    r"(?:^|/)(?:bench|bench_serving|benchmark_serving(?:\.py)?|bench_serving\.py|genai-perf|aiperf)$"
)
_WORKLOAD: Final = {
    "--seed": "seed",
    "--num-prompts": "requests",
    "--request-rate": "request_rate",
    "--max-concurrency": "max_concurrency",
    "--dataset-name": "dataset",
    "--dataset-path": "dataset_path",
    "--random-input-len": "input_tokens",
    "--random-output-len": "output_tokens",
    "--random-range-ratio": "range_ratio",
    "--num-warmups": "warmups",
    "--warmup-requests": "warmups",
    "--temperature": "temperature",
    "--top-p": "top_p",
    "--top-k": "top_k",
    "--endpoint": "endpoint",
    "--ignore-eos": "ignore_eos",
    "--burstiness": "burstiness",
}


def split(text: str) -> list[str]:
    """The words of one command, quotes undone; an unquoted JSON object is one word."""
    words: list[str] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        if text[at] == "{":
            try:
                _, end = _DECODER.raw_decode(text, at)
                words.append(text[at:end])
                at = end
                continue
            except (ValueError, RecursionError):
                pass  # no JSON: a word like any other
        match = _WORD.match(text, at)
        end = match.end() if match is not None and match.end() > at else at + 1
        words.append(_unquote(text[at:end]))
        at = end
    return words


def is_client(words: Sequence[str]) -> bool:
    """Whether a command runs a load generator rather than a server."""
    return any(_CLIENT.search(part) for word in words[:6] for part in word.split(".") or [word])


def engine_of(words: Sequence[str], engines: Sequence[Engine]) -> Engine | None:
    """The engine that a server's command starts, by its own name among the words before the first flag."""
    for word in words:
        if word.startswith("-") and word != "-m":
            return None
        for engine in engines:
            if engine.name in _PART.split(word.lower()):
                return engine
    return None


def workload(words: Sequence[str]) -> dict[str, object]:
    """What a load generator was told, by the names of ``workload.*`` facts."""
    found: dict[str, object] = {}
    for flag, value in flags(words):
        name = _WORKLOAD.get(flag.replace("_", "-"))
        if name is not None:
            known = True if value is None else setting(name, value)
            if known is not None:
                found[name] = known
    return found


def _unquote(word: str) -> str:
    if "'" not in word and '"' not in word and "\\" not in word:
        return word
    try:
        parts = shlex.split(word)
    except ValueError:
        return word
    return parts[0] if len(parts) == 1 else word
