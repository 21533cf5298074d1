"""The YAML file that an engine is configured by, kept beside a run: settings that its command line does not show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from profiler.collectors.engines import ENGINES
from profiler.collectors.json_text import decode, mapping
from profiler.collectors.redaction import redact
from profiler.collectors.yaml_text import parse_yaml
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.run import Reading

LARGEST: Final = 1 << 22


class EngineConfig:
    """A configuration file of any known engine; see ``profiler.model.extension.Format``."""

    name = "engine_config"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """Sure where an engine knows the keys as its own; only files that are named as YAML are looked at."""
        if PurePosixPath(name.replace("\\", "/")).suffix not in (".yaml", ".yml"):
            return 0.0
        return 0.9 if _claim(ENGINES, mapping(parse_yaml(decode(head))[0])) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """Settings as the operator wrote them; what the engine made of them may be less."""
        with source.open() as stream:
            document, broken = parse_yaml(decode(stream.read(LARGEST)))
        facts = _claim(engines, mapping(document))
        if not facts:
            raise BadInput(source.name, "no known engine's configuration", "Keep the file that the engine was given")
        problems: tuple[Problem, ...] = ()
        if broken is not None:
            told = "the text stops being YAML here; the settings before it were read"
            problems = (Problem(source.name, "error", told, f"line {broken}"),)
        return Reading(
            facts={key: Fact(redact(value), f"{source.name}: {key}", inferred=False) for key, value in facts.items()},
            problems=problems,
        )


def _claim(engines: Sequence[Engine], document: Mapping[str, object]) -> Mapping[str, object]:
    read = (engine.config(document) for engine in engines if engine.config is not None)
    return next((facts for facts in read if facts), {})


FORMAT: Final = EngineConfig()
