"""The document that ``goodput --json`` prints, ``profiler.goodput/1``: what runs serve, load by load.

Times are seconds, rates per second, shares fractions. ``None`` means not known; it is never a zero.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from profiler.model.document import DocumentProblem, EngineRef, Interval

SCHEMA: Final = "profiler.goodput/1"
Axis = Literal["requests in flight", "requests/s", "tokens/s of one user"]


class LoadPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One load of one run, its repeats together.

    ``attainment`` is the share of requests *sent* that met every bound of the SLO (a failed request met none), and
    ``goodput`` those requests per second; both None without an SLO or without per-request records. ``interactivity`` is
    the tokens/s that one user sees, one over the median TPOT. ``per_device`` is output tokens/s per device, or of the
    whole run where the number of devices is not known for every run.
    """

    axis: Axis | None
    load: float | None
    label: str
    sent: int
    failed: int
    repeats: int
    request_rate: float
    output_throughput: float
    per_device: float
    interactivity: float | None
    attainment: float | None
    attainment_interval: Interval | None
    goodput: float | None
    goodput_interval: Interval | None
    latencies: dict[str, float]
    sources: tuple[str, ...]
    note: str = ""


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """The highest request rate at which a share of requests meets the SLO. ``kind`` says how it is known: between two
    measured loads, at least that of the highest load measured, or below the lowest (``rate`` None)."""

    attainment: float
    rate: float | None
    interval: Interval | None
    kind: Literal["interpolated", "at least", "below the lowest load", "not known"]


class RunCurve(msgspec.Struct, frozen=True, kw_only=True):
    """All loads of one run, from light to heavy; ``devices`` None where no file says how many it took."""

    name: str
    path: str
    engine: EngineRef
    devices: float | None
    points: tuple[LoadPoint, ...]
    reached: tuple[Reached, ...] = ()


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The runs at one equal load, or at one equal interactivity: a value a run (None: not measured there). ``leader``
    None: no difference shown. ``noise`` is the difference that the leader had to exceed."""

    axis: Axis
    at: float
    metric: Literal["goodput", "output throughput"]
    unit: str
    values: tuple[float | None, ...]
    leader: str | None
    noise: float


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of an axis over which one run leads; ``leader`` None: no difference shown in it."""

    axis: Axis
    low: float
    high: float
    leader: str | None


class FrontPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A measured point that no other point beats in both interactivity and throughput."""

    run: str
    label: str
    interactivity: float
    per_device: float


class Goodput(msgspec.Struct, frozen=True, kw_only=True):
    """The whole document. ``slo`` in seconds by ttft, tpot, e2e; empty where none was given."""

    schema: str
    slo: dict[str, float]
    headline: str
    throughput_unit: str
    runs: tuple[RunCurve, ...]
    equal_load: tuple[Standing, ...]
    equal_interactivity: tuple[Standing, ...]
    ranges: tuple[Range, ...]
    front: tuple[FrontPoint, ...]
    notes: tuple[str, ...]
    problems: tuple[DocumentProblem, ...] = ()
