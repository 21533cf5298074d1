"""Server logs: the number of steps is that of the lines, the numbers are those of the lines."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from profiler.model.run import Reading
from profiler.model.steps import EngineLog

Read = Callable[[Path], tuple[str, Reading]]

ITERATION = re.compile(r"Iteration\(\d+\): (\d+) .*?, (\d+) context tokens, (\d+) .*?, (\d+) .*?time: ([\d.]+) ms")


def text_of(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()


def log_of(read: Read, path: Path, engine: str) -> EngineLog:
    name, reading = read(path)
    assert name == "server_log"
    (log,) = reading.logs
    assert (log.engine, reading.facts["engine.name"].value) == (engine, engine)
    assert not reading.facts["engine.name"].inferred
    return log


@pytest.mark.parametrize(
    "name",
    [
        "own/vllm-vs-sglang/vllm-1/c16/server.log.gz",
        "own/vllm-sequences/max-num-seqs-2/server.log.gz",
        "own/vllm-everything-on/server.log.gz",
        "metrics/vllm-log/vllm_0.15.0_gpt-oss-120b_tp4_excerpt.log",
    ],
)
def test_iteration_lines(corpus: Path, read: Read, name: str) -> None:
    log = log_of(read, corpus / name, "vllm")
    rows = ITERATION.findall(text_of(corpus / name))
    assert len(rows) > 500
    assert len(log.steps) == len(rows) == text_of(corpus / name).count("iteration elapsed time")
    assert log.every_step
    assert log.steps.prefill_requests.tolist() == [int(row[0]) for row in rows]
    assert log.steps.prefill_tokens.tolist() == [int(row[1]) for row in rows]
    assert log.steps.decode_requests.tolist() == [int(row[2]) for row in rows]
    assert log.steps.decode_tokens.tolist() == [int(row[3]) for row in rows]
    np.testing.assert_allclose(log.steps.seconds, [float(row[4]) / 1e3 for row in rows], rtol=1e-12)
    assert np.all(np.diff(log.steps.clock) >= 0)


def test_lines_without_a_stamp_as_sglang_wrote_in_2024(samples: Path, read: Read, tmp_path: Path) -> None:
    path = samples / "server_log/sglang_2024.log"
    steps = log_of(read, path, "sglang").steps
    assert (steps.prefill_tokens.tolist(), steps.cached_tokens.tolist()) == ([70, 0], [30, -1])
    assert (steps.decode_requests.tolist(), steps.waiting.tolist()) == ([0, 3], [4, 4])
    assert np.isnan(steps.clock).all()
    alone = tmp_path / "one.log"
    alone.write_text(path.read_text().splitlines()[0])
    assert read(alone)[0] != "server_log"  # one line may be a quotation


def test_settings_of_a_log_of_0_15(corpus: Path, read: Read) -> None:
    path = corpus / "metrics/vllm-log/vllm_0.15.0_gpt-oss-120b_tp4_excerpt.log"
    log = log_of(read, path, "vllm")
    expected = {
        "token_budget": 8192,
        "tensor_parallel": 4,
        "kv_tokens": 5863776,
        "overlap": True,
        "cuda_graph": True,
        "attention_backend": "FLASH_ATTN",
        "quantization": "mxfp4",
    }
    assert {key: log.settings[key].value for key in expected} == expected
    assert read(path)[1].facts["engine.version"].value == "0.15.0"
    assert log.events["graph_capture"] > 0


@pytest.mark.parametrize("name", ["sglang-1/c16", "sglang-1/c1", "sglang-2/c16"])
def test_batch_lines(corpus: Path, read: Read, name: str) -> None:
    path = corpus / "own/vllm-vs-sglang" / name / "server.log.gz"
    log = log_of(read, path, "sglang")
    lines = [line for line in text_of(path).splitlines() if re.search(r"(Prefill|Decode) batch", line)]
    prefill = [line for line in lines if "Prefill batch" in line]
    assert len(log.steps) == len(lines)
    assert int((log.steps.prefill_requests > 0).sum()) == len(prefill)
    tokens = sum(int(match) for line in prefill for match in re.findall(r"#new-token: (\d+)", line))
    assert int(log.steps.prefill_tokens.sum()) == tokens
    assert log.every_step  # this server ran with --decode-log-interval 1
    assert log.settings["max_num_seqs"].value == 4096
    assert set(log.steps.graph.tolist()) == {0}


def test_a_limit_of_two_sequences_is_seen(corpus: Path, read: Read) -> None:
    log = log_of(read, corpus / "own/sglang-0.5.23-cpu/server-maxrun2.log", "sglang")
    assert log.settings["max_num_seqs"].value == 2
    assert log.steps.decode_requests.max() == 2


def test_lines_of_our_own(samples: Path, read: Read) -> None:
    log = log_of(read, samples / "server_log/iterations.log", "vllm")
    steps = log.steps
    assert steps.prefill_tokens.tolist() == [300, 20, 0]
    np.testing.assert_array_equal(steps.kv_usage, [np.nan, 0.125, 0.125])
    # 31 December 23:59:59, then New Year's night without a year: the clock goes on.
    assert np.diff(steps.clock).tolist() == [2.0, 1.0]
    # The interval line also reports preemptions, and is counted as that; a progress bar is two messages.
    assert log.events == {"preemption": 1, "graph_capture": 2, "error": 1}
    assert log.settings["prefix_cache"].value is False
    old = log_of(read, samples / "server_log/batches.log", "sglang")
    assert old.steps.decode_requests.tolist() == [0, 5, 6]
    assert old.steps.decode_tokens.tolist() == [0, 5, -1]  # accept len: tokens of a step are not known
    assert old.steps.cached_tokens.tolist() == [8, -1, -1]
    assert old.steps.waiting.tolist() == [4, 1, 0]
    assert old.steps.graph.tolist() == [-1, -1, 1]
    assert old.steps.clock[2] - old.steps.clock[0] == 2.5
    assert old.events == {"preemption": 1}
    assert not old.every_step
    settings = {key: fact.value for key, fact in old.settings.items()}
    assert settings["prefix_cache"] is False and settings["token_budget"] == 2048 and settings["tensor_parallel"] == 2


def test_a_log_of_the_engine_before_its_rewrite(samples: Path, read: Read) -> None:
    """V0 prints no line a step: settings, sizes and events are what its log says."""
    path = samples / "server_log/before_v1.log"
    log = log_of(read, path, "vllm")
    assert not len(log.steps) and not log.every_step
    assert log.events == {"graph_capture": 1, "interval": 2, "preemption": 1}
    facts = {key: fact.value for key, fact in read(path)[1].facts.items()}
    assert facts["engine.version"] == "0.6.6.post1" and facts["model.name"] == "m/x"
    assert (facts["setting.kv_blocks"], facts["setting.tensor_parallel"]) == (27852, 2)
    assert facts["setting.prefix_cache"] is True and facts["hardware.device"] == "gpu"


def test_the_oldest_batch_lines(samples: Path, read: Read) -> None:
    """0.3.6: a full stop behind the head, a hit rate among the fields, no comma at the end."""
    log = log_of(read, samples / "server_log/batches_oldest.log", "sglang")
    steps = log.steps
    assert steps.prefill_tokens.tolist() == [64, 0, 0] and steps.cached_tokens.tolist() == [8, -1, -1]
    assert steps.decode_requests.tolist() == [0, 5, 4] and steps.waiting.tolist() == [4, 1, -1]
    np.testing.assert_array_equal(steps.kv_usage, [0.12, 0.25, np.nan])  # the last line is cut
    assert log.events == {"preemption": 1} and log.settings["kv_tokens"].value == 4096


def test_a_cut_line_is_no_step(samples: Path, read: Read) -> None:
    assert len(log_of(read, samples / "server_log/truncated.log", "vllm").steps) == 1


def test_a_huge_line_is_cut_and_counted(tmp_path: Path, samples: Path, read: Read) -> None:
    path = tmp_path / "server.log"
    good = (samples / "server_log/truncated.log").read_text().splitlines()[0]
    path.write_text(good + "\n" + "x" * 3_000_000 + "\n" + good + "\n")
    name, reading = read(path)
    assert name == "server_log" and len(reading.logs[0].steps) == 2
    assert [(problem.severity, problem.count) for problem in reading.problems] == [("warning", 1)]


def test_numbers_that_lines_state(samples: Path, read: Read) -> None:
    """Recorded by us with n-gram drafts and VLLM_GC_DEBUG=1 (vLLM 0.32.0 on CPU)."""
    log = log_of(read, samples / "server_log" / "speculative.log", "vllm")
    stated = {concept: np.round(told.value, 6).tolist() for concept, told in log.readings.items()}
    assert stated["gc_seconds"] == [0.00017] and stated["accepted_length"] == [3.6]
    assert len(log.steps) == 26
