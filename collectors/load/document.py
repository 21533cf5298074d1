"""A result file as one object, JSON or YAML: what breaks off gives what stands before it."""

from __future__ import annotations

from collections.abc import Mapping
from json import JSONDecoder

from profiler.collectors.bounded_text import whole_text
from profiler.collectors.json_text import leading_pairs, parse
from profiler.collectors.yaml_text import parse_yaml
from profiler.model.extension import Source
from profiler.model.problem import Problem


def text_of(source: Source) -> tuple[str, list[Problem]]:
    """The whole text, and a problem where the compressed data breaks off."""
    text = whole_text(source)
    return text, [Problem(source.name, "error", source.broken)] if source.broken else []


def object_of(source: Source) -> tuple[Mapping[str, object], list[Problem]]:
    """The top-level pairs; empty where the text holds none."""
    text, problems = text_of(source)
    parsed = parse(text)
    if isinstance(parsed, dict):
        return parsed, problems
    pairs = leading_pairs(text)
    last = f"after key {list(pairs)[-1]!r}"[:100] if pairs else None
    problems.append(Problem(source.name, "error", "the JSON breaks off; what stands before it was read", last))
    return pairs, problems


def written_object_of(source: Source) -> tuple[Mapping[str, object], list[Problem]]:
    """The top-level pairs of a file that some write as JSON and some as YAML; empty where it holds none."""
    if source.head(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b""):
        return object_of(source)
    text, problems = text_of(source)
    value, broken = parse_yaml(text)
    if broken is not None or not isinstance(value, dict):
        detail = "the YAML breaks off; what stands before it was read"
        problems.append(Problem(source.name, "error", detail, f"line {broken or 1}"))
    return value if isinstance(value, dict) else {}, problems


def list_of(source: Source) -> tuple[list[Mapping[str, object]], list[Problem]]:
    """The objects of a top-level list; of one that breaks off those before the cut, others are counted."""
    text, problems = text_of(source)
    parsed = parse(text)
    if not isinstance(parsed, list):
        parsed = _leading_items(text)
        detail = "the JSON list breaks off; the items before the cut were read"
        problems.append(Problem(source.name, "error", detail, f"after item {len(parsed)}"))
    kept: list[Mapping[str, object]] = [item for item in parsed if isinstance(item, dict)]
    if len(kept) < len(parsed):
        problems.append(
            Problem(source.name, "error", "an item is no object and was left out", None, len(parsed) - len(kept))
        )
    return kept, problems


def _leading_items(text: str) -> list[object]:
    decoder, items = JSONDecoder(), list[object]()
    at = text.find("[") + 1
    try:
        while at > 0:
            while text[at : at + 1] in (" ", "\t", "\r", "\n", ","):
                at += 1
            item, at = decoder.raw_decode(text, at)
            items.append(item)
    except (ValueError, RecursionError):
        pass
    return items
