"""A value that says where it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fact(Generic[T]):
    """``value`` as read from ``source`` (a file in the run and the place in it).

    ``inferred`` is False only for what the operator stated (run.json) or the engine itself printed; a guess from
    indirect evidence is True and is shown as such.
    """

    value: T
    source: str
    inferred: bool = True
