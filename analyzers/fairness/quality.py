"""Quality of the answers, scope of the claim, and what can be repeated."""

from __future__ import annotations

from typing import Final

import numpy as np

from profiler.analyzers.fairness.rule import (
    Finding,
    Rule,
    failed,
    inapplicable,
    pair,
    passed,
    sources,
    stated,
    unknown,
)
from profiler.analyzers.fairness.side import Side
from profiler.analyzers.gap import spread
from profiler.model.requests import Outputs, RequestTable

DEGENERATE: Final = 0.05
AGREEMENT: Final = 0.10
SCOPE: Final = {
    "model": ("model.name",),
    "precision": ("model.dtype", "setting.dtype", "model.quantization", "setting.quantization"),
    "hardware": ("hardware.gpu", "hardware.cpu"),
    "engine's version": ("engine.version",),
    "lengths": ("workload.input_tokens", "workload.dataset"),
}
TO_REPEAT: Final = {
    "the server's command": ("engine.command",),
    "engine's version": ("engine.version",),
    "weights' hash": ("model.sha256",),
    "the client's command": ("workload.client_command",),
    "seed": ("workload.seed",),
    "hardware": ("hardware.gpu", "hardware.cpu"),
}


def _defects(table: RequestTable, outputs: Outputs) -> dict[str, float]:
    """Shares of answers that are empty, loop, or are all the same."""
    ok = table.ok
    if not ok.any():
        return {}
    _, times = np.unique(outputs.digest[ok], return_counts=True)
    alone = len(times) == 1 and int(ok.sum()) > 1
    return {
        "empty": float(np.mean(outputs.characters[ok] == 0)),
        "one piece repeated": float(np.mean(outputs.looping[ok])),
        "all the same": float(alone),
    }


def _chance(one: float, two: float, n_one: int, n_two: int) -> float:
    """How far two shares of that many answers may differ by chance (95%)."""
    both = (one * n_one + two * n_two) / (n_one + n_two)
    return spread.NORMAL_95 * float(np.sqrt(both * (1 - both) * (1 / n_one + 1 / n_two)))


def _agreement(one: Outputs, two: Outputs) -> float | None:
    """The share of equal answers, of those that say anything on either side; None where there is none to compare."""
    if len(one.digest) != len(two.digest):
        return None
    spoken = (one.characters > 0) | (two.characters > 0)
    return float(np.mean(one.digest[spoken] == two.digest[spoken])) if spoken.any() else None


def _silent(table: RequestTable) -> bool:
    """Whether every answer that was kept is empty: a file that has the field and not the text, or a broken server."""
    return table.outputs is not None and bool(table.ok.any()) and not table.outputs.characters[table.ok].any()


def _floor(side: Side, outputs: Outputs) -> float | None:
    """How far repeats of one side agree with each other."""
    others = [
        bench.requests.outputs for bench in side.repeats if bench is not side.bench and bench.requests is not None
    ]
    shares = [share for other in others if other is not None and (share := _agreement(outputs, other)) is not None]
    return float(np.mean(shares)) if shares else None


def _output_quality(a: Side, b: Side) -> Finding:
    """Faster but worse: answers that are degenerate on one side, or agree less than repeats of one side do."""
    need = "save the answers (--save-detailed, --output-details), and repeat both runs"
    records = [side.requests for side in (a, b)]
    outputs = [None if table is None else table.outputs for table in records]
    if records[0] is None or records[1] is None or outputs[0] is None or outputs[1] is None:
        return unknown("the answers were not kept on both sides: whether one is worse is not known", fix=need)
    defects = _defects(records[0], outputs[0]), _defects(records[1], outputs[1])
    agree = _agreement(outputs[0], outputs[1])
    floors = _floor(a, outputs[0]), _floor(b, outputs[1])
    lengths = [float(np.mean(one.characters)) if len(one.characters) else 0.0 for one in outputs if one is not None]
    shown = [pair(f"answers: {kind}", (defects[0].get(kind), defects[1].get(kind)), "fraction") for kind in defects[0]]
    shown += [
        pair("characters an answer", (lengths[0], lengths[1]), "characters"),
        pair("agree with the other run", (agree, agree), "fraction"),
        pair("agree between repeats", (floors[0], floors[1]), "fraction"),
    ]
    for kind, share in defects[0].items():
        other = defects[1].get(kind, 0.0)
        if abs(share - other) > max(DEGENERATE, _chance(share, other, len(records[0]), len(records[1]))):
            worse = a if share > other else b
            return failed(
                f"faster but worse? {max(share, other):.0%} of {worse.run.name}'s answers are {kind}, "
                f"{min(share, other):.0%} on the other side",
                *shown,
                fix="look at the answers; check template, precision and sampling",
            )
    if _silent(records[0]) and _silent(records[1]):
        return unknown(
            "every answer that was kept is empty on both sides: there is nothing to compare", shown[0], fix=need
        )
    known = [floor for floor in floors if floor is not None]
    if agree is None or not known:
        said = "" if agree is None else f" ({agree:.0%} of the answers agree word for word)"
        return unknown(
            f"no answers are degenerate on one side only{said}; how far repeats of one side agree is not "
            "known, so nothing more can be said",
            *shown,
            fix=need,
        )
    if agree < min(known) - AGREEMENT:
        return failed(
            f"{agree:.0%} of the answers agree between the runs, {min(known):.0%} between repeats of one side",
            *shown,
            fix="score both sides on a task",
            severity="warn",
        )
    return passed("answers agree between the runs as far as repeats of one side do", *shown)


def _quality_of_this_config(a: Side, b: Side) -> Finding:
    kept = all(side.requests is not None and side.requests.outputs is not None for side in (a, b))
    silent = [side.run.name for side in (a, b) if side.requests is not None and _silent(side.requests)]
    if kept and silent:
        return unknown(
            f"every answer that was kept of {' and '.join(silent)} is empty: no answers of the measured load",
            fix="save the answers of the load",
        )
    if kept:
        return passed("the answers that were compared are those of the measured load")
    key = "engine.quality_config"
    if a.fact(key) is None or b.fact(key) is None:
        return unknown(
            "no answers of the measured load, and no score of this configuration", fix="save the answers of the load"
        )
    return inapplicable("scores from elsewhere are not read")


def _energy(a: Side, b: Side) -> Finding:
    return inapplicable("no energy or cost is claimed")


def _scope(a: Side, b: Side) -> Finding:
    return _complete(
        a,
        b,
        SCOPE,
        "what the claim is valid for is not all stated",
        "the claim's scope is stated",
        "say it in run.json: a number is valid for one model, precision, machine and load",
    )


def _repeatable(a: Side, b: Side) -> Finding:
    return _complete(
        a,
        b,
        TO_REPEAT,
        "not enough is kept to repeat the runs",
        "the runs can be repeated",
        "keep both commands, versions and hashes in the run's folder",
    )


def _complete(a: Side, b: Side, wanted: dict[str, tuple[str, ...]], lacking: str, whole: str, fix: str) -> Finding:
    missing = [[name for name, keys in wanted.items() if side.fact(*keys) is None] for side in (a, b)]
    shown = pair(
        "missing", (", ".join(missing[0]) or "nothing", ", ".join(missing[1]) or "nothing"), source="all files"
    )
    either = list(dict.fromkeys([*missing[0], *missing[1]]))
    if either:
        return failed(f"{lacking}: {', '.join(either)}", shown, fix=fix)
    return passed(whole, shown)


def _no_tricks(a: Side, b: Side) -> Finding:
    key = "setting.load_format"
    shown = stated("load format", a, b, key)
    dummy = [side.run.name for side in (a, b) if str(side.fact(key)) == "dummy"]
    if dummy:
        return failed(
            f"{' and '.join(dummy)} served random weights: this times kernels, not a model",
            shown,
            fix="load the checkpoint",
        )
    if not all(side.told_by_command or side.fact(key) is not None for side in (a, b)):
        return unknown("not both servers' commands are known", shown, fix="keep the command")
    return passed(
        "both loaded a checkpoint",
        pair(
            "load format",
            [str(s.fact(key) or "by default") for s in (a, b)],
            source=sources(a, b, key, "engine.command"),
        ),
    )


RULES: Final = (
    Rule("F-55", "output_quality", "block", _output_quality),
    Rule("F-56", "quality_of_this_config", "block", _quality_of_this_config),
    Rule("F-57", "energy", "warn", _energy),
    Rule("F-58", "scope", "info", _scope),
    Rule("F-59", "repeatable", "warn", _repeatable),
    Rule("F-60", "no_tricks", "block", _no_tricks),
)
