"""The document that ``check --json`` prints, ``profiler.check/1``: whether two runs may be compared."""

from __future__ import annotations

from typing import Final

import msgspec

from profiler.model.diagnosis import FairnessRule, RunSummary
from profiler.model.document import DocumentProblem

SCHEMA: Final = "profiler.check/1"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """Every rule over the pair. ``comparable`` is False where a blocking rule failed, True where every blocking rule
    passed or does not apply, and None where one could not be checked: missing data is no pass."""

    schema: str
    runs: tuple[RunSummary, ...]
    comparable: bool | None
    headline: str
    fairness: tuple[FairnessRule, ...]
    problems: tuple[DocumentProblem, ...] = ()
