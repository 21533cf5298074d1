"""An engine's own account of its settings: the JSON answer of its server-info address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors.engines import ENGINES
from profiler.collectors.json_text import decode, leading_pairs, parse
from profiler.collectors.redaction import redact
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.run import Reading

LARGEST: Final = 1 << 26


class ServerInfo:
    """A server-info answer of any known engine; see ``profiler.model.extension.Format``."""

    name = "server_info"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """Sure where an engine knows the keys as its own."""
        if head.lstrip()[:1] != b"{" or b"traceEvents" in head or b"deviceProperties" in head[:2048]:
            return 0.0
        text = decode(head)
        answer = parse(text)
        pairs = answer if isinstance(answer, dict) else leading_pairs(text)
        return 0.95 if _claim(ENGINES, pairs or _first_key(text)) is not None else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """Settings in force, stated by the engine itself; nothing named like a secret is kept."""
        with source.open() as stream:
            text = decode(stream.read(LARGEST))
        answer = parse(text)
        problems: list[Problem] = []
        if not isinstance(answer, dict):
            answer = leading_pairs(text)
            detail = "the JSON breaks off or is malformed; only the settings before that were read"
            problems.append(
                Problem(source.name, "error", detail, f"after key {list(answer)[-1]!r}" if answer else None)
            )
        facts = _claim(engines, answer)
        if facts is None:
            raise BadInput(
                source.name, "no known engine's settings", "Save the answer of the server-info address as it is"
            )
        clean = redact(dict(facts))
        return Reading(
            facts={
                key: Fact(value, f"{source.name}: {key}", inferred=False)
                for key, value in (clean.items() if isinstance(clean, dict) else ())
            },
            problems=tuple(problems),
        )


def _claim(engines: Sequence[Engine], answer: Mapping[str, object]) -> Mapping[str, object] | None:
    for engine in engines:
        facts = {} if engine.server_info is None or not answer else engine.server_info(answer)
        if facts:
            return facts
    return None


def _first_key(text: str) -> dict[str, object]:
    """The first key of an object whose first value is cut off."""
    key = text.lstrip()[1:].lstrip().split('"', 2)
    return {key[1]: None} if len(key) == 3 and not key[0] else {}


FORMAT: Final = ServerInfo()
