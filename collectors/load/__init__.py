"""Result files of load generators, one file a tool."""

from __future__ import annotations

from typing import Final

# Places, see profiler.store.formats.
FORMATS: Final = (
    "profiler_bench.FORMAT",
    "profiler_bench.PLAN_FORMAT",
    "vllm_bench.FORMAT",
    "sglang_bench.FORMAT",
    "aiperf.FORMAT",
    "aiperf_requests.FORMAT",
    "aiperf_csv.FORMAT",
    "genai_perf.FORMAT",
    "guidellm.FORMAT",
    "inference_perf.FORMAT",
    "inference_perf_requests.FORMAT",
    "llmd_report.FORMAT",
    "trtllm_bench.FORMAT",
    "inferencex.FORMAT",
    "lmdeploy_bench.FORMAT",
    "llamacpp_bench.FORMAT",
    "llmperf.FORMAT",
    "mlperf.FORMAT",
    "engine_recording.META",
    "engine_recording.REQUESTS",
)
