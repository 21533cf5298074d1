"""Reading Nsight Systems: its exports, its statistics, and its own reports where its exporter is installed."""

from profiler.collectors.nsys.parquet import FORMAT as PARQUET
from profiler.collectors.nsys.report import FORMAT as REPORT
from profiler.collectors.nsys.sqlite import FORMAT as SQLITE
from profiler.collectors.nsys.stats import FORMAT as STATS

FORMATS = (SQLITE, PARQUET, STATS, REPORT)
