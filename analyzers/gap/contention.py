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
from typing import Final, Generic, TypeVar

import numpy as np

from profiler.analyzers.gap.model import RunModel
from profiler.analyzers.gap.shape import Load
from profiler.model.requests import Floats

# Idle time below this share of a step does not show how long its host takes.
SHOWN: Final = 0.02
# Profilers slow the host by one to two times: what its calls and phases take without one lies between.
HOST_TOLL: Final = 1.5


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


def paces(model: RunModel, load: Load) -> Paces[Floats]:
    """The steps of ``load`` at the rates of ``model``."""
    none = np.zeros(len(load))
    waits = {key: shape.seconds(load) for key, shape in model.host.items()}
    return read(
        model,
        model.step.seconds(load),
        sum((shape.seconds(load) for shape in model.device.values()), none),
        sum(waits.values(), none),
        sum((seconds for (cause, _), seconds in waits.items() if cause == "scheduling"), none),
        none if model.launching is None else model.launching.seconds(load),
    )


def read(
    model: RunModel, whole: Number, device: Number, waited: Number, scheduling: Number, launching: Number
) -> Paces[Number]:
    """Steps of ``whole`` seconds whose traced components are given: the device's, those in which it ``waited`` for the
    host, of these ``scheduling`` between steps, and the host's time in ``launching`` calls."""
    idle = np.maximum(whole - device, 0.0)
    kept = np.minimum(1.0, idle / np.maximum(waited, 1e-12))
    serial = kept * scheduling * (not model.overlapped)
    shown = kept * waited - serial
    # What the host's calls and phases take by themselves; phases that are not hidden are serial.
    alone = (launching + (model.phases or 0.0) * model.overlapped) / HOST_TOLL
    host = np.where(shown > SHOWN * whole, device + shown, np.minimum(device, alone))
    return Paces(device, host, serial, whole - serial - np.maximum(device, host))


def hidden(a: Paces[Floats], b: Paces[Floats]) -> Floats:
    """Which part of the device's difference counts in each step, 0 to 1: the mean over both orders of taking the device
    and the host from B, of the change of the step over the change of the device."""
    change = b.device - a.device
    first = beside(b.device, a) - beside(a.device, a)
    last = beside(b.device, b) - beside(a.device, b)
    counts = np.abs(change) > 1e-12
    found: Floats = np.where(counts, 0.5 * (first + last) / np.where(counts, change, 1.0), 1.0)
    return found
