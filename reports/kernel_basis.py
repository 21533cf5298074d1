"""What kernel figures are given for: a step of each run, or equal output where the steps carry other work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

from msgspec.structs import replace

from profiler.model.diagnosis import Diagnosis, KernelRow, RoleRow, TracedSteps
from profiler.reports.language import said

Row = TypeVar("Row", KernelRow, RoleRow)

# Steps that carry so much more on one side, or so many more prefills of all, are not equal work.
_SHARES: Final = 0.05
_TOKENS: Final = 1000.0


@dataclass(frozen=True, slots=True)
class Basis:
    """``unequal``: the traced steps are known to carry other mixes. ``factors`` bring a figure of a step to the unit
    that ``per`` names, of run A and of run B; ``tokens`` says that this unit is output and not a step."""

    unequal: bool
    tokens: bool
    factors: tuple[float, float]

    @property
    def per(self) -> str:
        """The unit in words."""
        return said("per 1,000 decoded tokens" if self.tokens else "per step")

    def of(self, row: Row) -> Row:
        """The row in this unit."""
        if not self.tokens:
            return row
        fields = (name for name in row.__struct_fields__ if name.endswith(("_seconds", "_calls", "_layer")))
        values = {name: getattr(row, name) for name in fields}
        return replace(row, **{n: v if v is None else v * self.factors[n[0] == "b"] for n, v in values.items()})


def basis_of(diagnosis: Diagnosis) -> Basis:
    """A step where both runs' steps carry the same or nobody knows; else 1,000 decoded tokens where they are known."""
    traced = diagnosis.traced
    unequal = _unequal(traced)
    decoded = [one.decoded or 0.0 for one in traced]
    if not unequal or min(decoded) <= 0.0:
        return Basis(unequal, False, (1.0, 1.0))
    a, b = (one.steps * _TOKENS / tokens for one, tokens in zip(traced, decoded, strict=True))
    return Basis(True, True, (a, b))


def _unequal(traced: tuple[TracedSteps, ...]) -> bool:
    """Whether the traced steps of the runs are known to carry other mixes of work."""
    if len(traced) != 2 or any(one.prefills is None for one in traced):
        return False
    a, b = ((one.prefills or 0) / one.steps for one in traced)
    apart = [(traced[0].sequences, traced[1].sequences), (traced[0].prompt_tokens, traced[1].prompt_tokens)]
    return abs(a - b) > _SHARES or any(x and y and abs(y / x - 1) > _SHARES for x, y in apart)
