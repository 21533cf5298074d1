"""The words of every report, in one place. What a file calls something is never translated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from profiler.analyzers.metrics import spoken
from profiler.model.diagnosis import CauseName, Gap, Recommendation, ShownDevice
from profiler.model.inspection import InspectedOperator, InspectedTrust
from profiler.model.recommendation import Confidence
from profiler.reports.language import named, said

NOT_KNOWN: Final = "not known"
NO_SHARE: Final = "–"
NO_EVIDENCE: Final = "not told apart: these runs hold no evidence for it"
NO_DIFFERENCE: Final = "no difference shown"
UNEXPLAINED: Final = "unexplained"
TOTAL: Final = "measured gap"
INTERVAL: Final = "95% interval"
EXTRAPOLATED: Final = "outside what the runs have seen"
SIMULATED: Final = "simulated: not measured on a real engine"
CUT_SHORT: Final = "_The rest is left out: a comment is limited in length. The HTML and JSON reports hold all of it._"

CAUSE: Final[dict[CauseName, str]] = {
    "kernel": "kernel",
    "communication": "communication",
    "cuda_graph": "CUDA Graph",
    "scheduling": "scheduling",
    "batching": "batching",
    "memory": "memory",
    "speculation": "speculation",
    "frontend": "frontend",
    "hardware": "hardware",
    "workload": "workload",
}

MEANING: Final[dict[CauseName, str]] = {
    "kernel": "the GPU needs longer for the same work",
    "communication": "collectives that compute does not hide",
    "cuda_graph": "steps run eagerly, padding, late replays",
    "scheduling": "the GPU waits between steps, decodes wait for prefills",
    "batching": "steps carry fewer sequences or tokens than they could",
    "memory": "too little room in the KV cache; work done again or not saved",
    "speculation": "speculative decoding, or another acceptance",
    "frontend": "time outside the engine: HTTP, tokenizer, client",
    "hardware": "clocks, power limits, another device",
    "workload": "the two runs did not do the same work",
}

STATUS: Final = {
    "winner": "difference shown",
    "no difference": NO_DIFFERENCE,
    "not comparable": "not comparable",
    "insufficient evidence": "insufficient evidence",
}

_SECONDS: Final = ("ttft", "tpot", "itl", "e2e", "latency", "duration", "delay", "seconds")


def metric(name: str) -> str:
    """A metric's name as it is read aloud: ``p99_ttft`` -> ``p99 TTFT``. One with a dot is another tool's own."""
    text = spoken(name)
    return text if "." in name else said(text)


def why(knob: Recommendation) -> str:
    """Why a knob is worth turning, with its metrics by their names."""
    return with_names(knob.why, knob.predicted)


def with_names(text: str, metrics: Iterable[str]) -> str:
    """A text with these metrics by their names."""
    return re.sub("|".join(map(re.escape, metrics)) or "(?!)", lambda found: metric(found[0]), text)


def title(name: str) -> str:
    """A metric's name at the start of a line."""
    text = metric(name)
    return text[:1].upper() + text[1:]


def metric_unit(name: str) -> str:
    """The unit of a run's metric, which the document states only for metrics that have a gap."""
    if name == "achieved_rate":
        return "requests/s"
    if "throughput" in name:
        return "requests/s" if "request" in name else "tokens/s"
    if name.startswith("goodput"):
        return "requests/s"
    return "s" if any(word in _SECONDS for word in name.split("_")) else ""


def outcome(gap: Gap, a: str, b: str) -> str:
    """What the gap's interval says, in three words."""
    if gap.winner is None:
        return said(NO_DIFFERENCE if gap.interval is not None else "no winner named")
    return said("{run} is better", run=a if gap.winner == "a" else b)


def more(hidden: int) -> str:
    """The line that stands for what a cap left out."""
    return said("and {hidden} more", hidden=f"{hidden:,}")


def rule(name: str) -> str:
    """A rule of fairness: its own name, behind a title where the language in force has one."""
    key = f"rule {name}"
    title = named(key)
    return name if title == key else said("{title} ({name})", title=title, name=name)


def in_trace(trace: str, rank: int | None) -> str:
    """A trace's file, with the rank that wrote it."""
    return trace if rank is None else said("{trace} (rank {rank})", trace=trace, rank=f"{rank:,}")


def shown(one: ShownDevice, run: str) -> str:
    """Which of several devices of a run is shown."""
    where = in_trace(one.trace, one.rank)
    return said(
        "{run}: the kernels of {device} in {trace}, one of {count} traced devices",
        run=run, device=one.device, trace=where, count=f"{one.of:,}",
    )  # fmt: skip


def launched_by(row: InspectedOperator) -> str:
    """What launched the work of a row, or that it is not known."""
    match row.kind:
        case "operator":
            return row.name
        case "others":
            return said("{n} other operators", n=f"{row.names:,}")
        case "graph":
            return said("replayed graphs ({call})", call=row.name)
        case "outside":
            return said("outside of any operator")
    return said(NOT_KNOWN)


def trusted(check: InspectedTrust) -> str:
    """How a check of a trace came out, and what can't be claimed where it failed."""
    if check.passed is None:
        return said(NOT_KNOWN)
    return said("pass") if check.passed else said("fail, so no {claim}", claim=check.concerns)


def price(knob: Recommendation) -> str:
    """What is given for a setting; empty where nothing is known."""
    return said("Its price: {price}.", price=with_names(knob.price, knob.predicted)) if knob.price else ""


def confidence(knob: Recommendation) -> str:
    """How well a prediction is founded, and on what; empty where nobody has said."""
    if knob.confidence is None:
        return ""
    return said("Confidence {word}: {reason}.", word=said(knob.confidence), reason=knob.confidence_reason)


def now(knob: Recommendation) -> str:
    """What is in force, in brackets; of a switch by its name: its flag may say the opposite. Empty where not known."""
    if knob.current is None:
        return ""
    if knob.to is None:
        return said(" ({knob} is {value} now)", knob=knob.knob, value=named(knob.current))
    return said(" (now {value})", value=named(knob.current))


def founded(every: Mapping[str, Confidence], shown: Iterable[str]) -> tuple[str, ...]:
    """How well the predictions of these metrics are founded, a line for those that rest on the same."""
    lines: dict[Confidence, list[str]] = {}
    for name in shown:
        if name in every:
            lines.setdefault(every[name], []).append(metric(name))
    return tuple(
        said(
            "Confidence {word} ({metrics}): {reason}.",
            word=said(one.word),
            metrics=", ".join(names),
            reason=one.reason,
        )
        for one, names in lines.items()
    )


def catalogued(knob: Recommendation) -> str:
    """What the engine's documentation and source say of a setting: default, range, needs."""
    parts = [
        "" if knob.default is None else said("default {value}", value=knob.default),
        "" if knob.allowed is None else said("takes {range}", range=knob.allowed),
        said("needs {what}", what=knob.needs) if knob.needs else "",
    ]
    told = "; ".join(part for part in parts if part)
    return f"{knob.knob}: {told}" if told else ""
