"""How far two starts of one engine differ when nothing was changed: the floor of what a pair can claim.

Repeats measure it. A single run of each side can't, so it is taken from pairs that were started twice:

- on a CPU: four starts in two null pairs (vLLM 0.32.0 1,053 and 1,277 tokens/s, SGLang 0.5.23 451 and 450 tokens/s,
  concurrency 16, two cores) give a standard deviation of 9.7% of one start's throughput, 13.7% of a difference; their
  latencies spread more, and the tails of these most (OF_ONE_CPU_START);
- on a GPU: not measured by us. 0.5% of one start is assumed, which lets a gap of 2% be called and leaves 1% open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

# Standard deviation of a metric's logarithm between starts of the same engine. On a CPU by what the metric is of, means
# and percentiles from the 90th on apart.
OF_ONE_CPU_START: Final = {"throughput": 0.097, "e2e": 0.107, "ttft": 0.116, "tpot": 0.181, "itl": 0.181}
TAIL_OF_ONE_CPU_START: Final = {"e2e": 0.31, "ttft": 0.42, "tpot": 0.181, "itl": 0.31}
OF_ONE_GPU_START: Final = 0.005
UNKNOWN_DEVICE: Final = 0.02
NORMAL_95: Final = 1.96
# Student's t at 95% for one degree of freedom and more; further ones follow from its expansion.
STUDENT_95: Final = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


@dataclass(frozen=True)
class Spread:
    """``deviation``: what stands for the standard deviation of the log ratio of the two values that are compared, so
    that NORMAL_95 of it on each side is the 95% interval. ``told`` says where it comes from."""

    deviation: float
    told: str


def of_difference(device_a: str | None, device_b: str | None, metric: str = "output_throughput") -> float:
    """Standard deviation of the log ratio of a metric of two single starts."""
    return float(np.hypot(_assumed(device_a, metric), _assumed(device_b, metric)))


def between(
    values_a: Sequence[float],
    values_b: Sequence[float],
    device_a: str | None = None,
    device_b: str | None = None,
    metric: str = "output_throughput",
) -> Spread:
    """The spread of two values that stand for their repeats.

    ``values`` are logarithms of the metric in each side's repeats. Repeats of both sides are pooled, Student's t stands
    for how few they are, the distance of the value to the mean is added, and a gap below the largest distance between
    two repeats of one side is never called. A side without repeats is taken to spread as its kind of device is assumed
    to, or as the other side was measured to, whichever is more.
    """
    sides = [np.asarray(values, np.float64) for values in (values_a, values_b)]
    devices = (device_a, device_b)
    freedom = sum(max(len(side) - 1, 0) for side in sides)
    if freedom == 0:
        one = of_difference(*devices, metric)
        return Spread(
            one, f"Spread between starts: {one:.1%} (standard deviation of a difference), assumed for single starts."
        )
    pooled = float(np.sqrt(sum(((side - side.mean()) ** 2).sum() for side in sides if len(side)) / freedom))
    few = student(freedom) / NORMAL_95
    parts = []
    for side, device in zip(sides, devices, strict=True):
        if len(side) < 2:
            parts.append(max(few * pooled, _assumed(device, metric)))
            continue
        parts += [few * pooled / np.sqrt(len(side)), float(np.abs(side - side.mean()).min())]
    widest = max(float(np.ptp(side)) for side in sides if len(side))
    deviation = max(float(np.sqrt(np.square(parts).sum())), widest / NORMAL_95)
    counts = " and ".join(str(max(len(side), 1)) for side in sides)
    return Spread(
        deviation,
        f"Spread between starts: measured on {counts} repeats, up to {np.expm1(widest):.1%} apart on one side "
        f"({pooled:.1%} standard deviation of one start); a gap below {np.expm1(NORMAL_95 * deviation):.1%} is not "
        "called.",
    )


def student(freedom: int) -> float:
    """Student's t at 95%, two-sided."""
    if freedom <= len(STUDENT_95):
        return STUDENT_95[freedom - 1]
    z = NORMAL_95
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _assumed(device: str | None, metric: str) -> float:
    if device != "cpu":
        return OF_ONE_GPU_START if device == "gpu" else UNKNOWN_DEVICE
    quantity = metric.rpartition("_")[2]
    table = TAIL_OF_ONE_CPU_START if metric.startswith(("p9", "max")) else OF_ONE_CPU_START
    return table.get(quantity, OF_ONE_CPU_START["throughput"])
