"""The first rules of a fair comparison; the names of the checklist they come from stand beside them.

A blocking rule withholds the verdict. Where a difference in work is small against the gap and could not have turned
it, it is a warning instead: a run that did 4% less work and is still half as fast has not won by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import numpy as np

from profiler.analyzers.gap.measured import Measured
from profiler.model.diagnosis import Evidence, FairnessRule

Status = Literal["pass", "fail", "unknown", "not applicable"]
Severity = Literal["block", "warn", "info"]

# A difference in work below this part of the gap can't have made it.
SMALL_AGAINST_GAP: Final = 0.25


def check(a: Measured, b: Measured) -> tuple[FairnessRule, ...]:
    """Every rule over one pair of measured loads."""
    return tuple(rule(a, b) for rule in RULES)


def _rule(
    name: str,
    status: Status,
    severity: Severity,
    detail: str,
    pair: tuple[float | str | None, float | str | None] | None = None,
    unit: str = "",
    source: str = "benchmark results",
    fix: str = "",
) -> FairnessRule:
    evidence: tuple[Evidence, ...] = ()
    if pair is not None:
        evidence = (Evidence(name=name.replace("_", " "), a=pair[0], b=pair[1], unit=unit, source=source),)
    return FairnessRule(rule=name, status=status, severity=severity, detail=detail, evidence=evidence, fix=fix)


def _severity_of_work(difference: float, a: Measured, b: Measured) -> Severity:
    gap = abs(np.log((b.tokens / b.duration) / (a.tokens / a.duration))) if a.tokens and b.tokens else 0.0
    return "warn" if difference < SMALL_AGAINST_GAP * gap else "block"


def _same_requests(a: Measured, b: Measured) -> FairnessRule:
    """F-09, as far as lengths show: the same number of requests, with the same output lengths in the same order."""
    one, two = a.bench.requests, b.bench.requests
    pair = (a.bench.completed + a.bench.failed, b.bench.completed + b.bench.failed)
    if one is None or two is None:
        if pair[0] != pair[1]:
            return _rule("same_requests", "fail", "block", "the runs sent different numbers of requests", pair, "count",
                         fix="send the same request set to both, by one seed")  # fmt: skip
        return _rule("same_requests", "unknown", "block", "no per-request records: the request sets can't be compared",
                     pair, "count", fix="save detailed results (--save-detailed, --output-details)")  # fmt: skip
    if len(one) != len(two):
        return _rule("same_requests", "fail", "block", "the runs sent different numbers of requests", pair, "count",
                     fix="send the same request set to both, by one seed")  # fmt: skip
    different = int((one.output_tokens != two.output_tokens).sum())
    if different > 0.02 * len(one):
        return _rule("same_requests", "fail", "warn", f"{different} of {len(one)} requests differ in output length",
                     pair, "count", fix="fix output lengths (ignore_eos), one seed")  # fmt: skip
    return _rule("same_requests", "pass", "block", "as many requests, with the same output lengths in the same order",
                 pair, "count")  # fmt: skip


def _same_prompt_tokens(a: Measured, b: Measured) -> FairnessRule:
    """F-07: the engines saw prompts of the same length."""
    one, two = a.bench.requests, b.bench.requests
    pair = (a.bench.total_input_tokens, b.bench.total_input_tokens)
    if not pair[0] or not pair[1]:
        return _rule("same_prompt_tokens", "unknown", "block", "prompt tokens were not counted", pair, "tokens")
    difference = abs(pair[1] / pair[0] - 1)
    worst = 0.0
    if one is not None and two is not None and len(one) == len(two) and (one.input_tokens > 0).all():
        worst = float(np.max(np.abs(two.input_tokens / one.input_tokens - 1)))
    if difference > 0.005 or worst > 0.02:
        severity = _severity_of_work(difference, a, b)
        detail = f"the engines counted {difference:.1%} different prompt tokens (one request at most {worst:.1%})"
        if severity == "warn":
            detail += "; too little against the gap to have made it"
        return _rule("same_prompt_tokens", "fail", severity, detail, pair, "tokens",
                     fix="send token ids, or check BOS, chat template and re-tokenisation")  # fmt: skip
    return _rule("same_prompt_tokens", "pass", "block", "equal prompt tokens", pair, "tokens")


def _same_output_tokens(a: Measured, b: Measured) -> FairnessRule:
    """F-10: the runs produced as many tokens, within 2%."""
    pair = (a.tokens, b.tokens)
    difference = abs(b.tokens / a.tokens - 1) if a.tokens else 1.0
    if difference > 0.02:
        return _rule("same_output_tokens", "fail", "block", f"output tokens differ by {difference:.1%}", pair, "tokens",
                     fix="fix output lengths: ignore_eos and one max_tokens")  # fmt: skip
    return _rule("same_output_tokens", "pass", "block", "equal output tokens, within 2%", pair, "tokens")


def _same_load(a: Measured, b: Measured) -> FairnessRule:
    """F-13, F-14: one arrival process."""

    def shape(m: Measured) -> str | None:
        rate, cap = m.bench.request_rate, m.bench.max_concurrency
        if rate is None and cap is None:
            return None
        offered = "all at once" if rate is None or rate == float("inf") else f"{rate:g} requests/s"
        return f"{offered}, at most {cap} in flight" if cap is not None else offered

    pair = (shape(a), shape(b))
    if pair[0] is None or pair[1] is None:
        return _rule("same_load", "unknown", "block", "the arrival process of a run is not stated", pair)
    if pair[0] != pair[1]:
        return _rule("same_load", "fail", "block", f"the load differs: {pair[0]} against {pair[1]}", pair,
                     fix="use one request rate and one concurrency for both")  # fmt: skip
    return _rule("same_load", "pass", "block", f"one load: {pair[0]}", pair)


def _no_failures(a: Measured, b: Measured) -> FairnessRule:
    """F-40: errors count, and must not differ."""
    pair = (a.bench.failed, b.bench.failed)
    shares = [m.bench.failed / max(m.bench.failed + m.bench.completed, 1) for m in (a, b)]
    if max(shares) > 0.001:
        detail = f"{shares[0]:.1%} and {shares[1]:.1%} of the requests failed; dropped requests make a run look faster"
        return _rule("no_failures", "fail", "block", detail, pair, "count", fix="find out why requests failed, repeat")
    return _rule("no_failures", "pass", "block", "no request failed", pair, "count")


def _same_model(a: Measured, b: Measured) -> FairnessRule:
    """F-01, as far as names and hashes in the run show."""
    for key in ("model.sha256", "model.name"):
        pair = (_text(a, key), _text(b, key))
        if pair[0] and pair[1]:
            same = pair[0] == pair[1]
            detail = f"{key} is the same" if same else f"{key} differs: this compares models, not engines"
            return _rule("same_model", "pass" if same else "fail", "block", detail, pair, source=key)
    return _rule("same_model", "unknown", "block", "no run states its model", (None, None), fix="say it in run.json")


def _same_hardware(a: Measured, b: Measured) -> FairnessRule:
    """F-17: one kind and number of devices."""
    keys = ("hardware.gpu", "hardware.count", "hardware.cpu", "hardware.cores")
    pairs = {key: (_text(a, key), _text(b, key)) for key in keys}
    known = {key: pair for key, pair in pairs.items() if pair[0] is not None and pair[1] is not None}
    different = [key for key, pair in known.items() if pair[0] != pair[1]]
    if different:
        pair = known[different[0]]
        return _rule("same_hardware", "fail", "block", f"{different[0]} differs: {pair[0]} against {pair[1]}", pair,
                     source=different[0], fix="measure on one machine")  # fmt: skip
    if not known:
        return _rule("same_hardware", "unknown", "block", "a run does not state its hardware", fix="say it in run.json")
    key, pair = next(iter(known.items()))
    return _rule("same_hardware", "pass", "block", "the stated hardware is the same", pair, source=key)


def _one_tool(a: Measured, b: Measured) -> FairnessRule:
    """F-02: one measuring tool, or records that one definition was computed from."""
    pair = (a.bench.tool, b.bench.tool)
    if pair[0] == pair[1]:
        return _rule("one_definition", "pass", "block", f"both measured by {pair[0]}", pair)
    if a.bench.requests is not None and b.bench.requests is not None:
        return _rule("one_definition", "pass", "block", "all metrics recomputed from both tools' records", pair)
    return _rule("one_definition", "fail", "block", "two tools, and only summaries: their definitions differ", pair,
                 fix="measure both with one tool, or save per-request records")  # fmt: skip


def _enough_requests(a: Measured, b: Measured) -> FairnessRule:
    """F-27: a 99th percentile needs 299 requests to be bounded by the largest of them."""
    pair = (a.bench.completed, b.bench.completed)
    if min(pair) < 299:
        return _rule("enough_for_p99", "fail", "warn", f"{min(pair)} requests don't carry a 99th percentile (299 do)",
                     pair, "count", fix="send more requests")  # fmt: skip
    return _rule("enough_for_p99", "pass", "warn", "enough requests for a 99th percentile", pair, "count")


def _repeats(a: Measured, b: Measured) -> FairnessRule:
    """F-28: one start of each engine does not show how far starts differ."""
    return _rule("repeats", "fail", "warn", "one start of each run: the spread between starts is assumed, not measured",
                 (1, 1), "count", fix="repeat both runs, alternating, three times")  # fmt: skip


def _text(measured: Measured, key: str) -> str | None:
    value = measured.run.fact(key)
    return None if value is None else str(value)


RULES: Final[tuple[Callable[[Measured, Measured], FairnessRule], ...]] = (
    _same_requests,
    _same_prompt_tokens,
    _same_output_tokens,
    _same_load,
    _no_failures,
    _same_model,
    _same_hardware,
    _one_tool,
    _enough_requests,
    _repeats,
)
