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

from profiler.analyzers.gap.shape import Load
from profiler.model.requests import Floats

if TYPE_CHECKING:
    from profiler.analyzers.gap.model import RunModel

# Profilers slow the host by one to two times: what its calls and phases take without one lies between.
HOST_TOLL: Final = 1.5
# A device that waits for at least this share of its work shows how long its host takes.
WAITS: Final = 0.1


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
    """How much of the host's traced time is there without a profiler, in steps that only decode and in steps that
    prefill: profilers slow launches and schedules by unequal factors, and a prefill launches more."""

    decode: float
    prefill: float

    def of(self, load: Load) -> Floats:
        """Each step's."""
        found: Floats = np.where(load.prefill_tokens > 0, self.prefill, self.decode)
        return found

    def times(self, factor: float) -> Kept:
        """Both scaled."""
        return Kept(self.decode * factor, self.prefill * factor)


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


def host_share(model: RunModel, own: Load) -> Kept:
    """The shares with which the run's ``own`` steps of either kind take as long as they did, at most 1. Where none does
    that for one kind, it is that of all steps together; 1 where none does it for these."""
    prefill = own.prefill_tokens > 0
    every = _share(model, own)
    found = [_share(model, own.rows(rows)) if rows.any() else None for rows in (~prefill, prefill)]
    decode, prefill_share = (one if one is not None else every if every is not None else 1.0 for one in found)
    return Kept(decode, prefill_share)


def _share(model: RunModel, own: Load) -> float | None:
    parts, low, high = traced(model, own), 0.0, 1.0

    def seconds(kept: float) -> float:
        found = read(model, np.full(len(own), kept), parts.device, parts)
        return float(own.weight @ (found.serial + np.maximum(found.device, found.host)))

    # Where the device alone takes as long, the host takes at most about that.
    total = max(model.step.total(own), _ABOUT * seconds(low))
    if not seconds(low) < total < seconds(high):
        return None
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if seconds(middle) < total else (low, middle)
    return 0.5 * (low + high)


_HALVINGS: Final = 12
_ABOUT: Final = 1.01


def hidden(a: Paces[Floats], b: Paces[Floats]) -> Floats:
    """Which part of the device's difference counts in each step, 0 to 1: the mean over both orders of taking the device
    and the host from B, of the change of the step over the change of the device."""
    change = b.device - a.device
    first = beside(b.device, a) - beside(a.device, a)
    last = beside(b.device, b) - beside(a.device, b)
    counts = np.abs(change) > 1e-12
    found: Floats = np.where(counts, 0.5 * (first + last) / np.where(counts, change, 1.0), 1.0)
    return found
