"""Kernel and operator names -> category and role, from the two tables beside this file (first match wins)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

import numpy as np
from numpy.typing import NDArray

UNCLASSIFIED: Final = "other"
COMMUNICATION: Final = "comm"
COPIES: Final = frozenset({"memcpy", "memset"})


@dataclass(frozen=True, slots=True)
class Family:
    """One row of the table: names that ``pattern`` finds do the work of ``category`` in the place of ``role``."""

    pattern: re.Pattern[str]
    category: str
    role: str
    library: str
    example: str


@dataclass(frozen=True, slots=True)
class Classified:
    """Categories of a trace's names: ``code[i]`` indexes ``categories`` for name i; ``known`` is False for "other"."""

    categories: tuple[str, ...]
    code: NDArray[np.int64]
    known: NDArray[np.bool_]


@cache
def families(table: str = "kernel_families") -> tuple[Family, ...]:
    """The rows of ``kernel_families`` (GPU kernels, copies) or ``operator_families`` (operators of a CPU engine)."""
    lines = (files(__package__) / f"{table}.tsv").read_text("utf-8").splitlines()[1:]
    rows = (line.split("\t") for line in lines)
    return tuple(Family(re.compile(pattern), *rest) for pattern, *rest in rows)


@cache
def family_of(name: str, table: str = "kernel_families") -> Family | None:
    """The first row whose pattern is found in ``name``, or None."""
    return next((row for row in families(table) if row.pattern.search(name)), None)


def category_of(name: str, table: str = "kernel_families") -> str:
    """The category of one kernel or operator; "other" where no row matches."""
    found = family_of(name, table)
    return UNCLASSIFIED if found is None else found.category


def classify(names: Sequence[str], used: NDArray[np.int64], table: str = "kernel_families") -> Classified:
    """The category of every name that ``used`` lists (indices into ``names``); the rest stay "other", unknown."""
    categories: dict[str, int] = {UNCLASSIFIED: 0}
    code = np.zeros(len(names), np.int64)
    known = np.zeros(len(names), bool)
    for index in used.tolist():
        found = family_of(names[index], table)
        if found is not None:
            code[index] = categories.setdefault(found.category, len(categories))
            known[index] = True
    return Classified(tuple(categories), code, known)
