"""CUDA and HIP graphs of one device: what was replayed, in how many pieces, what a replay's launch costs, and what the
captured sizes make of the batches.

A step is replayed in full where its attention was: a piecewise graph leaves attention to eager launches between its
pieces. Where no attention was recognised, a step with one replay counts as full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from profiler.analyzers.idle import BETWEEN_LAUNCH, IN_STEP_LAUNCH, Gaps
from profiler.analyzers.trace_steps import Launched, Spans, is_graph_launch
from profiler.model.requests import Floats, Ints
from profiler.model.steps import StepLabel
from profiler.model.trace import EventTable, Kind, Trace

Mode = Literal["full", "pieces", "eager"]
MODES: Final[tuple[Mode, ...]] = ("full", "pieces", "eager")


@dataclass(frozen=True)
class GraphUse:
    """``mode`` (index into MODES), ``sequences``, ``tokens`` and ``seconds`` (kernel time) are columns of one length,
    one row a step; -1 where an annotation does not state sequences or tokens. The rest are totals of the device."""

    mode: NDArray[np.int8]
    phase: tuple[str | None, ...]
    sequences: Ints
    tokens: Ints
    seconds: Floats
    kernels: int
    kernels_replayed: int
    kernel_seconds: float
    replayed_seconds: float
    replays: int
    pieces: float | None  # replays a step, in the steps that replay pieces
    launch_seconds: float | None  # host seconds of one replay's launch call, mean
    waited_seconds: float  # device idle that a late replay ended

    def share(self, mode: Mode, weight: Floats | Ints | None = None) -> float | None:
        """The share of steps in ``mode``, or of ``weight`` (one value a step, negative ones left out)."""
        amounts = np.ones(len(self.mode)) if weight is None else np.asarray(weight, np.float64)
        known = amounts >= 0
        total = float(amounts[known].sum())
        chosen = known & (self.mode == MODES.index(mode))
        return float(amounts[chosen].sum()) / total if total > 0 else None


def graph_use(
    trace: Trace,
    events: EventTable,
    links: Launched,
    share: Floats,
    gaps: Gaps,
    spans: Spans,
    attention: NDArray[np.bool_],
) -> GraphUse | None:
    """What the graphs of a device did; None where the trace has no launch calls, so that nothing can be told.

    ``events`` are the device's in order of start, ``share`` their exclusive nanoseconds, ``attention`` which of them
    are attention kernels.
    """
    if not len(links.calls):
        return None
    graph = is_graph_launch(trace, links.calls)
    replayed = (links.call >= 0) & graph[links.call]
    kernel = events.kind == Kind.KERNEL
    owned = kernel & (links.step >= 0)
    steps = np.flatnonzero(np.bincount(links.step[owned]))
    row = np.searchsorted(steps, links.step[owned])
    n = len(steps)
    launches = np.bincount(distinct_pairs(row[replayed[owned]], links.call[owned][replayed[owned]]), minlength=n)
    attended = np.bincount(row, attention[owned], minlength=n)
    eager_attention = np.bincount(row, attention[owned] & ~replayed[owned], minlength=n)
    whole = np.where(attended > 0, eager_attention == 0, launches == 1)
    mode = np.where(launches == 0, 2, np.where(whole, 0, 1)).astype(np.int8)
    labels = [spans.labels[i] for i in steps.tolist()]
    calls = np.flatnonzero(np.bincount(links.call[kernel & replayed]))
    pieces = launches[mode == 1]
    return GraphUse(
        mode=mode,
        phase=tuple(label.phase for label in labels),
        sequences=np.array([_sequences(label) for label in labels], np.int64),
        tokens=np.array([-1 if label.computed is None else label.computed for label in labels], np.int64),
        seconds=np.bincount(row, share[owned], minlength=n) / 1e9,
        kernels=int(kernel.sum()),
        kernels_replayed=int((kernel & replayed).sum()),
        kernel_seconds=float(share[kernel].sum()) / 1e9,
        replayed_seconds=float(share[kernel & replayed].sum()) / 1e9,
        replays=len(calls),
        pieces=float(pieces.mean()) if len(pieces) else None,
        launch_seconds=float(links.calls.duration[calls].mean()) / 1e9 if len(calls) else None,
        waited_seconds=_waited(gaps, replayed),
    )


def distinct_pairs(first: Ints, second: Ints) -> Ints:
    """``first`` of every pair that occurs, once a pair. Equal pairs usually follow each other."""
    key = first * (int(second.max(initial=0)) + 1) + second
    key = np.unique(key[np.flatnonzero(np.diff(key, prepend=-1))])
    return key // (int(second.max(initial=0)) + 1)


def _sequences(label: StepLabel) -> int:
    if label.decode_requests is not None or label.prefill_requests is not None:
        return (label.decode_requests or 0) + (label.prefill_requests or 0)
    return -1 if label.requests is None else label.requests


def _waited(gaps: Gaps, replayed: NDArray[np.bool_]) -> float:
    """Idle seconds whose cause is a launch and whose first kernel came from a replay."""
    launch = np.array([cause in (IN_STEP_LAUNCH, BETWEEN_LAUNCH) for cause in gaps.causes], bool)
    late = launch[gaps.code] & (gaps.event >= 0)
    return float(gaps.nanoseconds[late][replayed[gaps.event[late]]].sum()) / 1e9


@dataclass(frozen=True)
class Padding:
    """What captured sizes make of the pure decode steps that were replayed. ``tokens`` are the rows computed for no
    request; ``seconds`` is at most what they cost: their share of each step's kernel time."""

    tokens: int
    real_tokens: int
    seconds: float


@dataclass(frozen=True)
class Misses:
    """Steps that replayed nothing although graphs were in use, by reason."""

    reasons: Mapping[str, int]


def padding(use: GraphUse, captured: Sequence[int]) -> Padding | None:
    """The rows that pad replayed decode batches up to the next captured size; None where no batch is known."""
    sizes = np.array(sorted(captured), np.int64)
    decode = np.array([phase == "decode" for phase in use.phase], bool)
    rows = (use.mode == MODES.index("full")) & decode & (use.tokens > 0)
    if not len(sizes) or not rows.any():
        return None
    tokens = use.tokens[rows]
    at = np.searchsorted(sizes, tokens)
    fits = at < len(sizes)
    padded = np.where(fits, sizes[np.minimum(at, len(sizes) - 1)], tokens)
    extra = padded - tokens
    return Padding(int(extra.sum()), int(tokens.sum()), float((use.seconds[rows] * extra / padded).sum()))


def misses(use: GraphUse, captured: Sequence[int], largest: int | None, graphs_on: bool | None) -> Misses:
    """Why steps ran eagerly. ``captured`` sizes and the ``largest`` may be unknown (empty, None)."""
    top = max(captured, default=largest)
    reasons: dict[str, int] = {}
    for mode, phase, tokens in zip(use.mode.tolist(), use.phase, use.tokens.tolist(), strict=True):
        if mode != MODES.index("eager"):
            continue
        if graphs_on is False:
            reason = "graphs are switched off"
        elif phase in ("prefill", "mixed"):
            reason = f"{phase} steps were not captured"
        elif phase == "idle":
            reason = "the step carried nothing"
        elif top is not None and tokens > top:
            reason = f"the batch was above the largest captured size, {top}"
        else:
            reason = "not known"
        reasons[reason] = reasons.get(reason, 0) + 1
    return Misses(dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))))
