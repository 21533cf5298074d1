"""The result document, ``profiler.diagnosis/1``: what ``diagnose --json`` prints and every report is drawn from.

Times are seconds, rates per second, sizes bytes, shares fractions. ``None`` means not known; it is never a zero.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from profiler.model.baseline import Baseline
from profiler.model.document import DocumentProblem, EngineRef, Interval
from profiler.model.goodput import Goodput
from profiler.model.timeline import Moment, StepPair

SCHEMA: Final = "profiler.diagnosis/1"

CauseName = Literal[
    "kernel",
    "communication",
    "cuda_graph",
    "scheduling",
    "batching",
    "memory",
    "speculation",
    "frontend",
    "hardware",
    "workload",
]
CAUSES: Final[tuple[CauseName, ...]] = (
    "kernel",
    "cuda_graph",
    "scheduling",
    "batching",
    "communication",
    "memory",
    "speculation",
    "frontend",
    "hardware",
    "workload",
)
ALWAYS_SHOWN: Final = ("kernel", "cuda_graph", "scheduling", "batching")

Winner = Literal["a", "b"]


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """A pair of numbers that a sceptical engineer would check, with the file they were read from."""

    name: str
    a: float | str | None
    b: float | str | None
    unit: str
    source: str


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The second level inside a cause: a kernel category, an idle cause, a limit."""

    name: str
    gap: float
    share: float | None = None
    interval: Interval | None = None
    evidence: tuple[Evidence, ...] = ()


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the gap, in the unit of the gap's metric. ``share`` is of the gap; None where the gap is 0."""

    cause: CauseName
    gap: float
    share: float | None
    interval: Interval | None
    extrapolated: bool
    summary: str
    evidence: tuple[Evidence, ...] = ()
    parts: tuple[Part, ...] = ()


class Unexplained(msgspec.Struct, frozen=True, kw_only=True):
    """What the measurement leaves over. ``parts`` name what could not be told apart for want of evidence."""

    gap: float
    share: float | None
    summary: str = ""
    parts: tuple[Part, ...] = ()


class Additive(msgspec.Struct, frozen=True, kw_only=True):
    """The additive form of a throughput gap: engine seconds per output token, and the factor to the gap's unit."""

    a: float
    b: float
    gap: float
    factor: float


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of both runs and its breakdown: the sum of ``causes[].gap`` and ``unexplained.gap`` is ``gap``.

    ``higher_is_better`` says which sign is good. ``interval`` is the 95% interval of ``gap`` (None: no interval could
    be formed) and ``winner`` is what it says: None where it holds zero or where no winner may be named.
    """

    metric: str
    unit: str
    higher_is_better: bool
    a: float
    b: float
    gap: float
    relative: float | None
    interval: Interval | None
    winner: Winner | None
    causes: tuple[Cause, ...]
    unexplained: Unexplained
    seconds_per_output_token: Additive | None = None


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the comparison. ``metrics`` holds all that could be computed, ``facts`` what else is known;
    ``repeats`` is how many results of the compared load it holds."""

    name: str
    path: str
    engine: EngineRef
    metrics: dict[str, float]
    facts: dict[str, str] = {}
    simulated: bool = False
    repeats: int = 1


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What may be claimed, and why not more. ``headline`` is the first sentence of ``text``."""

    status: Literal["winner", "no difference", "not comparable", "insufficient evidence"]
    winner: Winner | None
    text: str
    headline: str = ""
    reasons: tuple[str, ...] = ()


class FairnessRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule of a fair comparison; missing data is "unknown" and never a pass."""

    rule: str
    status: Literal["pass", "fail", "unknown", "not applicable"]
    severity: Literal["block", "warn", "info"]
    detail: str
    evidence: tuple[Evidence, ...] = ()
    fix: str = ""


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """The predicted relative change of one metric, with its 95% interval."""

    change: float
    interval: Interval


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """A knob to turn, spelled as this engine and version spell it. ``default`` is what holds where nothing is set,
    ``allowed`` the range, ``needs`` what the setting depends on, ``price`` what is given for it; empty or None where it
    is not known. ``confidence`` is how well the prediction is founded, and ``confidence_reason`` on what. ``beside``
    says of a metric why its prediction is not what the knob's cause costs in the gap."""

    run: str
    knob: str
    flag: str
    current: str | None = msgspec.field(name="from")
    to: str | None
    predicted: dict[str, Prediction]
    why: str
    check: str
    default: str | None = None
    allowed: str | None = None
    needs: str = ""
    price: str = ""
    confidence: Literal["high", "medium", "low"] | None = None
    confidence_reason: str = ""
    beside: dict[str, str] = {}


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """A line of one run: over the load's time (``x_unit`` "s" or "steps"), or a latency by the share of requests that
    stay below it ("fraction"). ``topic`` groups the lines of both runs."""

    topic: str
    title: str
    run: Literal["a", "b"]
    x: tuple[float, ...]
    y: tuple[float, ...]
    x_unit: Literal["s", "steps", "fraction"]
    y_unit: str
    source: str


class RoleRow(msgspec.Struct, frozen=True, kw_only=True):
    """Device seconds and calls a step of one role in the model; None: not in that run's trace. ``a_layer`` are the
    seconds of one layer where the role is one of every layer, ``a_roofline`` is the share of the device's roofline
    (None: the model's shape, the device's peaks or the batch are not known)."""

    role: str
    a_seconds: float | None
    b_seconds: float | None
    a_calls: float | None = None
    b_calls: float | None = None
    a_layer: float | None = None
    b_layer: float | None = None
    a_roofline: float | None = None
    b_roofline: float | None = None


class KernelRow(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel category (``name`` None) or one kernel of it, per step of each run's trace; None: not in that run."""

    category: str
    name: str | None
    a_seconds: float | None
    b_seconds: float | None
    a_calls: float | None
    b_calls: float | None


class TracedSteps(msgspec.Struct, frozen=True, kw_only=True):
    """What the steps of a run's trace carried, of the device that stands for it: how many ``steps``, ``prefills`` of
    them with a prefill, of ``prompt_tokens`` each on average, and the mean of ``sequences`` in those that decode.
    ``decoded`` is what all of them decoded, a token for each sequence. None: the trace does not say."""

    run: Literal["a", "b"]
    steps: int
    prefills: int | None
    prompt_tokens: float | None
    sequences: float | None
    decoded: float | None = None


class ShownDevice(msgspec.Struct, frozen=True, kw_only=True):
    """The one of a run's ``of`` traced devices whose kernels and roles are shown; ``rank`` None: its trace does not
    say."""

    run: Literal["a", "b"]
    trace: str
    device: str
    rank: int | None
    of: int


SummaryTopic = Literal["model and hardware", "features", "service at this load", "operability", "not measured"]


class SummaryLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the engineer's summary: both runs' values, each with the file it was read from; None: no file says."""

    topic: SummaryTopic
    name: str
    unit: str
    a: float | str | None
    b: float | str | None
    a_source: str
    b_source: str


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The whole document. ``missing`` says, run by run, what was not there and what it would have told; ``loads`` holds
    all loads of both runs where a run has several, for the gaps are those of one. ``baseline`` is what a later run can
    be compared with: B, the newer; None without a benchmark result, and in an anonymous document."""

    schema: str
    runs: tuple[RunSummary, ...]
    verdict: Verdict
    gaps: tuple[Gap, ...]
    fairness: tuple[FairnessRule, ...]
    recommendations: tuple[Recommendation, ...]
    problems: tuple[DocumentProblem, ...]
    kernels: tuple[KernelRow, ...] = ()
    traced: tuple[TracedSteps, ...] = ()
    shown: tuple[ShownDevice, ...] = ()
    missing: tuple[str, ...] = ()
    method: tuple[str, ...] = ()
    roles: tuple[RoleRow, ...] = ()
    curves: tuple[Curve, ...] = ()
    timelines: tuple[StepPair, ...] = ()
    moments: tuple[Moment, ...] = ()
    loads: Goodput | None = None
    summary: tuple[SummaryLine, ...] = ()
    baseline: Baseline | None = None
