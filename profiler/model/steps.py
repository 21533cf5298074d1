"""Scheduler steps: what each carried, and how long it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from profiler.model.fact import Fact
from profiler.model.requests import Floats, Ints

Phase = Literal["prefill", "decode", "mixed", "idle"]


@dataclass(frozen=True, slots=True)
class StepLabel:
    """What a step annotation or log line says of one step's batch. None: the grammar does not say.

    ``prefill_tokens`` are the tokens computed (without cached ones); ``decode_tokens`` exceeds ``decode_requests``
    only under speculative decoding. ``prefill_context`` and ``decode_context`` are the summed KV lengths (sk).
    ``requests`` and ``tokens`` are totals where prefill and decode are not told apart. ``draft``: a pass of the draft
    model; ``verify``: the target model's pass over drafted tokens.
    """

    phase: Phase | None = None
    prefill_requests: int | None = None
    prefill_tokens: int | None = None
    decode_requests: int | None = None
    decode_tokens: int | None = None
    prefill_context: int | None = None
    decode_context: int | None = None
    requests: int | None = None
    tokens: int | None = None
    draft: bool = False
    verify: bool = False

    @property
    def verifies(self) -> bool:
        """Whether the step checks drafted tokens: it is named so, or it computes several tokens a sequence."""
        several = bool(self.decode_requests) and (self.decode_tokens or 0) > (self.decode_requests or 0)
        return self.verify or several

    @property
    def computed(self) -> int | None:
        """All tokens that the step computes."""
        if self.prefill_tokens is not None or self.decode_tokens is not None or self.decode_requests is not None:
            decode = self.decode_tokens if self.decode_tokens is not None else self.decode_requests
            return (self.prefill_tokens or 0) + (decode or 0)
        return self.requests if self.tokens is None and self.phase == "decode" else self.tokens


@dataclass(frozen=True)
class StepTable:
    """Steps as columns of one length, in the order they ran. NaN or -1: not known.

    ``clock`` is seconds of the log's own clock when the step was printed (seconds since the epoch read as UTC, or
    since the start of the year where the log has no year); ``seconds`` is the step's wall time as the engine states
    it; ``weight`` is how many steps the row stands for (a log that prints every 40th decode step has weight 40
    there). ``beside`` are running requests that either waited for a prefill step or decoded in it. ``graph`` is 1
    where the step replayed a CUDA graph, 0 where it ran eagerly, -1 where not known. ``device_seconds`` is the step's
    own time on the device, where the engine states that apart from its wall time.
    """

    clock: Floats
    seconds: Floats
    prefill_requests: Ints
    prefill_tokens: Ints
    cached_tokens: Ints
    decode_requests: Ints
    decode_tokens: Ints
    waiting: Ints
    beside: Ints
    kv_usage: Floats
    graph: Ints
    weight: Floats
    device_seconds: Floats

    def __len__(self) -> int:
        return len(self.clock)

    def select(self, rows: slice | NDArray[np.bool_] | NDArray[np.int64]) -> StepTable:
        """The same columns for the chosen rows."""
        return StepTable(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    @staticmethod
    def joined(tables: Sequence[StepTable]) -> StepTable:
        """The rows of several tables, one after the other."""
        names = [f.name for f in fields(StepTable)]
        return StepTable(**{name: np.concatenate([getattr(one, name) for one in tables]) for name in names})

    @staticmethod
    def build(n: int, **columns: object) -> StepTable:
        """A table of ``n`` rows from the columns that are known; the others are NaN or -1, and weight 1."""
        filled: dict[str, object] = {}
        for f in fields(StepTable):
            floating = f.name in ("clock", "seconds", "kv_usage", "weight", "device_seconds")
            given = columns.get(f.name)
            if given is not None:
                filled[f.name] = np.asarray(given, np.float64 if floating else np.int64)
            elif f.name == "weight":
                filled[f.name] = np.ones(n)
            else:
                filled[f.name] = np.full(n, np.nan) if floating else np.full(n, -1, np.int64)
        return StepTable(**filled)  # type: ignore[arg-type]


@dataclass(frozen=True)
class EngineLog:
    """What a server's log says: steps, settings in force, and events that matter to a comparison.

    ``every_step`` is True where the log prints one line a step (vLLM's iteration lines); False where decode steps are
    sampled (SGLang's batch lines). ``events`` counts log lines by kind: preemption, graph_capture, compile, error.
    ``readings`` are the other numbers that lines state, by a concept of ``profiler.model.metrics``.
    """

    path: str
    engine: str
    steps: StepTable
    every_step: bool
    settings: Mapping[str, Fact[object]] = field(default_factory=dict[str, Fact[object]])
    events: Mapping[str, int] = field(default_factory=dict[str, int])
    readings: Mapping[str, Readings] = field(default_factory=dict[str, "Readings"])


@dataclass(frozen=True)
class Readings:
    """What lines of a log state of one concept, in the log's order: ``clock`` as in StepTable, ``value`` of a gauge at
    that moment, of a counter or a histogram what the line adds."""

    clock: Floats
    value: Floats
