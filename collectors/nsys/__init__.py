"""Reading Nsight Systems exports."""

from profiler.collectors.nsys.sqlite import FORMAT

FORMATS = (FORMAT,)
