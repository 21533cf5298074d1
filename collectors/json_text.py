"""JSON as benchmark tools and servers write it: bare Infinity and NaN, appended lines, files cut in the middle."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from profiler.model.requests import Floats

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"[\s,]*")


def decode(data: bytes) -> str:
    """Text whatever the bytes: a byte order mark is dropped, bad bytes become replacement characters."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace")


def parse(text: str) -> object | None:
    """The value, or None where the text is no JSON (deeply nested text counts as none)."""
    try:
        # Twice as quick, and stricter: what it refuses (NaN, numbers beyond a double, lone surrogates) json may take.
        return msgspec.json.decode(text, type=object)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        pass
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def leading_pairs(text: str) -> dict[str, object]:
    """The top-level pairs of an object up to the point where the text breaks off or stops being JSON."""
    pairs: dict[str, object] = {}
    at = _skip(text, 0)
    if not text.startswith("{", at):
        return pairs
    at += 1
    try:
        while True:
            key, at = _DECODER.raw_decode(text, _skip(text, at))
            at = _skip(text, at)
            if not isinstance(key, str) or not text.startswith(":", at):
                return pairs
            value, end = _DECODER.raw_decode(text, _skip(text, at + 1))
            if end == len(text) and not isinstance(value, dict | list | str):
                return pairs  # a number cut in the middle still parses
            pairs[key], at = value, end
    except (ValueError, RecursionError):
        return pairs


def objects(text: str) -> Iterator[tuple[int, dict[str, object] | None]]:
    """Objects of one JSON document or of JSON lines: (line number from 1, the object or None where it is none)."""
    whole = parse(text)
    if isinstance(whole, dict):
        yield 1, whole
        return
    if isinstance(whole, list):
        for item in whole:
            yield 1, item if isinstance(item, dict) else None
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            value = parse(line)
            yield number, value if isinstance(value, dict) else None


def number(value: object) -> float | None:
    """A finite or infinite number, also where it is written as a string ("inf"); None for anything else and NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(found) else found


def count(value: object) -> int | None:
    """A whole number that fits 64 bits, or None."""
    found = number(value)
    if found is None or not abs(found) < 2**63:
        return None
    return int(found)


def string(value: object) -> str | None:
    """A non-empty string, or None."""
    return value if isinstance(value, str) and value else None


def mapping(value: object) -> Mapping[str, object]:
    """An object, or an empty one where the value is something else."""
    return value if isinstance(value, dict) else {}


def column(values: object, length: int) -> Floats | None:
    """A column of ``length`` numbers (NaN for what is none), or None where the value is no list of that length."""
    if not isinstance(values, list) or len(values) != length:
        return None
    out = np.full(length, np.nan)
    for row, value in enumerate(values):
        found = number(value)
        if found is not None:
            out[row] = found
    return out


def numbers(values: Sequence[object]) -> list[float]:
    """The finite numbers of a list, in order."""
    return [found for found in map(number, values) if found is not None and math.isfinite(found)]


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()
