"""What was odd about an input: said once, in one line, with the file and the place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding about an input file.

    ``severity`` is "error" when a part of the file could not be read, "warning" when a number that is shown may be
    affected, "info" when the reader only wants to say what it did. ``detail`` is one sentence: what was found, what
    was expected, what to do. ``place`` is a position a person can find (a byte offset, a line, a field). ``count`` is
    how often it occurred.
    """

    file: str
    severity: Severity
    detail: str
    place: str | None = None
    count: int = 1
