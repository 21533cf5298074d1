"""Knobs, predictions and advice on the lab's runs, where the truth is the other run."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from profiler import open_run
from profiler.analyzers.confidence import CLOSE
from profiler.analyzers.gap.replay import Front
from profiler.analyzers.knobs import EFFECTS, NotPredictable
from profiler.analyzers.limits import limits_of
from profiler.analyzers.metrics import metrics_of
from profiler.analyzers.predict import glance, outlook, situation_of
from profiler.analyzers.recommend import recommend, whatif
from profiler.analyzers.symptoms import symptoms_of
from profiler.collectors.engines import ENGINES
from profiler.model.extension import Engine
from profiler.model.fact import Fact
from profiler.model.run import Run
from profiler.store.folder import run_root
from tests.conftest import Lab
from tests.strategies import ROOT

VLLM = next(engine for engine in ENGINES if engine.name == "vllm")
SGLANG = next(engine for engine in ENGINES if engine.name == "sglang")


def change(before: Run, after: Run, metric: str) -> float:
    return metrics_of(after.benches[-1])[metric] / metrics_of(before.benches[-1])[metric] - 1.0


@pytest.mark.parametrize(
    ("case", "back", "knob", "value"),
    [
        ("few-sequences", False, "max_num_seqs", 16), ("few-sequences", True, "max_num_seqs", 96),
        ("small-kv", False, "kv_tokens", 14_000), ("prefix-cache-off", False, "prefix_cache", False),
        ("graphs-off-small-model", False, "cuda_graph", False), ("graphs-off-small-model", True, "cuda_graph", True),
        ("no-overlap", False, "overlap", False), ("no-overlap", True, "overlap", True),
    ],
)  # fmt: skip
def test_a_prediction_has_the_right_sign_and_size(
    case: str, back: bool, knob: str, value: int | bool, lab: Lab
) -> None:
    pair = lab(case)
    before, after = (pair.b, pair.a) if back else (pair.a, pair.b)
    found = outlook(situation_of(before), {knob: value})
    for metric in ("output_throughput", "mean_tpot"):
        true, guess = change(before, after, metric), found.predicted[metric]
        assert guess.change * true > 0
        assert guess.interval[0] <= guess.change <= guess.interval[1]
        assert guess.interval[0] <= true <= guess.interval[1]


def test_a_latency_of_which_a_replay_leaves_nothing_is_not_predicted(lab: Lab) -> None:
    """The client holds first tokens up for longer than the responses of the quicker setting take, and for less than
    those of the slower one do."""
    situation = situation_of(lab("few-sequences").a)
    turned = EFFECTS["max_num_seqs"].turn(situation, 4).player
    slow, quick = (float((found.e2e - found.ttft).max()) for found in (situation.player.play(), turned.play()))
    assert quick < slow
    held = replace(situation, player=replace(situation.player, front=Front(first=0.5 * (quick + slow))))
    found = outlook(held, {"max_num_seqs": 4})
    assert held.replayed["mean_tpot"] > 0.0 and "mean_tpot" not in found.predicted
    assert all(np.isfinite(guess.interval).all() for guess in found.predicted.values())
    assert found.predicted["output_throughput"].change < 0.0


def test_an_interval_is_one_of_factors(lab: Lab) -> None:
    """So that however much is lost, something is left, and twice as much is as far off as half."""
    found = outlook(situation_of(lab("few-sequences").b), {"max_num_seqs": 96})
    assert found.extrapolated and found.predicted["p99_ttft"].change < -0.5
    assert all(guess.interval[0] > -1.0 for guess in found.predicted.values())
    bare = outlook(situation_of(lab("few-sequences").b), {}).predicted["output_throughput"]
    assert (1.0 + bare.interval[0]) * (1.0 + bare.interval[1]) == pytest.approx(1.0)


def test_the_setting_as_it_is_changes_nothing(lab: Lab) -> None:
    situation = situation_of(lab("few-sequences").a)
    assert all(abs(value) < 1e-9 for value in glance(situation, {"max_num_seqs": 256}).values())
    assert all(prediction.change == 0 for prediction in outlook(situation, {}).predicted.values())


def test_settings_are_applied_together(lab: Lab) -> None:
    situation = situation_of(lab("few-sequences").a)
    both = glance(situation, {"max_num_seqs": 16, "token_budget": 512})
    assert both["output_throughput"] < glance(situation, {"token_budget": 512})["output_throughput"]


def test_the_best_knob_of_the_held_run_is_the_one_that_was_turned(lab: Lab) -> None:
    pair = lab("few-sequences")
    document = recommend(pair.b, VLLM, pair.a)
    first = document.recommendations[0]
    assert (first.knob, first.flag, first.current) == ("max_num_seqs", "--max-num-seqs", "16")
    assert int(first.to or 0) > 16
    assert first.predicted["output_throughput"].change > 1.0
    assert document.verdict.startswith("--max-num-seqs")
    assert {limit.name for limit in document.limits} >= {"output tokens/s at the usual batch"}


def test_what_gets_worse_is_part_of_the_price_and_room_without_a_flag_names_those_that_make_it(lab: Lab) -> None:
    rows = recommend(lab("small-kv").b, VLLM).recommendations
    room = next(row for row in rows if row.knob == "kv_tokens")
    assert re.fullmatch(
        r"a KV cache of \d+ tokens \(--num-gpu-blocks-override or --gpu-memory-utilization\)", room.flag
    )
    assert re.match(r"worse: mean_tpot \+\d+%; ", room.price)
    assert room.predicted["mean_tpot"].interval[0] > 0


def test_nothing_to_gain_is_an_answer(lab: Lab) -> None:
    document = recommend(lab("null").a, VLLM)
    assert all(r.predicted["output_throughput"].change >= 0.02 for r in document.recommendations)
    assert document.recommendations or document.verdict.startswith("Nothing to gain")


def test_an_slo_rules_out_what_breaks_it(lab: Lab) -> None:
    held = lab("few-sequences").b
    bound = metrics_of(held.benches[-1])["mean_tpot"] * 1.01
    for row in recommend(held, VLLM, slo={"tpot": bound}).recommendations:
        predicted = row.predicted["mean_tpot"].change
        assert metrics_of(held.benches[-1])["mean_tpot"] * (1 + predicted) <= bound * 1.05


def test_an_impossible_goal_is_called_so(lab: Lab) -> None:
    run = lab("few-sequences").b
    document = recommend(run, VLLM, slo={"tpot": 1e-6})
    floor = next(limit for limit in document.limits if limit.floor)
    assert document.verdict.startswith("Impossible: a TPOT within 0.001 ms")
    assert not document.recommendations
    assert not recommend(run, VLLM, slo={"tpot": 2 * floor.value}).verdict.startswith("Impossible")


def test_another_run_shows_what_the_cache_would_save(lab: Lab) -> None:
    pair = lab("prefix-cache-off")
    with pytest.raises(NotPredictable, match="share a prefix"):
        outlook(situation_of(pair.b), {"prefix_cache": True})
    found = outlook(situation_of(pair.b, pair.a), {"prefix_cache": True})
    assert found.predicted["output_throughput"].change > 0.3


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"no_such_knob": 1}, "can't be predicted"), ({"max_num_seqs": 0}, "whole number"),
        ({"cuda_graph": 3}, "on or off"), ({"kv_dtype": "fp4"}, "16 to 8 bits"),
    ],
)  # fmt: skip
def test_what_can_not_be_predicted_says_why(settings: dict[str, int | str], reason: str, lab: Lab) -> None:
    with pytest.raises(NotPredictable, match=reason):
        outlook(situation_of(lab("few-sequences").a), settings)


def stated(run: Run, **settings: object) -> Run:
    return replace(run, facts={**run.facts, **{f"setting.{k}": Fact(v, "test") for k, v in settings.items()}})


@pytest.mark.parametrize(
    ("case", "knob", "one", "two"),
    [("slow-attention", "attention_backend", "ONE", "TWO"), ("tp-slow-comm", "tensor_parallel", 8, 4)],
)
@pytest.mark.parametrize("back", [False, True])
def test_another_run_shows_what_its_backend_or_layout_takes(
    case: str, knob: str, one: str | int, two: str | int, back: bool, lab: Lab
) -> None:
    pair = lab(case)
    a, b = stated(pair.a, **{knob: one}), stated(pair.b, **{knob: two})
    before, after, value = (b, a, one) if back else (a, b, two)
    found = outlook(situation_of(before, after), {knob: value})
    for metric in ("output_throughput", "mean_tpot"):
        true, guess = change(before, after, metric), found.predicted[metric]
        assert guess.change * true > 0 and guess.interval[0] <= true <= guess.interval[1], (metric, true, guess)


def test_another_run_has_to_be_like_this_one(lab: Lab) -> None:
    pair = lab("slow-attention")
    a, b = stated(pair.a, attention_backend="ONE"), stated(pair.b, attention_backend="TWO")
    for other, value, reason in (
        (None, "TWO", "--against"), (b, "THREE", "is TWO, not THREE"), (pair.b, "TWO", "not known"),
        (stated(b, kv_dtype="fp8"), "TWO", "kv_dtype too"),
    ):  # fmt: skip
        with pytest.raises(NotPredictable, match=reason):
            outlook(situation_of(stated(a, kv_dtype="auto"), other), {"attention_backend": value})
    for knob in ("data_parallel", "pipeline_parallel"):
        with pytest.raises(NotPredictable, match="a replay has one"):
            outlook(situation_of(a, b), {knob: 2})


def test_longer_chunks_save_at_most_the_time_between_steps(lab: Lab) -> None:
    situation = situation_of(lab("slow-scheduler").b)
    eight, two = (outlook(situation, {"stream_interval": n}).predicted["output_throughput"] for n in (8, 2))
    assert 0 < two.change < eight.change and two.interval[0] <= 0 <= eight.interval[1]
    hidden = outlook(situation, {"overlap": True}).predicted["output_throughput"]
    assert eight.change < hidden.change


def test_a_whatif_document_spells_the_flag(lab: Lab) -> None:
    document = whatif(lab("few-sequences").a, VLLM, {"max_num_seqs": 16, "cuda_graph": False})
    assert document.typed == {"max_num_seqs": "--max-num-seqs 16", "cuda_graph": "--enforce-eager"}
    assert document.settings == {"max_num_seqs": "16", "cuda_graph": "off"}


@pytest.mark.parametrize(
    ("engine", "knob", "value", "typed"),
    [
        (VLLM, "cuda_graph", True, "--no-enforce-eager"), (VLLM, "prefix_cache", False, "--no-enable-prefix-caching"),
        (VLLM, "overlap", True, "--async-scheduling"), (VLLM, "kv_tokens", 4096, "kv_cache_size_tokens: 4096 (in the configuration file)"),
        (SGLANG, "cuda_graph", False, "--disable-cuda-graph"), (SGLANG, "cuda_graph", True, "without --disable-cuda-graph"),
        (SGLANG, "chunked_prefill", False, "--chunked-prefill-size -1"), (SGLANG, "max_num_seqs", 64, "--max-running-requests 64"),
        (SGLANG, "mixed_prefill", True, "--enable-mixed-chunk"),
    ],
)  # fmt: skip
def test_knobs_as_the_engine_spells_them(engine: Engine, knob: str, value: int | bool, typed: str) -> None:
    assert next(k for k in engine.knobs if k.name == knob).spelled(value) == typed


def test_what_the_replay_misses_is_said_beside_its_prediction() -> None:
    document = recommend(open_run(ROOT / "examples/runs/simulated-gpu/run-B"), VLLM)
    missed = [
        (name, knob.why)
        for knob in document.recommendations
        for name, prediction in knob.predicted.items()
        if abs(document.error[name]) > max(CLOSE, abs(prediction.change))
    ]
    assert missed and all(f"in {name}, more than what is predicted of it" in why for name, why in missed)


def test_a_price_of_one_side_is_not_that_of_the_other() -> None:
    graphs = next(knob for knob in VLLM.knobs if knob.name == "cuda_graph")
    assert (graphs.price(False), graphs.price(True)) == ("takes the compiler away too", "")
    assert next(knob for knob in VLLM.knobs if knob.name == "micro_batches").price(2) == "hides collectives"


def test_every_effect_belongs_to_a_knob_of_an_engine() -> None:
    known = {knob.name for engine in ENGINES for knob in engine.knobs}
    assert set(EFFECTS) <= known


def test_symptoms_need_their_evidence(lab: Lab) -> None:
    held = situation_of(lab("few-sequences").b).measured
    assert "requests wait while steps are at the sequence limit" in {s.name for s in symptoms_of(held)}
    small = situation_of(lab("small-kv").b).measured
    assert "sequences are preempted" in {s.name for s in symptoms_of(small)}
    eager = situation_of(lab("graphs-off-small-model").b).measured
    assert "steps run eagerly and wait for launches" in {s.name for s in symptoms_of(eager)}
    calm = {s.name for s in symptoms_of(situation_of(lab("null").a).measured)}
    assert not calm & {"sequences are preempted", "steps run eagerly and wait for launches"}


def test_a_burst_in_one_sample_is_no_queue(lab: Lab) -> None:
    measured = situation_of(lab("few-sequences").b).measured
    first, *rest = measured.run.snapshots
    burst = [replace(one, values={**one.values, "waiting_requests": 0.0}) for one in rest]
    held = "requests wait while steps are at the sequence limit"
    steps = replace(measured.steps, table=None) if measured.steps is not None else None
    for snapshots, counters, seen in (
        ((first, *rest), measured.counters, True),
        ((first, *burst), measured.counters, False),
        ((first, *rest), {**measured.counters, "queue_seconds_count": 100.0, "queue_seconds_sum": 1e-3}, False),
    ):
        run = replace(measured.run, snapshots=snapshots)
        one = replace(measured, run=run, counters=counters, steps=steps)
        assert (held in {symptom.name for symptom in symptoms_of(one)}) == seen


def test_rare_preemptions_are_no_symptom(lab: Lab) -> None:
    """One a minute is no harm, says the guide of SGLang; vLLM's speaks of frequent ones."""
    small = situation_of(lab("small-kv").b).measured
    for count, shown in ((1.0, False), (max(small.duration / 60.0, 1.0) + 1.0, True)):
        names = {one.name for one in symptoms_of(replace(small, counters={"preemptions": count}))}
        assert ("sequences are preempted" in names) == shown


def test_requests_that_only_caution_holds_back_name_what_admits_them(lab: Lab) -> None:
    calm = situation_of(lab("null").a).measured
    queued = [replace(one, values={**one.values, "waiting_requests": 3.0}) for one in calm.run.snapshots]
    waiting = replace(
        calm,
        run=replace(calm.run, snapshots=tuple(queued)),
        counters={},
        gauges={"waiting_requests_max": 3.0, "kv_usage_max": 0.5},
        settings={"max_num_seqs": 10_000.0},
    )
    found = next(one for one in symptoms_of(waiting) if one.name.startswith("requests wait although"))
    assert found.knobs == ("admission_caution", "token_budget")
    known = {engine.name: {knob.name for knob in engine.knobs} for engine in ENGINES}
    named = {name: next(one for one in found.knobs if one in known[name]) for name in ("vllm", "sglang", "trtllm")}
    assert named == {"vllm": "token_budget", "sglang": "admission_caution", "trtllm": "admission_caution"}


def test_what_an_engine_does_by_default_is_played_where_no_setting_says_otherwise(lab: Lab) -> None:
    run = lab("null").a
    kept = {
        key: fact
        for key, fact in run.facts.items()
        if key.rpartition(".")[2] not in ("chunked_prefill", "token_budget")
    }
    fact = run.facts["setting.token_budget"]
    defaults = {"default.chunked_prefill": replace(fact, value=False), "default.token_budget": replace(fact, value=777)}
    rules = situation_of(replace(run, facts=kept | defaults)).player.rules
    assert not rules.chunked and rules.budget == 777
    stated = kept | defaults | {"setting.token_budget": fact}
    assert situation_of(replace(run, facts=stated)).player.rules.budget == fact.value


def test_a_whatif_is_as_confident_as_the_recommendation(lab: Lab) -> None:
    run = lab("few-sequences").b
    row = next(one for one in recommend(run, VLLM).recommendations if one.knob == "max_num_seqs")
    document = whatif(run, VLLM, {"max_num_seqs": int(row.to or 0)})
    assert document.confidence.keys() == document.predicted.keys()
    found = document.confidence["output_throughput"]
    assert (found.word, found.reason) == (row.confidence, row.confidence_reason)


def test_no_run_of_the_lab_beats_its_limits(lab: Lab) -> None:
    for case in ("few-sequences", "small-kv", "slow-gemm"):
        for run in (lab(case).a, lab(case).b):
            for limit in limits_of(situation_of(run).measured):
                assert limit.value > 0
                if limit.floor:
                    assert limit.now is None or limit.now >= limit.value
                    continue
                # Steps with prompt tokens hold more sequences than the usual pure decode step.
                assert limit.now is None or limit.now <= 1.1 * limit.value or "sequences" in limit.name


def test_a_run_without_steps_says_so(tmp_path: Path, lab: Lab) -> None:
    bare = lab("few-sequences").a.__class__(**{**lab("few-sequences").a.__dict__, "logs": (), "traces": ()})
    with pytest.raises(NotPredictable, match="no steps"):
        situation_of(bare)
    assert run_root(tmp_path) == tmp_path
