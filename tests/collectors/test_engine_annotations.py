"""Step annotations of every version, as they stand in real traces."""

from __future__ import annotations

import pytest

from profiler.collectors.engines import ENGINES, sglang, vllm
from profiler.model.metrics import COUNTERS, GAUGES, HISTOGRAMS
from profiler.model.steps import StepLabel

DETAILED = "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)"


def test_counts_of_requests_and_tokens() -> None:
    label = vllm.step_label("execute_context_2(300)_generation_15(15)")
    assert label == StepLabel("mixed", 2, 300, 15, 15)


def test_a_real_build_adds_the_squared_tokens() -> None:
    assert vllm.step_label("execute_context_1(888_788544)_generation_0(0)") == StepLabel("prefill", 1, 888, 0, 0)


def test_new_and_cached_are_not_prefill_and_decode() -> None:
    assert vllm.step_label("execute_new_2_cached_5") == StepLabel(requests=7)


def test_the_detailed_form_is_read_alike_by_every_engine_whose_traces_hold_it() -> None:
    expected = StepLabel("mixed", 9, 8155, 37, 37, 8430, 34489)
    assert vllm.step_label(DETAILED) == sglang.step_label(DETAILED) == expected
    assert {engine.step_label(DETAILED) for engine in ENGINES} <= {expected, None}


def test_an_empty_step_is_idle() -> None:
    label = vllm.step_label("execute_0_context_0(sq0sk0sqsq0sqsk0)_generation_0(sq0sk0sqsq0sqsk0)")
    assert label is not None and label.phase == "idle"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("step[EXTEND bs=15 toks=15360]", StepLabel("prefill", 15, 15360, 0, 0, requests=15)),
        ("step[DECODE bs=16]", StepLabel("decode", 0, 0, 16, 16, requests=16)),
        (
            "step[DECODE bs=4 g_sq=4 g_sqsq=4 g_sqsk=248 g_sk=248 forward_id=70]",
            StepLabel("decode", 0, 0, 4, 4, decode_context=248, requests=4),
        ),
        ("step[MIXED bs=9 toks=70]", StepLabel("mixed", requests=9, tokens=70)),
        (
            "step[MIXED bs=5 c=2 g=3 c_sq=70 c_sk=90 c_sqsq=1 c_sqsk=1 g_sq=3 g_sk=30 g_sqsq=3 g_sqsk=30]",
            StepLabel("mixed", 2, 70, 3, 3, 90, 30, 5),
        ),
        ("step[VERIFY bs=2 g_sq=10]", StepLabel("decode", 0, 0, 2, 10, requests=2, verify=True)),
        ("step[TARGET_VERIFY bs=2]", StepLabel("decode", 0, 0, 2, None, requests=2, verify=True)),
        ("step[DRAFT bs=2]", StepLabel("decode", requests=2, draft=True)),
        ("step[DRAFT_LOOP raw_bs=3 bs=4 topk=1]", StepLabel("decode", requests=3, draft=True)),
        ("step[DRAFT_EXTEND_V2 bs=3 c_sq=9 c_sk=90]", StepLabel("prefill", requests=3, draft=True)),
        ("step[IDLE bs=0]", StepLabel("idle", requests=0)),
    ],
)
def test_bracketed_steps(name: str, expected: StepLabel) -> None:
    assert sglang.step_label(name) == expected


@pytest.mark.parametrize("name", ["", "step[", "execute_context_1(2)", "aten::mm", "step[DECODE bs=x]", "execute_"])
def test_other_names_are_no_steps(name: str) -> None:
    assert all(engine.step_label(name) is None for engine in ENGINES)


def test_every_metric_is_mapped_to_a_known_concept() -> None:
    known = GAUGES | COUNTERS | HISTOGRAMS
    for engine in ENGINES:
        assert set(engine.metrics.values()) | {row[0] for row in engine.metric_labels} <= known
        assert all(name.startswith(engine.metric_prefixes) for name in engine.metrics)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "INFO 11-30 10:00:00 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 2.31, Accepted throughput: "
            "51.20 tokens/s, Drafted throughput: 117.00 tokens/s, Accepted: 512 tokens, Drafted: 1170 tokens",
            ("vllm", "accepted_length", 2.31),
        ),
        (
            "INFO 11-30 10:00:00 [gc_utils.py:90] GC took 12.345ms to complete. Collected 7 objects (out of 90) in GC "
            "generation 2.",
            ("vllm", "gc_seconds", 0.012345),
        ),
        (
            "[2026-11-30 10:00:00] Decode batch. #running-req: 4, #token: 900, token usage: 0.01, accept len: 3.12, "
            "accept rate: 0.71, cuda graph: True, gen throughput (token/s): 310.1, #queue-req: 0,",
            ("sglang", "accepted_length", 3.12),
        ),
        (
            "[2026-11-30 10:00:00] GC end: Time 1796014870.5 | Generation 2 | Duration: 0.1234s | Collected: 7 | "
            "Uncollectable: 0 (LONG GC)",
            ("sglang", "gc_seconds", 0.1234),
        ),
        ("[2026-11-30 10:00:00] Decode batch. #running-req: 4, #token: 900, #queue-req: 0,", None),
    ],
)
def test_numbers_that_log_lines_state(line: str, expected: tuple[str, str, float] | None) -> None:
    found = [
        (engine.name, concept, value)
        for engine in ENGINES
        if engine.log_readings is not None
        for concept, value in engine.log_readings(line).items()
    ]
    assert found == ([] if expected is None else [expected])
