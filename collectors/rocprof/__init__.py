"""Reading rocprof output: CSV and JSON of rocprofv3, rocpd databases, its summaries, and what came before it."""

from profiler.collectors.rocprof.csv_trace import FORMAT as CSV
from profiler.collectors.rocprof.json_trace import FORMAT as JSON
from profiler.collectors.rocprof.older import V1, V2
from profiler.collectors.rocprof.rocpd import FORMAT as ROCPD
from profiler.collectors.rocprof.stats import FORMAT as STATS

FORMATS = (CSV, JSON, ROCPD, STATS, V1, V2)
