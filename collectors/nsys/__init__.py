"""Reading Nsight Systems exports."""

from profiler.collectors.nsys.parquet import FORMAT as PARQUET
from profiler.collectors.nsys.sqlite import FORMAT as SQLITE
from profiler.collectors.nsys.stats import FORMAT as STATS

FORMATS = (SQLITE, PARQUET, STATS)
