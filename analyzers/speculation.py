"""Speculative decoding in a trace: the time of the target model's verifications, of the draft, and of all other steps.

Told by the engine's own words only: steps that an annotation names as verification or draft, decode steps that compute
more tokens than they have sequences, and host ranges that mark the drafting between two steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiler.analyzers.figure_rows import FigureRows
from profiler.analyzers.idle import BETWEEN_PREFIX
from profiler.analyzers.trace_steps import DRAFT, Launched, inside, ranges_of
from profiler.model.inspection import Figure
from profiler.model.requests import Floats, Ints
from profiler.model.steps import StepLabel
from profiler.model.trace import Trace


@dataclass(frozen=True)
class Speculation:
    """Seconds of the device's steps, busy and idle, in three parts; ``ranges`` is what of ``draft`` was told from host
    ranges: kernels launched inside them, and the device's waits that they fill. ``width`` is the tokens that a
    verification computes for a sequence, None where the annotations don't state both."""

    verify: float
    draft: float
    other: float
    ranges: float
    verifications: int
    drafts: int
    width: float | None

    @property
    def total(self) -> float:
        """All of the steps' seconds."""
        return self.verify + self.draft + self.other


def speculation_of(
    trace: Trace,
    links: Launched,
    share: Floats,
    labels: Sequence[StepLabel],
    steps: Ints,
    seconds: Floats,
    idle: Mapping[str, Floats],
) -> Speculation | None:
    """``labels`` and ``seconds`` are those of the steps that did work, ``steps`` their indices in ``links.step``;
    ``share`` is each event's exclusive part of the busy time, ns, ``idle`` the steps' idle seconds by cause. None where
    nothing names draft or verification."""
    draft = np.array([label.draft for label in labels], bool)
    verify = np.array([label.verifies for label in labels], bool) & ~draft
    drafted = _launched_while(trace, links, DRAFT) & np.isin(links.step, steps[~draft])
    if not (draft.any() or verify.any() or drafted.any()):
        return None
    position = np.searchsorted(steps, links.step[drafted])
    waited = np.where(draft, 0.0, idle.get(BETWEEN_PREFIX + DRAFT, np.zeros(len(steps))))
    ranges = waited + np.bincount(position, share[drafted], minlength=len(steps)) / 1e9
    widths = [label for label, yes in zip(labels, verify, strict=True) if yes and label.decode_tokens]
    sequences = sum(label.decode_requests or 0 for label in widths)
    return Speculation(
        verify=float((seconds - ranges)[verify].sum()),
        draft=float(seconds[draft].sum() + ranges.sum()),
        other=float((seconds - ranges)[~draft & ~verify].sum()),
        ranges=float(ranges.sum()),
        verifications=int(verify.sum()),
        drafts=int(draft.sum()) or len(ranges_of(trace, DRAFT)),
        width=sum(label.decode_tokens or 0 for label in widths) / sequences if sequences else None,
    )


def _launched_while(trace: Trace, links: Launched, phase: str) -> NDArray[np.bool_]:
    """Which device events were launched by a thread that was in this phase."""
    found = np.zeros(len(links.call), bool)
    if not len(links.calls):
        return found
    known = links.call >= 0
    found[known] = inside(ranges_of(trace, phase), links.calls.thread, links.calls.start)[links.call[known]]
    return found


def speculation_figures(found: Speculation, source: str) -> list[Figure]:
    """The parts of the steps' time."""
    rows = FigureRows("speculation", source)
    whole = found.total
    if whole <= 0:
        return []
    width = "" if found.width is None else f", {found.width:.3g} tokens a sequence"
    rows.add("target verification", found.verify / whole, "fraction",
             f"of {whole:.3g} s of steps; {found.verifications:,} steps{width}")  # fmt: skip
    told = f"; {found.ranges:.3g} s of it told from host ranges" if found.ranges else ""
    drafts = f"{found.drafts:,} passes or ranges{told}"
    named = found.draft > 0 or found.drafts > 0
    rows.add("draft", found.draft / whole if named else None, "fraction",
             drafts if named else "needs annotations that name the draft's passes")  # fmt: skip
    rows.add("steps without speculation", found.other / whole, "fraction", "prefill, mixed and plain decode")
    return rows.rows
