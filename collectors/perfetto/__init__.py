"""Reading Perfetto traces (protobuf)."""

from __future__ import annotations

from typing import Final

# Places, see profiler.store.formats.
FORMATS: Final = ("reader.FORMAT",)
