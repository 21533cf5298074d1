"""Releases: supported ones, of one time."""

from __future__ import annotations

import re
from datetime import date
from typing import Final

from profiler.analyzers.fairness.rule import (
    Finding,
    Rule,
    failed,
    inapplicable,
    passed,
    stated,
    unknown,
)
from profiler.analyzers.fairness.side import Side

MOST_DAYS: Final = 90
# A version that no release has: a development build, or a commit behind the number.
_UNRELEASED: Final = re.compile(r"\bdev\d*\b|\.dev|dirty|\+g[0-9a-f]{6,}|\.d\d{8}", re.I)


def _released(a: Side, b: Side) -> Finding:
    key = "engine.version"
    shown = stated("version", a, b, key)
    if a.fact(key) is None or b.fact(key) is None:
        return unknown("not both runs state their engine's version", shown, fix="keep the server's log")
    built = [side.run.name for side in (a, b) if _UNRELEASED.search(str(side.fact(key)))]
    if built:
        return failed(
            f"{' and '.join(built)} runs a build that no release has",
            shown,
            fix="measure a release, or publish the commit",
        )
    return passed("both state a release", shown)


def _day(side: Side) -> date | None:
    try:
        return date.fromisoformat(str(side.fact("engine.released"))[:10])
    except ValueError:
        return None


def _same_age(a: Side, b: Side) -> Finding:
    if a.fact("engine.name") is not None and all(a.fact(k) == b.fact(k) for k in ("engine.name", "engine.version")):
        return inapplicable("one engine and version")
    days = _day(a), _day(b)
    shown = stated("released", a, b, "engine.released")
    if days[0] is None or days[1] is None:
        return unknown("the day of a release is in no file", shown, fix="say engine.released (2026-11-30) in run.json")
    apart = abs((days[1] - days[0]).days)
    if apart > MOST_DAYS:
        return failed(f"the releases are {apart} days apart", shown, fix="compare releases of one time")
    return passed(f"released {apart} days apart", shown)


RULES: Final = (
    Rule("F-36", "released", "warn", _released),
    Rule("F-37", "same_age", "warn", _same_age),
)
