"""Least squares with few unknowns of at least zero, solved exactly: thousands of them make the intervals of a split."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Final

import numpy as np

from profiler.model.requests import Floats

RIDGE: Final = 1e-9


def nonnegative(normal: Floats, moment: Floats, allowed: tuple[int, ...] | None = None) -> Floats:
    """argmin of x'Nx/2 - m'x over x >= 0, x zero outside ``allowed``, for a small symmetric positive semidefinite N.

    With four terms every subset that may be positive is tried: exact, and quicker than a general solver.
    """
    size, diagonal = len(moment), normal.diagonal()
    scale = np.sqrt(np.maximum(diagonal, 1e-300))
    target = moment / scale
    scaled = normal / (scale[:, None] * scale) + RIDGE * _eye(size)
    inside = [
        term
        for term, square in enumerate(diagonal.tolist())
        if (allowed is None or term in allowed) and square > 1e-300
    ]
    whole = len(inside) == size
    free = np.linalg.solve(scaled, target) if whole else np.linalg.solve(scaled[inside][:, inside], target[inside])
    if all(value >= 0.0 for value in free.tolist()):
        # The lowest of all is among those allowed.
        found = np.zeros(size)
        found[inside] = free / scale[inside]
        return found
    chosen, within, outside = _choices(size, tuple(inside))
    wanted = target * chosen
    solved = np.linalg.solve(scaled * within + outside, wanted[:, :, None])[:, :, 0]
    values = np.where((solved >= 0).all(axis=1), -0.5 * (solved * wanted).sum(axis=1), 0.0)
    best = int(np.argmin(values))
    cost: Floats = solved[best] * chosen[best] / scale if values[best] < 0 else np.zeros(size)
    return cost


@cache
def _eye(size: int) -> Floats:
    return np.eye(size)


@cache
def _choices(size: int, terms: tuple[int, ...]) -> tuple[Floats, Floats, Floats]:
    """(every non-empty choice of the terms, k x size, 1 or 0; where both terms of a system's entry are in it, k x size
    x size; the rest of the diagonal): terms outside a choice are solved as zero, so that all choices are one stack of
    equal systems."""
    every = np.array(list(product([0.0, 1.0], repeat=size))[1:])
    chosen = every[[all(term in terms for term in np.flatnonzero(row).tolist()) for row in every]]
    within = chosen[:, :, None] * chosen[:, None, :]
    return chosen, within, np.eye(size) * (1.0 - chosen[:, :, None])
