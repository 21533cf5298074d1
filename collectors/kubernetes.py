"""Kubernetes manifests: the command, image and devices of the container that serves.

A pod's containers are found at any depth (Deployment, StatefulSet, Pod, LeaderWorkerSet); ``$(NAME)`` in arguments is
the container's environment, as the kubelet fills it in. Only the first container that starts a known engine is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from profiler.collectors.command_text import engine_of
from profiler.collectors.json_text import decode, mapping, number, string
from profiler.collectors.knob_values import from_command
from profiler.collectors.redaction import redact, redact_command, redact_text
from profiler.collectors.yaml_text import parse_yaml
from profiler.errors import BadInput
from profiler.model.extension import Engine, Format, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.run import Reading

LARGEST: Final = 1 << 20
MOST_DOCUMENTS: Final = 200
DEEPEST: Final = 12
_HEAD: Final = re.compile(rb"(?m)^apiVersion: \S+\s*\n(?:[^\n]*\n){0,3}?kind: |^kind: \w+\s*\napiVersion: ")
_NAMED: Final = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_RELEASE: Final = re.compile(r":v?(\d+\.\d+[\w.+-]*)$")
# Labels of a node that name its device.
_DEVICE_LABELS: Final = ("gke-accelerator", "gpu.product", "gpu.product-name")


class Kubernetes:
    """See ``profiler.model.extension.Format``."""

    name = "kubernetes"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By the two keys that every object begins with."""
        return 0.85 if _HEAD.search(head[:4096]) and b"\0" not in head else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """The first container whose command starts a known engine; without one, a problem says so."""
        with source.open() as stream:
            text = decode(stream.read(LARGEST))
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", source.broken))
        read = 0
        for number_of, part in enumerate(re.split(r"(?m)^---.*$", text)[:MOST_DOCUMENTS]):
            if not part.strip():
                continue
            document, broken = parse_yaml(part)
            place = f"document {number_of + 1}"
            if broken is not None:
                detail = "this document stops being YAML; what stands before it was read"
                problems.append(Problem(source.name, "error", detail, f"{place}, line {broken}"))
            read += isinstance(document, dict)
            for pod, container, copies in _containers(document, 1.0, 0):
                facts = _facts(pod, container, copies, engines, f"{source.name}: {place}")
                if facts:
                    return Reading(facts=facts, problems=tuple(problems))
        if not read:
            raise BadInput(source.name, "no object", "Take the manifest as kubectl takes it")
        problems.append(
            Problem(source.name, "info", "no container in it starts a known engine: nothing was taken from it")
        )
        return Reading(problems=tuple(problems))


def _containers(
    node: object, copies: float, depth: int
) -> Iterator[tuple[Mapping[str, object], Mapping[str, object], float]]:
    """(the pod, one of its containers, how many copies of the pod run), in the order of the text."""
    if depth > DEEPEST:
        return
    if isinstance(node, list):
        for item in node:
            yield from _containers(item, copies, depth + 1)
    if not isinstance(node, dict):
        return
    again = copies * (number(node.get("replicas")) or 1.0)
    listed = node.get("containers")
    for container in listed if isinstance(listed, list) else ():
        if isinstance(container, dict):
            yield node, container, again
    for key, item in node.items():
        if key != "containers":
            yield from _containers(item, again, depth + 1)


def _facts(
    pod: Mapping[str, object], container: Mapping[str, object], copies: float, engines: Sequence[Engine], place: str
) -> dict[str, Fact[object]]:
    # Redacted before it is filled in: a flag that is no secret may be given one.
    environment = _environment(container.get("env"))
    words = [
        piece
        for key in ("command", "args")
        for word in _words(container.get(key))
        for piece in _pieces(_NAMED.sub(lambda match: environment.get(match[1], match[0]), word))
    ]
    engine = engine_of(words, engines)
    if engine is None:
        return {}
    found: dict[str, object] = {"engine.name": engine.name, "engine.command": redact_command(words)}
    found |= from_command(engine, words)
    if environment:
        found["engine.env"] = environment
    image = string(container.get("image"))
    if image is not None:
        found["engine.image"] = redact_text(image)
        release = _RELEASE.search(image)
        found |= {"engine.version": release[1]} if release is not None else {}
    for name, amount in mapping(mapping(container.get("resources")).get("limits")).items():
        devices = number(amount if isinstance(amount, int | float) else _whole(amount))
        if name.endswith("/gpu") and devices:
            found["hardware.count"] = int(min(devices * copies, 1 << 20))
    for label, value in mapping(pod.get("nodeSelector")).items():
        if label.rpartition("/")[2] in _DEVICE_LABELS and isinstance(value, str):
            found["hardware.gpu"] = redact_text(value)
    return {key: Fact(value, f"{place}, container", False) for key, value in found.items()}


def _words(value: object) -> list[str]:
    return [str(word) for word in value if isinstance(word, str | int | float)] if isinstance(value, list) else []


def _pieces(word: str) -> list[str]:
    """A flag and its value written as one argument are two words."""
    flag, space, value = word.partition(" ")
    return [flag, value.strip()] if space and flag.startswith("--") and "=" not in flag else [word]


def _environment(listed: object) -> dict[str, str]:
    entries = [mapping(entry) for entry in listed] if isinstance(listed, list) else []
    known = {str(e.get("name")): e.get("value") for e in entries}
    plain = {name: str(value) for name, value in known.items() if isinstance(value, str | int | float)}
    return {name: str(value) for name, value in mapping(redact(plain)).items()}


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, str) and value.isdigit() and len(value) < 7 else None


FORMATS: Final[tuple[Format, ...]] = (Kubernetes(),)
