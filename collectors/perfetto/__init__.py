"""Reading Perfetto traces (protobuf)."""

from profiler.collectors.perfetto.reader import FORMAT

FORMATS = (FORMAT,)
"""All formats of this room."""
