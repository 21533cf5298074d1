"""The client's view of a run: one row a request, and the summary its tool printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Outputs:
    """What is kept of the answers' texts, each column of length n, and never the text itself.

    ``digest`` is a 64-bit hash of the whole answer, ``characters`` its length, ``looping`` True where the answer is one
    short piece over and over (one token, or a few).
    """

    digest: Ints
    characters: Ints
    looping: Bools


@dataclass(frozen=True)
class RequestTable:
    """Per-request records, each column of length n, in the order the client sent them.

    ``start`` is seconds on the client's own clock (NaN where the tool keeps none); ``ttft`` and ``e2e`` are seconds
    from the send; ``itl`` holds the gaps between streamed chunks of all requests, flat, request i owning
    ``itl[itl_offset[i]:itl_offset[i + 1]]``. Failed requests stay in, with ``ok`` False.

    ``late`` is seconds from the moment a request was due to its send, None where the tool does not keep it.
    """

    start: Floats
    ttft: Floats
    e2e: Floats
    input_tokens: Ints
    output_tokens: Ints
    ok: Bools
    itl: Floats
    itl_offset: Ints
    late: Floats | None = None
    outputs: Outputs | None = None

    def __len__(self) -> int:
        return len(self.ttft)


@dataclass(frozen=True)
class BenchResult:
    """One measured load: one benchmark result file, or one line of an appended one.

    ``duration`` is seconds. ``request_rate`` is requests/s, infinite for "all at once"; None where the file does not
    say. ``ended`` is the client's local wall clock when the file was written, as ``YYYYMMDD-HHMMSS`` (no zone).
    ``summary`` is the tool's own summary in seconds and per second, by our metric names; ``client_protocol`` is the
    tool's ``backend`` field, which is the protocol that the client spoke and never the engine.
    """

    path: str
    tool: str
    duration: float
    completed: int
    failed: int
    total_input_tokens: int
    total_output_tokens: int
    request_rate: float | None = None
    max_concurrency: int | None = None
    model: str | None = None
    ended: str | None = None
    client_protocol: str | None = None
    requests: RequestTable | None = None
    summary: Mapping[str, float] = field(default_factory=dict[str, float])
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
