"""Same model, same numerics."""

from __future__ import annotations

from typing import Final

import numpy as np

from profiler.analyzers.baseline import RECOMPUTED
from profiler.analyzers.fairness.needs import benches
from profiler.analyzers.fairness.rule import (
    Finding,
    Rule,
    Severity,
    compared,
    failed,
    pair,
    passed,
    sources,
    stated,
    unknown,
)
from profiler.analyzers.fairness.side import Side

# A difference in work below this part of the gap can't have made it.
SMALL_AGAINST_GAP: Final = 0.25
MEAN_DIFFERENCE: Final = 0.005
WORST_DIFFERENCE: Final = 0.02
SHAPE: Final = ("model.num_layers", "model.hidden_size", "model.vocab_size", "model.num_experts")


def _same_model(a: Side, b: Side) -> Finding:
    """As far as names and hashes in the run show."""
    for key in ("model.sha256", "model.name"):
        one, two = a.fact(key), b.fact(key)
        if one and two:
            if str(one) == str(two):
                return passed(f"{key} is the same", stated("same model", a, b, key))
            detail = f"{key} differs: this compares models, not engines"
            return failed(detail, stated("same model", a, b, key), fix="measure one checkpoint on both sides")
    return unknown("not both runs state their model", fix="say model.name and model.sha256 in run.json")


def _one_definition(a: Side, b: Side) -> Finding:
    """One measuring tool, or records that one definition was computed from."""
    loads = benches(a, b)
    if isinstance(loads, Finding):
        return loads
    one, two = loads
    tools = pair("tool", (one.tool, two.tool))
    if one.tool == two.tool:
        return passed(f"both measured by {one.tool}", tools)
    clocks = [load.metadata.get("clock", "client") for load in loads]
    if clocks[0] != clocks[1]:
        detail = (
            f"times of the {clocks[0]} against times of the {clocks[1]}: no TTFT or E2E of one is that of the other"
        )
        return failed(detail, tools, fix="measure both with one tool")
    if all(load.requests is not None or RECOMPUTED in load.metadata for load in loads):
        return passed("all metrics recomputed from both tools' records", tools)
    return failed(
        "two tools, and only summaries: their definitions differ",
        tools,
        fix="measure both with one tool, or save per-request records",
    )


def _quantisation(side: Side) -> str | None:
    stated_value = side.fact("setting.quantization", "model.quantization")
    if stated_value is not None:
        return str(stated_value)
    return "none asked for" if side.told_by_command else None


def _same_precision(a: Side, b: Side) -> Finding:
    one, two = _quantisation(a), _quantisation(b)
    keys = ("setting.quantization", "model.quantization")
    shown = pair("quantisation", (one, two), source=sources(a, b, *keys, "engine.command"))
    if one is None or two is None:
        return unknown(
            "not both runs state how the weights are quantised",
            shown,
            fix="keep the server's command, or say model.quantization in run.json",
        )
    if one != two:
        return failed(
            f"weights differ in precision: {one} against {two}; part of any gap is precision",
            shown,
            fix="serve the same quantisation, or compare the quality of the answers too",
        )
    return passed(f"equal: {one}", shown)


def _kv_dtype(side: Side) -> str | None:
    value = side.fact("setting.kv_dtype")
    if value is None:
        return None
    return side.dtype or "auto" if value == "auto" else str(value)


def _same_kv_dtype(a: Side, b: Side) -> Finding:
    one, two = _kv_dtype(a), _kv_dtype(b)
    shown = pair("KV-cache type", (one, two), source=sources(a, b, "setting.kv_dtype"))
    if one is None or two is None:
        return unknown(
            "not both runs state the type of their KV cache", shown, fix="keep the server's log or its /server_info"
        )
    if one != two:
        return failed(
            f"KV cache {one} against {two}: the same memory holds another number of tokens",
            shown,
            fix="set one KV-cache type",
        )
    return passed(f"equal: {one}", shown)


def _same_compute_dtype(a: Side, b: Side) -> Finding:
    shown = pair("type", (a.dtype, b.dtype), source=sources(a, b, "setting.dtype", "model.dtype"))
    if a.dtype is None or b.dtype is None or "auto" in (a.dtype, b.dtype):
        return unknown(
            "not both runs state the type they compute in",
            shown,
            fix="keep the server's log, or say model.dtype in run.json",
        )
    if a.dtype != b.dtype:
        return failed(f"computed in {a.dtype} and {b.dtype}", shown, fix="set one type on both sides")
    return passed(f"equal: {a.dtype}", shown)


def _same_model_code(a: Side, b: Side) -> Finding:
    """No override that changes what the model computes; shapes that are stated agree."""
    key = "setting.model_override"
    overrides = [None if side.fact(key) in (None, {}, "{}") else str(side.fact(key)) for side in (a, b)]
    if overrides[0] != overrides[1]:
        return failed(
            "the model's own configuration is overridden, and not alike",
            stated("override", a, b, key),
            fix="serve the model as it is, or override it on both sides",
        )
    shapes = compared(
        a,
        b,
        SHAPE,
        equal="stated shapes are the same",
        other="the models' shapes differ",
        fix="serve one model",
        need="",
    )
    if shapes.status == "fail":
        return shapes
    if not (a.told_by_command and b.told_by_command):
        return unknown(
            "not both servers' commands are known, and an override stands only there",
            fix="keep the command in run.json or a text file",
        )
    return passed("no override of the model that only one side has", *shapes.evidence)


def _severity_of_work(difference: float, a: Side, b: Side) -> Severity:
    """``warn`` where a relative difference in work is too small against the gap to have made it."""
    if a.bench is None or b.bench is None or not a.bench.total_output_tokens or not b.bench.total_output_tokens:
        return "block"
    rates = [side.total_output_tokens / side.duration for side in (a.bench, b.bench)]
    return "warn" if difference < SMALL_AGAINST_GAP * abs(float(np.log(rates[1] / rates[0]))) else "block"


def _same_prompt_tokens(a: Side, b: Side) -> Finding:
    """The engines saw prompts of the same length."""
    fix = "send token ids, or check BOS, chat template and re-tokenisation"
    loads = benches(a, b)
    if isinstance(loads, Finding):
        return loads
    totals = loads[0].total_input_tokens, loads[1].total_input_tokens
    shown = pair("prompt tokens", (totals[0], totals[1]), "tokens")
    if not all(totals):
        return unknown("prompt tokens were not counted on both sides", shown, fix="use a client that keeps usage")
    one, two = loads[0].requests, loads[1].requests
    difference = abs(totals[1] / totals[0] - 1)
    worst = 0.0
    if one is not None and two is not None and len(one) == len(two) and (one.input_tokens > 0).all():
        worst = float(np.max(np.abs(two.input_tokens / one.input_tokens - 1)))
    if difference > MEAN_DIFFERENCE or worst > WORST_DIFFERENCE:
        severity = _severity_of_work(difference, a, b)
        single = f" (one request at most {worst:.1%})" if worst else ""
        detail = f"the engines counted {difference:.1%} different prompt tokens{single}"
        if severity == "warn":
            detail += "; too little against the gap to have made it"
        return failed(detail, shown, fix=fix, severity=severity)
    return passed("equal prompt tokens", shown)


def _same_sampling(a: Side, b: Side) -> Finding:
    keys = ("workload.temperature", "workload.top_p", "workload.top_k")
    said = [key for key in keys if a.fact(key) is not None or b.fact(key) is not None]
    need = "keep the client's command (with --temperature), or say workload.temperature in run.json"
    if not said:
        return unknown("no run states how it sampled; what is not sent is the server's default", fix=need)
    for key in said:
        if (a.fact(key) is None) != (b.fact(key) is None):
            name = key.removeprefix("workload.")
            return unknown(f"{name} is stated by one run only", stated(name, a, b, key), fix=need)
        if str(a.fact(key)) != str(b.fact(key)):
            name = key.removeprefix("workload.")
            return failed(
                f"{name} differs: {a.fact(key)} against {b.fact(key)}",
                stated(name, a, b, key),
                fix="send one set of sampling parameters",
            )
    return passed("the stated sampling parameters are the same", *(stated(key, a, b, key) for key in said))


RULES: Final = (
    Rule("F-01", "same_model", "block", _same_model),
    Rule("F-02", "one_definition", "block", _one_definition),
    Rule("F-03", "same_precision", "block", _same_precision),
    Rule("F-04", "same_kv_dtype", "warn", _same_kv_dtype),
    Rule("F-05", "same_compute_dtype", "warn", _same_compute_dtype),
    Rule("F-06", "same_model_code", "block", _same_model_code),
    Rule("F-07", "same_prompt_tokens", "block", _same_prompt_tokens),
    Rule("F-08", "same_sampling", "block", _same_sampling),
)
