"""What steps carry: their composition, as columns, and the terms of a step's time that it gives."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from profiler.model.requests import Floats

TERMS: Final = ("step", "prefill step", "token", "sequence")
ALL_TERMS: Final = (0, 1, 2, 3)
STEP, PREFILL_STEP, TOKEN, SEQUENCE = ALL_TERMS
# The terms of a shape, given those whose first two are steps without and with a prefill.
APART: Final = np.array([[1.0, 0.0, 0.0, 0.0], [-1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Load:
    """The composition of steps, columns of one length: decode sequences, prefill tokens and requests, and how many
    steps each row stands for. ``stalled`` are sequences in decode that this step made wait."""

    decode: Floats
    prefill_tokens: Floats
    prefill_requests: Floats
    stalled: Floats
    weight: Floats

    def __len__(self) -> int:
        return len(self.decode)

    def features(self, hinge: float) -> Floats:
        """(n, 4): one row a step, one column a term; tokens count beyond ``hinge``."""

        def made() -> Floats:
            found = np.empty((len(self), len(TERMS)))
            found[:, STEP], found[:, PREFILL_STEP], found[:, SEQUENCE] = 1.0, self.prefill_tokens > 0, self.decode
            np.maximum(self.prefill_tokens + self.decode - hinge, 0.0, out=found[:, TOKEN])
            return found

        return _recent(self._by_hinge, hinge, made)

    def design(self, hinge: float, joined: NDArray[np.bool_] | None, apart: bool) -> Floats:
        """(steps or what of them is one, 4): the terms that a fit solves for; see ``fit``."""

        def made() -> Floats:
            features = self.features(hinge)
            if joined is None:
                # As a sum of one step over its weight would leave it.
                found = features * self.weight[:, None] / np.maximum(self.weight, 1e-12)[:, None]
            else:
                begin = beginnings(joined)
                each = np.add.reduceat(self.weight, begin)
                found = np.add.reduceat(features * self.weight[:, None], begin) / np.maximum(each, 1e-12)[:, None]
            return found @ APART if apart else found

        return _recent(self._designs, (hinge, apart, None if joined is None else joined.tobytes()), made)

    def beside(self, other: Load) -> Load:
        """The steps of both, these first; made once for the same other."""
        known = self._beside
        if not known or known[0] is not other:
            columns = (np.concatenate([getattr(self, f), getattr(other, f)]) for f in Load.__dataclass_fields__)
            known[:] = [other, Load(*columns)]
        return known[1]

    @cached_property
    def bounds(self) -> tuple[Floats, Floats]:
        """(2, 4) each: the smallest and largest value of each term, without a hinge, in steps that only decode and in
        those that prefill: what both together span has many steps that nobody saw. Of a kind that is not there nothing
        lies between."""
        features = self.features(0.0)
        low, high = np.full((2, len(TERMS)), np.inf), np.full((2, len(TERMS)), -np.inf)
        for kind, rows in enumerate((self.prefill_tokens <= 0, self.prefill_tokens > 0)):
            if rows.any():
                low[kind], high[kind] = features[rows].min(axis=0), features[rows].max(axis=0)
        return low, high

    def reached(self, steps: int) -> tuple[Floats, Floats]:
        """``bounds`` that at least so many steps reach or pass."""
        features = self.features(0.0)
        low, high = np.full((2, len(TERMS)), np.inf), np.full((2, len(TERMS)), -np.inf)
        for kind, rows in enumerate((self.prefill_tokens <= 0, self.prefill_tokens > 0)):
            values, weight = features[rows], self.weight[rows]
            if weight.sum() < steps:
                continue
            for term, order in enumerate(np.argsort(values, axis=0).T):
                for bound, way in ((low, order), (high, order[::-1])):
                    place = int(np.searchsorted(np.cumsum(weight[way]), steps))
                    bound[kind, term] = values[way[min(place, len(way) - 1)], term]
        return low, high

    def summed(self, hinge: float) -> Floats:
        """(4,): each term, summed over all steps by weight."""
        known = self._sums.get(hinge)
        if known is None:
            known = self._sums[hinge] = self.weight @ self.features(hinge)
        return known

    @cached_property
    def _by_hinge(self) -> dict[float, Floats]:
        return {}

    @cached_property
    def _designs(self) -> dict[tuple[float, bool, bytes | None], Floats]:
        return {}

    @cached_property
    def _beside(self) -> list[Load]:
        return []

    @cached_property
    def _sums(self) -> dict[float, Floats]:
        return {}

    @cached_property
    def _weighted(self) -> dict[Hashable, Load]:
        return {}

    @cached_property
    def _alike(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(the first step of each composition, each step's composition)."""
        both = np.stack([self.decode, self.prefill_tokens], axis=1)
        _, first, inverse = np.unique(both, axis=0, return_index=True, return_inverse=True)
        return first, inverse.reshape(-1)

    def weighted(self, name: Hashable, weight: Callable[[], Floats]) -> Load:
        """The same steps with other weights, equal compositions as one row. ``name`` stands for the weights: they are
        made once."""
        if name not in self._weighted:
            first, inverse = self._alike
            summed: Floats = np.bincount(inverse, weight(), minlength=len(first)).astype(np.float64)
            self._weighted[name] = replace(self.rows(first), weight=summed)
        return self._weighted[name]

    def gathered(self, values: Floats) -> Floats:
        """Values of the steps, added up by weight, for each row of ``weighted``."""
        first, inverse = self._alike
        return np.bincount(inverse, self.weight * values, minlength=len(first)).astype(np.float64)

    def rows(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> Load:
        """The chosen steps."""
        return Load(*(getattr(self, f)[chosen] for f in self.__dataclass_fields__))


def _recent(known: dict[Key, Floats], key: Key, made: Callable[[], Floats]) -> Floats:
    """What was made for a key; a few of them are held: steps can be a million."""
    if key not in known:
        if len(known) >= _HELD:
            del known[next(iter(known))]
        known[key] = made()
    return known[key]


_HELD: Final = 8


def narrow(load: Load) -> bool:
    """Whether the decode batches seen are so alike that a cost a sequence can't be told from a cost a step."""
    decode = load.decode[load.decode > 0]
    return len(decode) == 0 or float(np.ptp(decode)) < 0.5 * float(decode.mean())


def beginnings(joined: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The first of each group of steps that are known only together."""
    return np.flatnonzero(np.append(True, ~joined[:-1]))
