"""Host and device side by side: a step takes as long as the slower of both, so what one gains the other can hide.

Faster kernels win nothing in a step that waits for its launches, and launches cost nothing in a step that is busy with
its kernels anyway. A step of a run is therefore read as

    serial + rest + max(device, host)

``device`` is its kernels, collectives and the pauses between them; ``host`` is how long the host alone would take,
which shows where the device waited for it, and is below the device's time where it did not (then the host's own calls
and phases are the best guess); ``serial`` is host time that the device can't hide, of an engine that does not overlap.
With it the step of a mixture is known too: one run's device beside the other's host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from profiler.analyzers.gap.load import Load
from profiler.model.requests import Floats

if TYPE_CHECKING:
    from profiler.analyzers.gap.model import RunModel

# Profilers slow the host by one to two times: what its calls and phases take without one lies between.
HOST_TOLL: Final = 1.5
# A device that waits for at least this share of its work shows how long its host takes.
WAITS: Final = 0.1
# A host is not slower without a profiler; but a kind of steps can be slower than what was traced of all kinds together.
MOST_KEPT: Final = 2.0


Number = TypeVar("Number", Floats, float)


@dataclass(frozen=True)
class Paces(Generic[Number]):
    """Seconds of steps: columns of one length, or those of one step."""

    device: Number
    host: Number
    serial: Number
    rest: Number


def beside(device: Number, host: Paces[Number]) -> Number:
    """Seconds of steps with one run's ``device`` and another's host."""
    found: Number = host.serial + host.rest + np.maximum(device, host.host)
    return found


def known(a: RunModel, b: RunModel) -> bool:
    """Whether both models tell the device from its host."""
    return bool(a.device) and bool(b.device) and not a.scaled and not b.scaled


@dataclass(frozen=True)
class Kept:
    """How much of the host's traced time is there without a profiler, by the kind of a step (``kinds``): profilers slow
    launches and schedules by unequal factors, and a step that prefills, or is larger than what graphs were captured
    for, launches more. ``captured``: the tokens of the largest step that is replayed, of those that only decode and of
    those that prefill; infinite where no larger one is known."""

    captured: tuple[float, float]
    shares: tuple[float, float, float, float]

    def of(self, load: Load) -> Floats:
        """Each step's."""
        return np.array(self.shares)[kinds(load.decode, load.prefill_tokens, self.captured)]

    def at(self, decode: int, prefill_tokens: int) -> float:
        """That of one step."""
        prefills = prefill_tokens > 0
        return self.shares[2 * prefills + (decode + prefill_tokens > self.captured[prefills])]

    def times(self, factor: float) -> Kept:
        """All of them scaled."""
        one, two, three, four = (share * factor for share in self.shares)
        return Kept(self.captured, (one, two, three, four))


def kinds(decode: Floats, prefill_tokens: Floats, captured: tuple[float, float]) -> NDArray[np.int64]:
    """Each step's kind: 0 decodes, 1 does so beyond what was captured, 2 prefills, 3 does so beyond it."""
    prefills = (prefill_tokens > 0).astype(np.int64)
    return 2 * prefills + (decode + prefill_tokens > np.array(captured)[prefills])


def paces(model: RunModel, kept: Kept, load: Load) -> Paces[Floats]:
    """The steps of ``load`` at the rates of ``model``; ``kept`` is its host_share."""
    return read(model, kept.of(load), model.step.seconds(load), traced(model, load))


def traced(model: RunModel, load: Load) -> Traced[Floats]:
    """The traced parts of the steps of ``load``."""
    none = np.zeros(len(load))
    return Traced(
        sum((shape.seconds(load) for shape in model.device.values()), none),
        sum((shape.seconds(load) for shape in model.host.values()), none),
        sum((shape.seconds(load) for (cause, _), shape in model.host.items() if cause == "scheduling"), none),
        none if model.launching is None else model.launching.seconds(load),
        none if model.period is None else model.period.seconds(load),
    )


@dataclass(frozen=True)
class Traced(Generic[Number]):
    """Seconds of traced steps: the device's, those in which it ``waited`` for the host, of these ``scheduling`` between
    steps, the host's in ``launching`` calls, and the ``period`` that host and device take beside each other."""

    device: Number
    waited: Number
    scheduling: Number
    launching: Number
    period: Number


def read(model: RunModel, kept: Number, whole: Number, parts: Traced[Number]) -> Paces[Number]:
    """Steps of ``whole`` seconds. ``kept`` is how much of the host's traced time is there without a profiler."""
    device, waited = parts.device, parts.waited - parts.scheduling * (not model.overlapped)
    serial = kept * parts.scheduling * (not model.overlapped)
    # What the host's calls and phases take by themselves; phases that are not hidden are serial.
    alone = (parts.launching + (model.phases or 0.0) * model.overlapped) / HOST_TOLL
    host: Any = np.where(waited > WAITS * device, kept * parts.period, np.minimum(device, alone))
    rest: Number = whole - serial - np.maximum(device, host)
    return Paces(device, host, serial, rest)


def host_share(model: RunModel) -> Kept:
    """The shares with which the run's own steps of each kind take as long as its model says, or, where a size that was
    captured splits them, which the model's shape can't follow, as they did. Where none does that for one kind, it is
    that of all steps together; 1 where none does it for these."""
    steps, own = model.own, model.own.load
    load = own.weighted("as they are", lambda: own.weight)
    modelled = load.weight * model.step.seconds(load)
    logged = modelled if steps.seconds is None else own.gathered(steps.seconds)
    split = np.isfinite(np.array(model.captured))[(load.prefill_tokens > 0).astype(np.int64)]
    seconds = np.where(split, logged, modelled)
    # A step that seems to take much less than its kernels do shows its time elsewhere.
    shown = seconds >= _SHOWN * load.weight * traced(model, load).device
    every = _share(model, load, float(modelled.sum()))
    kind = np.where(shown, kinds(load.decode, load.prefill_tokens, model.captured), -1)
    found = [
        _share(model, load.rows(kind == k), float(seconds[kind == k].sum())) if (kind == k).any() else None
        for k in range(4)
    ]
    one, two, three, four = (every if share is None else share for share in found)
    return Kept(model.captured, (one or 1.0, two or 1.0, three or 1.0, four or 1.0))


def _share(model: RunModel, load: Load, total: float) -> float | None:
    """The share with which the steps of ``load`` take ``total`` seconds, up to MOST_KEPT."""
    parts, low, high = traced(model, load), 0.0, MOST_KEPT

    def seconds(kept: float) -> float:
        found = read(model, np.full(len(load), kept), parts.device, parts)
        return float(load.weight @ (found.serial + np.maximum(found.device, found.host)))

    # Where the device alone takes as long, the host takes at most about that.
    total = max(total, _ABOUT * seconds(low))
    if not seconds(low) < total < seconds(high):
        return None
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if seconds(middle) < total else (low, middle)
    return 0.5 * (low + high)


_HALVINGS: Final = 12
_ABOUT: Final = 1.01
_SHOWN: Final = 0.7


def hidden(a: Paces[Floats], b: Paces[Floats]) -> Floats:
    """Which part of the device's difference counts in each step, 0 to 1: the mean over both orders of taking the device
    and the host from B, of the change of the step over the change of the device."""
    change = b.device - a.device
    first = beside(b.device, a) - beside(a.device, a)
    last = beside(b.device, b) - beside(a.device, b)
    counts = np.abs(change) > 1e-12
    found: Floats = np.where(counts, 0.5 * (first + last) / np.where(counts, change, 1.0), 1.0)
    return found
