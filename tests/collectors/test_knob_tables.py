"""The tables of settings beside the engines' files: whole, consistent, and true to the version that is asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.collectors.engines import ENGINES
from profiler.collectors.knob_table import knobs
from profiler.collectors.knob_values import SWITCHES
from profiler.model.knob import Allowed, Dated, Knob

IN_FULL = ("vllm", "sglang", "trtllm")
# What every engine has under one name or another.
EVERYWHERE = {
    "max_num_seqs", "token_budget", "chunked_prefill", "prefix_cache", "cuda_graph", "cuda_graph_batches",
    "cuda_graph_max_batch", "overlap", "kv_dtype", "kv_block_size", "kv_tokens", "memory_fraction", "tensor_parallel",
    "pipeline_parallel", "expert_parallel", "schedule_policy", "attention_backend", "moe_backend", "stream_interval",
    "speculative", "quantization", "compile", "frontend_processes", "max_model_len", "dtype", "load_format",
}  # fmt: skip


def knob(engine: str, name: str) -> Knob:
    return next(one for one in knobs(engine) if one.name == name)


@pytest.mark.parametrize("engine", IN_FULL)
def test_a_table_says_each_thing_once(engine: str) -> None:
    table = knobs(engine)
    names = [one.name for one in table]
    assert len(set(names)) == len(names) and set(names) >= EVERYWHERE
    assert next(known for known in ENGINES if known.name == engine).knobs == table
    for one in table:
        assert one.flags or one.settings
        assert all(flag.startswith("-") for flag in one.flags) and len(set(one.flags)) == len(one.flags)
    assert sum(one.default("99.0") is not None for one in table) > len(table) / 2


@pytest.mark.parametrize("engine", IN_FULL)
def test_a_default_is_in_its_range(engine: str) -> None:
    checked = 0
    for one in knobs(engine):
        for default in one.defaults:
            value = {"on": True, "off": False}.get(default.text, default.text)
            if one.allowed is None or " " in default.text:
                continue
            number = float(default.text) if ".." in one.allowed.text else value
            assert one.allowed.takes(number), (one.name, default)
            checked += 1
    assert checked > 5


def test_a_switch_is_read_as_one() -> None:
    """A field that holds the opposite is understood of switches alone."""
    for engine in ENGINES:
        for one in engine.knobs:
            if any(field.startswith("-") for field in one.settings):
                assert one.name in SWITCHES, (engine.name, one.name)


@pytest.mark.parametrize(
    ("engine", "name", "version", "spelled", "default"),
    [
        ("vllm", "memory_fraction", "0.33.0", "--gpu-memory-utilization 1", "0.92"),
        ("vllm", "memory_fraction", "0.19.1", "--gpu-memory-utilization 1", "0.9"),
        ("vllm", "memory_fraction", None, "--gpu-memory-utilization 1", None),
        ("vllm", "overlap", "0.10.2", "--async-scheduling 1", "off"),
        ("vllm", "cuda_graph_batches", "0.11.0", "--cuda-graph-sizes 1", None),
        ("vllm", "cuda_graph_batches", "0.32.0+cpu", "--cudagraph-capture-sizes 1", None),
        ("sglang", "cuda_graph_max_batch", "0.5.10.post2", "--cuda-graph-max-bs 1", None),
        ("sglang", "cuda_graph_max_batch", "0.5.23", "--cuda-graph-max-bs-decode 1", None),
        ("sglang", "cuda_graph_max_batch", "0.5.13", "--cuda-graph-max-bs-decode 1", None),
        ("sglang", "prefill_graph", "0.5.11", "--disable-piecewise-cuda-graph 1", "on"),
        ("trtllm", "cuda_graph_padding", None, "cuda_graph_config.enable_padding: 1 (in the configuration file)", "off"),
    ],
)  # fmt: skip
def test_a_version_has_its_own_flag_and_default(
    engine: str, name: str, version: str | None, spelled: str, default: str | None
) -> None:
    found = knob(engine, name)
    assert found.at(version).spelled(1) == spelled
    if default is not None or (version is None and engine == "vllm"):
        assert found.default(version) == default
    assert set(found.at(version).flags) == set(found.flags)


@pytest.mark.parametrize(
    ("engine", "name", "taken", "refused"),
    [
        ("vllm", "kv_dtype", "fp8", "q8_0"), ("sglang", "kv_dtype", "fp8_e4m3", "fp8"), ("llamacpp", "kv_dtype", "q8_0", "fp8"),
        ("sglang", "schedule_policy", "hrrn", "sjf"), ("trtllm", "admission_caution", "MAX_UTILIZATION", "fcfs"),
    ],
)  # fmt: skip
def test_an_engine_takes_its_own_words(engine: str, name: str, taken: str, refused: str) -> None:
    found = next(one for known in ENGINES if known.name == engine for one in known.knobs if one.name == name)
    assert found.allowed is not None and found.allowed.takes(taken) and not found.allowed.takes(refused)


def test_defaults_that_decide_how_a_run_is_read_are_those_of_the_table() -> None:
    for engine in ENGINES:
        for name, value in engine.defaults.items():
            shown = ("on" if value else "off") if isinstance(value, bool) else str(value)
            assert next(one for one in engine.knobs if one.name == name).default("99.0") == shown, (engine.name, name)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_a_bound_of_two_numbers_holds_for_all_that_begin_so(minor: int, bound: int, patch: int) -> None:
    version = f"0.{minor}.{patch}"
    assert Dated("x", until=f"0.{bound}").holds(version) == (minor <= bound)
    assert Dated("x", since=f"0.{bound}").holds(version) == (minor >= bound)
    assert Dated("x").holds(None) and not Dated("x", since="0.1").holds(None)


@pytest.mark.parametrize(
    ("text", "taken", "refused", "words"),
    [
        ("1..", (1, 7, 8.0), (0, -1, 1.5, True, "x"), "whole numbers from 1 on"),
        (">0.0..1.0", (0.1, 1, 1.0), (0, 0.0, 1.01), "numbers above 0.0 to 1.0"),
        ("0.0..1.0", (0, 0.5, 1), (-0.1, 2), "numbers from 0.0 to 1.0"),
        ("0.0..<1.0", (0, 0.99), (1, 1.0, -0.1), "numbers from 0.0 below 1.0"),
        ("-1..", (-1, 0, 4096), (-2, 0.5), "whole numbers from -1 on"),
        ("on|off", (True, False), (1, "yes"), "one of on, off"),
        ("fcfs|priority", ("fcfs",), ("lpm", True), "one of fcfs, priority"),
    ],
)
def test_a_range_takes_what_it_says(
    text: str, taken: tuple[object, ...], refused: tuple[object, ...], words: str
) -> None:
    allowed = Allowed(text)
    assert all(map(allowed.takes, taken)) and not any(map(allowed.takes, refused))
    assert allowed.words == words
