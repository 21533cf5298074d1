"""Reading torch-profiler traces."""

from profiler.collectors.torch_trace.reader import FORMAT

FORMATS = (FORMAT,)
