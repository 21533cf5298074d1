"""Reading rocprof output: CSV and JSON of rocprofv3, rocpd databases."""

from profiler.collectors.rocprof.csv_trace import FORMAT as CSV
from profiler.collectors.rocprof.json_trace import FORMAT as JSON
from profiler.collectors.rocprof.rocpd import FORMAT as ROCPD

FORMATS = (CSV, JSON, ROCPD)
