"""A stat logger that vLLM loads as a plugin and that writes every step as a line of JSON.

It does nothing unless the server's environment names a file in ``PROFILER_STEP_LOG``; the server has to be started with
it. It runs in the API server's process and is called once a step with what the scheduler tells of it: queue, cache,
hits, CUDA Graph mode where ``--cudagraph-metrics`` is on, and the batch where
``--enable-logging-iteration-details`` is. Only vLLM imports this module: it needs vLLM's own base class. Read off
v1/metrics/loggers.py of 0.32.0 and run with it.
"""

from __future__ import annotations

import atexit
import json
import os
import time
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import IO, Final

from vllm.v1.metrics.loggers import StatLoggerBase

VARIABLE: Final = "PROFILER_STEP_LOG"
# CPU seconds that the lines before this one took of the server.
OWN: Final = "own_seconds"
MOST_BYTES: Final = 1 << 30
# What is kept of the scheduler's statistics; the rest grows with the load, or is empty.
KEPT: Final = (
    "num_running_reqs", "num_waiting_reqs", "step_counter", "kv_cache_usage", "iteration_details",
    "prefix_cache_stats", "cudagraph_stats", "spec_decoding_stats",
)  # fmt: skip


class StepLog(StatLoggerBase):  # type: ignore[misc]
    """One for each engine of the server; the file of a second engine ends in ``.1.jsonl``."""

    def __init__(self, vllm_config: object, engine_index: int = 0) -> None:
        self._file: IO[str] | None = None
        self._steps = self._room = 0
        self._own = 0.0
        named = os.environ.get(VARIABLE)
        if named:
            path = Path(named)
            path = path if not engine_index else path.with_suffix(f".{engine_index}{path.suffix}")
            self._file = path.open("a", encoding="utf-8", buffering=1)
            self._room = MOST_BYTES
            atexit.register(self._close)

    def record(
        self, scheduler_stats: object, iteration_stats: object, mm_cache_stats: object = None, engine_idx: int = 0
    ) -> None:
        """Write one step. A full disk ends the log and never the server."""
        if self._file is None or scheduler_stats is None:
            return
        began = time.thread_time()
        self._steps += 1
        told = {name: _plain(getattr(scheduler_stats, name, None)) for name in KEPT}
        record = {"t": time.time(), "n": self._steps, "engine": engine_idx, OWN: round(self._own, 6), "sched": told}
        line = json.dumps(record) + "\n"
        self._room -= len(line)
        try:
            if self._room < 0:
                self._close()
                return
            self._file.write(line)
        except OSError:
            self._close()
        self._own += time.thread_time() - began

    def log_engine_initialized(self) -> None:
        """There is nothing to tell."""

    def _close(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None


def _plain(value: object) -> object:
    """Numbers, texts, lists and mappings; of a dataclass its fields, of anything else its beginning as text."""
    if value is None or isinstance(value, int | float | str):
        return value
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return repr(value)[:80]
