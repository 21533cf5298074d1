"""Result files of load generators, one file a tool."""

from __future__ import annotations

from typing import Final

from profiler.collectors.load import sglang_bench, vllm_bench
from profiler.model.extension import Format

FORMATS: Final[tuple[Format, ...]] = (vllm_bench.FORMAT, sglang_bench.FORMAT)
