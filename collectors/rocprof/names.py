"""The names of kernels and copies in rocprof's output."""

from __future__ import annotations

import re
from typing import Final

# rocprofv3's directions of a copy, as the kernel families spell them.
DIRECTIONS: Final = {
    "HOST_TO_DEVICE": "Memcpy HtoD",
    "DEVICE_TO_HOST": "Memcpy DtoH",
    "DEVICE_TO_DEVICE": "Memcpy DtoD",
    "HOST_TO_HOST": "Memcpy HtoH",
}
# The same in rocprof's ``results.copy_stats.csv``.
OLDER_COPY: Final = re.compile(r"Copy(Host|Device)To(Host|Device)")
# What older versions put behind a kernel's name: the symbol is that of the kernel's descriptor.
_DESCRIPTOR: Final = re.compile(r"(?: \[clone \.kd\]| \(\.kd\)|\.kd)\s*$")


def copy_name(direction: str) -> str:
    """A copy's name from ``MEMORY_COPY_HOST_TO_DEVICE``, ``HOST_TO_DEVICE`` or ``CopyHostToDevice``."""
    match = OLDER_COPY.fullmatch(direction)
    spelled = f"{match[1]}_TO_{match[2]}".upper() if match else direction.removeprefix("MEMORY_COPY_")
    return DIRECTIONS.get(spelled, "Memcpy Unknown")


def kernel_name(symbol: str) -> str:
    """A kernel's name without the mark of its descriptor."""
    return _DESCRIPTOR.sub("", symbol)
