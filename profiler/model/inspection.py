"""What is in a run: the document that ``inspect --json`` prints."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from profiler.model.baseline import Baseline
from profiler.model.document import DocumentProblem, EngineRef


class InspectedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the run and what was made of it."""

    path: str
    format: str
    bytes: int
    read: bool
    problems: tuple[DocumentProblem, ...] = ()


Section = Literal[
    "batching",
    "workers",
    "speculation",
    "memory and cache",
    "CUDA Graph",
    "host",
    "communication",
    "micro-batches",
    "roofline",
    "critical path",
    "stacks",
]
SECTIONS: Final[tuple[Section, ...]] = get_args(Section)


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One number of a section. ``value`` None: not known, and ``detail`` says what it would need. Units: "s",
    "fraction", "count", "tokens", "sequences", "requests", "bytes", "bytes/s"."""

    section: Section
    name: str
    value: float | None
    unit: str
    detail: str = ""
    source: str = ""


LaunchedBy = Literal["operator", "others", "graph", "outside", "not known"]


class InspectedOperator(msgspec.Struct, frozen=True, kw_only=True):
    """Device time by what launched it: an ``operator``, the ``others`` that have no row of their own (``names`` of
    them), a replayed ``graph`` (``name`` is the launch call's), a launch ``outside`` of any operator, or ``not known``:
    its launch is not in the trace. ``calls`` are those that launched work; ``host_seconds`` is what these took on the
    host without the operators inside them (None: not known, or the operator itself is the work)."""

    kind: LaunchedBy
    name: str
    seconds: float
    calls: int | None
    host_seconds: float | None
    names: int = 1


class InspectedDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One device of one trace. ``kernel_seconds`` is the sum of the kernels' durations, ``busy_seconds`` the union of
    all device work, ``categories`` splits the busy time and ``idle`` the rest of the window, so that both together add
    up to ``window_seconds``. ``roles`` splits the busy time by place in the model (empty: no attention recognised).
    ``calls`` and ``role_calls`` count the device's work by the same names; on a CPU its operators. ``captured`` are
    seconds of replayed work by the ranges that it was captured in (empty: the trace does not say). ``operators`` splits
    the busy time by the operators that launched the work (empty: the trace holds none). ``rank`` is the trace's."""

    device: str
    trace: str
    name: str | None
    kernels: int
    kernel_seconds: float
    busy_seconds: float
    window_seconds: float
    categories: dict[str, float]
    idle: dict[str, float]
    roles: dict[str, float]
    layers: int | None
    unclassified_share: float | None
    captured: dict[str, float] = {}
    calls: dict[str, int] = {}
    role_calls: dict[str, int] = {}
    operators: tuple[InspectedOperator, ...] = ()
    rank: int | None = None


class InspectedSteps(msgspec.Struct, frozen=True, kw_only=True):
    """The steps that one source states."""

    source: str
    steps: int
    prefill: int
    decode: int
    mixed: int
    mean_sequences: float | None
    mean_seconds: float | None
    inferred: bool


class InspectedTotals(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's summary of calls by name. ``seconds`` adds up the calls' durations: they overlap, and when they ran is
    not known. ``categories`` splits the seconds of kernels, ``largest`` holds the seconds of the largest names;
    ``calls`` is None where a row does not say."""

    source: str
    tool: str
    what: str
    names: int
    calls: int | None
    seconds: float
    categories: dict[str, float]
    largest: dict[str, float]
    unclassified_share: float | None


class InspectedComponent(msgspec.Struct, frozen=True, kw_only=True):
    """The last scrape of a program beside the engines: its own view, in the questions that all of them share."""

    source: str
    component: str
    title: str
    values: dict[str, float]


class InspectedTrust(msgspec.Struct, frozen=True, kw_only=True):
    """One check of a trace's completeness; ``passed`` None where the trace can't say."""

    trace: str
    check: str
    passed: bool | None
    detail: str
    concerns: str


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """The whole document; ``schema`` is ``profiler.inspection/1``. ``baseline`` is what a later run can be compared
    with, None where the run holds no benchmark result."""

    schema: str
    run: str
    files: tuple[InspectedFile, ...]
    engine: EngineRef
    facts: dict[str, str]
    requests: int
    steps: int
    step_sources: tuple[InspectedSteps, ...]
    devices: tuple[InspectedDevice, ...]
    unclassified_share: float | None
    metrics: dict[str, float]
    problems: tuple[DocumentProblem, ...]
    trust: tuple[InspectedTrust, ...] = ()
    figures: tuple[Figure, ...] = ()
    totals: tuple[InspectedTotals, ...] = ()
    components: tuple[InspectedComponent, ...] = ()
    baseline: Baseline | None = None
