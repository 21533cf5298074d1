"""The engines that are known, one file each."""

from __future__ import annotations

from typing import Final

from profiler.collectors.engines import llamacpp, lmdeploy, sglang, trtllm, vllm
from profiler.model.extension import Engine

ENGINES: Final[tuple[Engine, ...]] = (vllm.ENGINE, sglang.ENGINE, trtllm.ENGINE, lmdeploy.ENGINE, llamacpp.ENGINE)
