"""The names of copies in rocprof's output."""

from __future__ import annotations

from typing import Final

# rocprofv3's directions of a copy, as the kernel families spell them.
DIRECTIONS: Final = {
    "HOST_TO_DEVICE": "Memcpy HtoD",
    "DEVICE_TO_HOST": "Memcpy DtoH",
    "DEVICE_TO_DEVICE": "Memcpy DtoD",
    "HOST_TO_HOST": "Memcpy HtoH",
}


def copy_name(direction: str) -> str:
    """A copy's name from ``MEMORY_COPY_HOST_TO_DEVICE`` or ``HOST_TO_DEVICE``."""
    return DIRECTIONS.get(direction.removeprefix("MEMORY_COPY_"), "Memcpy Unknown")
