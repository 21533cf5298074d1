"""Versions as engines write them: ``0.32.0+cpu``, ``0.5.10.post2``, ``1.2.0rc3``."""

from __future__ import annotations

import re
from typing import Final

_NUMBERS: Final = re.compile(r"v?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?")


def at_least(version: str | None, *wanted: int) -> bool:
    """Whether a version is known and not older than ``wanted``."""
    match = None if version is None else _NUMBERS.match(version)
    return match is not None and tuple(int(part or 0) for part in match.groups()) >= wanted
