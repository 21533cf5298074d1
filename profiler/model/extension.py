"""What an extension is: a format that reads files, an engine that knows its own spelling, a cause of a gap."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec

from profiler.model.knob import Knob
from profiler.model.live import Ask, Identity, Live, Registrations
from profiler.model.run import Reading
from profiler.model.steps import StepLabel


class Source(Protocol):
    """A file to be read: gzip and zstd are undone, whatever the suffix says."""

    @property
    def path(self) -> Path:
        """Where the file lies."""
        ...

    @property
    def name(self) -> str:
        """The path as it is shown: relative to the run."""
        ...

    @property
    def size(self) -> int:
        """Bytes on disk."""
        ...

    def head(self, size: int = 65536) -> bytes:
        """The first decompressed bytes; shorter where the file ends or breaks off."""
        ...

    def open(self) -> BinaryIO:
        """A stream of decompressed bytes; where the compressed data breaks off it ends, and ``broken`` says why."""
        ...

    @property
    def broken(self) -> str | None:
        """After reading: why the stream ended early, or None."""
        ...


class LogStep(msgspec.Struct, frozen=True):
    """One step as a log line states it. ``seconds`` is its wall time, None where the line has none.

    ``sampled`` is True where the engine prints only every n-th step of this kind. ``cached_tokens``, ``waiting`` and
    ``kv_usage`` are None where the line does not say; ``graph`` likewise. ``beside`` counts running requests that a
    prefill line names without saying whether they decode in the same step. ``device_seconds`` is the step's time on the
    device, ``previous_device_seconds`` that of the step before it, where the engine knows it only one step later.
    """

    label: StepLabel
    seconds: float | None = None
    sampled: bool = False
    cached_tokens: int | None = None
    waiting: int | None = None
    kv_usage: float | None = None
    graph: bool | None = None
    beside: int | None = None
    device_seconds: float | None = None
    previous_device_seconds: float | None = None


class StepRecord(msgspec.Struct, frozen=True):
    """One step as a JSON record states it. ``index`` counts the engine's steps; ``clock`` is like StepTable's."""

    step: LogStep
    clock: float
    index: int | None = None


class Endpoint(msgspec.Struct, frozen=True):
    """A streaming endpoint of a server: how a request is spelled, and where an event of the answer holds what.

    Places are keys joined by dots, a number being an index (``choices.0.text``). ``text``, ``ids`` and ``messages`` are
    the places of a prompt in each form, None where the server takes no such form; ``limit``, ``least``, ``ignore_eos``
    those of the output's bounds and of the switch that generates up to the limit, ``model`` that of the model's name.
    ``fixed`` is sent with every request.
    In an event, ``part`` is there wherever something was generated (None: always), ``output`` holds what was, the
    counts are so far; ``running`` says that they come with every event, so that tokens of a chunk are known.
    """

    name: str
    path: str
    limit: str
    fixed: Mapping[str, object]
    output: tuple[str, ...]
    input_tokens: str
    output_tokens: str
    text: str | None = None
    ids: str | None = None
    messages: str | None = None
    model: str | None = None
    least: str | None = None
    ignore_eos: str | None = None
    cached_tokens: str | None = None
    part: str | None = None
    finish: str | None = None
    running: bool = False


class Handover(msgspec.Struct, frozen=True):
    """A way from one process of an engine to another: patterns of the annotations or Python frames in which the one
    waits for a message and the other sends it."""

    link: str
    waits: str
    sends: str


class Engine(msgspec.Struct, frozen=True):
    """All that the product knows of one engine, as data and small functions; each engine is one file.

    ``metrics`` maps an exposed metric name (without ``_total``, ``_sum``, ``_count``) to a concept of
    ``profiler.model.metrics``; ``metric_labels`` picks, for a concept that is one label value of a metric, the
    (name, label, value) that holds it. ``repeated_ranks`` names a label over which equal series are repeated rather
    than split, so that one is taken instead of a sum. ``process_constants`` are metrics whose value is set once, while
    a process starts, and is hardly that of another start. ``log_clock`` reads a line's time stamp, ``log_step`` a step,
    ``log_facts`` settings and versions, ``log_event`` names what else a line reports, ``log_readings`` the concepts of
    ``profiler.model.metrics`` that a line, of a step or not, gives a value of. ``trace_keys`` are top-level keys of a
    trace that only this engine writes; ``step_label`` reads a step annotation, ``step_record`` a step written as JSON;
    ``step_frame`` is a pattern of the Python frame that runs one step, ``micro_batch`` of the annotation or frame
    around one micro-batch (its group is the name; without one the thread tells), ``handovers`` how its processes pass
    work on. ``loads`` reads the gauges of ``profiler.model.metrics`` off an answer about its load; ``config`` reads
    facts off the file that the engine is configured by (empty where it is another's); ``defaults`` are knobs by name
    whose value, where no flag says otherwise, decides how a run is read; ``on_cpu`` are those that are something else
    where the model runs on the CPU itself: by name the knob that each is there, None where it is without effect.
    ``owner`` is what its list of models gives as ``owned_by``; ``endpoints`` are those that a load can be sent to, the
    first by default; ``live`` is None where nothing is known of attaching to it while it runs.
    """

    name: str
    title: str
    metric_prefixes: tuple[str, ...]
    metrics: Mapping[str, str]
    step_label: Callable[[str], StepLabel | None]
    log_step: Callable[[str], LogStep | None]
    log_clock: Callable[[str], float | None]
    log_facts: Callable[[str], Mapping[str, object]]
    log_event: Callable[[str], str | None]
    every_step_logged: bool
    metric_labels: Sequence[tuple[str, str, str, str]] = ()
    info_metrics: tuple[str, ...] = ()
    repeated_ranks: str | None = None
    process_constants: tuple[str, ...] = ()
    trace_keys: Mapping[str, str] = msgspec.field(default_factory=dict)
    trace_file: str | None = None
    host_phases: Mapping[str, str] = msgspec.field(default_factory=dict)
    step_frame: str | None = None
    micro_batch: str | None = None
    handovers: tuple[Handover, ...] = ()
    knobs: tuple[Knob, ...] = ()
    defaults: Mapping[str, object] = msgspec.field(default_factory=dict)
    on_cpu: Mapping[str, str | None] = msgspec.field(default_factory=dict)
    server_info: Callable[[Mapping[str, object]], Mapping[str, object]] | None = None
    step_record: Callable[[Mapping[str, object]], StepRecord | None] | None = None
    log_readings: Callable[[str], Mapping[str, float]] | None = None
    loads: Callable[[object], Mapping[str, float]] | None = None
    config: Callable[[Mapping[str, object]], Mapping[str, object]] | None = None
    owner: str | None = None
    endpoints: tuple[Endpoint, ...] = ()
    live: Live | None = None


class Answer(msgspec.Struct, frozen=True):
    """Which metric of a component answers a question of ``profiler.model.metrics.QUESTIONS``.

    Series are summed, or averaged where they are ratios (``average``); with ``label`` only those count whose label is
    so. ``per`` is a metric whose sum divides it: a histogram's count, or a counter's whole. ``scale`` makes seconds of
    it. The first answer that the scrape holds counts.
    """

    question: str
    metric: str
    per: str | None = None
    label: tuple[str, str] | None = None
    average: bool = False
    scale: float = 1.0


class Component(msgspec.Struct, frozen=True):
    """A program beside the engines (front end, router, cache): one file each, like an engine.

    ``prefixes`` are the beginnings of its metrics' names. One that ``borrows`` an engine's prefix is told by names that
    no engine has behind the colon; its metrics are written without that prefix, and none of them is the engine's.
    ``identify`` says whether a server that answers is this program, and which servers stand behind it. ``worker_port``
    is the environment variable of a worker's process that holds the port of its metrics, where no answer names it;
    ``passes`` are files in which its workers say where they publish their forward-pass metrics. ``workers_need`` says
    how those can be reached that it names without an address.
    """

    name: str
    title: str
    prefixes: tuple[str, ...]
    answers: tuple[Answer, ...]
    borrows: tuple[str, ...] = ()
    identify: Callable[[Ask], Identity | None] | None = None
    worker_port: str | None = None
    passes: Registrations | None = None
    workers_need: str = ""


class Format(Protocol):
    """One kind of file. ``version`` changes whenever ``read`` would return something else (it keys the cache)."""

    name: str
    version: int

    def sniff(self, head: bytes, name: str) -> float:
        """How sure it is, 0..1, from the first decompressed bytes and the file's name. Never raises."""
        ...

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """Everything that can be read. Raises nothing but ``profiler.errors.BadInput``; salvages what it can."""
        ...
