"""The Prometheus text exposition format (0.0.4) and OpenMetrics, as far as samples go: name, labels, value, time.

A time stamp is in milliseconds in Prometheus' format and in seconds in OpenMetrics, which ends with ``# EOF``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

NAME: Final = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_SAMPLE: Final = re.compile(
    rf"({NAME})\s*(?:\{{((?:[^\"}}]|\"(?:[^\"\\]|\\.)*\")*)\}})?\s*"
    r"([+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|[iI]nf(?:inity)?|[nN]a[nN]))"
    r"(?:\s+([+-]?\d[\d.eE+-]*))?(?:\s*#\s.*)?"
)
_LABEL: Final = re.compile(r"\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*\"((?:[^\"\\]|\\.)*)\"\s*(?:,|$)")
_ESCAPE: Final = re.compile(r"\\(.)")
_UNESCAPED: Final = {"n": "\n"}


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample: ``value`` may be NaN or infinite; ``stamp`` is seconds since the epoch, None where it has none."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    stamp: float | None = None


def samples(lines: Iterable[str], unit: float = 1e-3) -> Iterator[tuple[int, Sample | None]]:
    """Every sample with its line number from 1, None for a line that is none. ``unit`` is the time stamps' in seconds.

    Comments and blank lines are passed over, and so are buckets, quantiles' and counters' creation times (``_bucket``,
    ``_created``).
    """
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text[0] == "#":
            continue
        match = _SAMPLE.fullmatch(text)
        if match is None:
            yield number, None
        elif not match[1].endswith(("_bucket", "_created")):
            labels = _labels(match[2] or "")
            yield number, None if labels is None else Sample(match[1], labels, float(match[3]), _stamp(match[4], unit))


def _stamp(text: str | None, unit: float) -> float | None:
    try:
        return None if text is None else float(text) * unit
    except ValueError:
        return None


def _labels(text: str) -> tuple[tuple[str, str], ...] | None:
    """The labels in sorted order, or None where the text between the braces is malformed."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None:
            return None if text[at:].strip() else tuple(sorted(found))
        value = _ESCAPE.sub(lambda escape: _UNESCAPED.get(escape[1], escape[1]), match[2])
        found.append((match[1], value))
        at = match.end()
    return tuple(sorted(found))
