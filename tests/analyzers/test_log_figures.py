"""Gauges and requests of logs without steps, against what the same servers' metrics counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from profiler import open_run
from profiler.analyzers.log_figures import log_figures
from profiler.model.steps import EngineLog, Readings, StepTable
from tests.strategies import CORPUS, ROOT

LLAMA = CORPUS / "own" / "llama.cpp-server"


def figures(path: Path) -> dict[str, tuple[float | None, str]]:
    (log,) = open_run(path).logs
    return {figure.name: (figure.value, figure.detail) for figure in log_figures(log)}


@pytest.mark.skipif(not LLAMA.is_dir(), reason="the corpus of real files is not on this machine")
@pytest.mark.parametrize("slots", [1, 8])
def test_requests_of_a_log_add_up_to_the_servers_own_counters(slots: int) -> None:
    lines = (LLAMA / f"metrics-after-np{slots}.txt").read_text().splitlines()
    counted = {line.split()[0]: float(line.split()[1]) for line in lines if not line.startswith("#")}
    (log,) = open_run(LLAMA / f"server-np{slots}.log.gz").logs
    total = {concept: float(told.value.sum()) for concept, told in log.readings.items()}
    assert total["computed_prompt_tokens"] == counted["llamacpp:prompt_tokens_total"]
    assert total["cached_tokens"] == counted["llamacpp:prompt_tokens_cached_total"]
    assert total["generation_tokens"] == counted["llamacpp:tokens_predicted_total"]
    # A prompt that runs in one batch with others counts the whole batch's time in its own line.
    assert total["prefill_seconds"] > counted["llamacpp:prompt_seconds_total"]
    assert total["decode_seconds"] == pytest.approx(counted["llamacpp:tokens_predicted_seconds_total"], rel=1e-3)
    found = figures(LLAMA / f"server-np{slots}.log.gz")
    running, detail = found["requests running while any was"]
    assert running is not None and 0.9 * slots < running <= slots and f"at most {slots};" in detail
    store, _ = found["host memory for finished prompts in use"]
    assert store is not None and 0 <= store < 0.01


def test_the_ten_second_lines_of_vllm_and_lmdeploy_give_gauges(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    vllm = (
        "INFO 02-01 13:22:{} [loggers.py:257] Engine 000: Avg prompt throughput: 7296.4 tokens/s, Avg generation "
        "throughput: 6.5 tokens/s, Running: {} reqs, Waiting: {} reqs, GPU KV cache usage: {}%, Prefix cache hit rate: 1.5%\n"
    )
    path.write_text(vllm.format("01", 13, 115, "0.8") + vllm.format(11, 128, 0, "6.1"))
    found = figures(path)
    assert found["requests running, where the log says"] == (70.5, "mean of 2 lines; at most 128")
    assert found["requests waiting, where the log says"][0] == 57.5
    assert found["KV cache in use, where the log says"] == (pytest.approx(0.0345), "mean of 2 lines; at most 6.1%")
    lmdeploy = (
        "[2026-01-02 03:04:05 DP0] Avg thr (in/out): 1.0 / 2.0 tokens/s, Server (succeeded/failed/routed/waiting): "
        "1 / 0 / 1 / 0, Engine (running/waiting): 4 / 2, KV cache: 3.0%, Prefix cache hit rate: 0.0%\n"
    )
    path.write_text(lmdeploy)
    found = figures(path)
    assert (found["requests running, where the log says"][0], found["requests waiting, where the log says"][0]) == (
        4,
        2,
    )


def test_a_log_with_steps_says_the_same_by_its_steps() -> None:
    (log,) = open_run(ROOT / "tests" / "samples" / "server_log" / "iterations.log").logs
    assert len(log.steps) and log_figures(log) == ()


def test_a_log_that_begins_under_load_counts_the_requests_whose_start_it_lacks() -> None:
    changes = Readings(np.array([1.0, 2.0, 4.0, 5.0]), np.array([-1.0, -1.0, 1.0, -1.0]))
    log = EngineLog("x", "y", StepTable.build(0), every_step=False, readings={"running_change": changes})
    (figure,) = log_figures(log)
    # One from 1 s to 2 s, none until 4 s, one until 5 s; two before the first line.
    assert figure.value == 1.0 and "in 2 s" in figure.detail
