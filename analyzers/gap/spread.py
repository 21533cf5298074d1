"""How far two starts of one engine differ when nothing was changed: the floor of what a single pair can claim.

Repeats measure it. A single run of each side can't, so it is taken from pairs that were started twice:

- on a CPU: four starts in two null pairs (vLLM 0.32.0 1,053 and 1,277 tokens/s, SGLang 0.5.23 451 and 450 tokens/s,
  concurrency 16, two cores) give a standard deviation of 9.7% of one start, 13.7% of a difference;
- on a GPU: not measured by us. 0.5% of one start is assumed, which lets a gap of 2% be called and leaves 1% open.
"""

from __future__ import annotations

from typing import Final

# Standard deviation of log throughput between starts of the same engine, by kind of device.
OF_ONE_START: Final = {"cpu": 0.097, "gpu": 0.005}
UNKNOWN_DEVICE: Final = 0.02
NORMAL_95: Final = 1.96


def of_difference(device_a: str | None, device_b: str | None) -> float:
    """Standard deviation of the log ratio of two single starts."""
    one = OF_ONE_START.get(device_a or "", UNKNOWN_DEVICE)
    two = OF_ONE_START.get(device_b or "", UNKNOWN_DEVICE)
    return float((one * one + two * two) ** 0.5)
