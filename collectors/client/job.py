"""What passes between the process that leads a load and those that send it: JSON, one message a line.

The leader writes a Job, the requests with their finished bytes, and End; the sender warms up and answers Ready; the
leader writes Go; the sender writes a Record for each request and Done. If the leader's pipe closes, the sender stops.
Secrets travel in the Job, through the pipe: they stand in no command line and no environment that is ours.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from profiler.collectors.client.answer import Places
from profiler.collectors.client.plan import Phase

Ns = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Job(msgspec.Struct, frozen=True, tag="job"):
    """Where to send and how. ``concurrency`` is this process's share; ``duration`` and ``timeout`` are seconds.
    ``closed``: every free place takes the next request; else they have due times. ``ca_file`` is trusted for TLS."""

    host: str
    port: int
    tls: bool
    ca_file: str | None
    path: str
    headers: tuple[tuple[str, str], ...]
    places: Places
    closed: bool
    concurrency: int | None
    duration: float | None
    timeout: float
    warmup_concurrency: int


class Sent(msgspec.Struct, frozen=True, tag="request"):
    """A request as bytes of JSON, made before the load starts."""

    i: int
    phase: Phase
    due: int | None
    body: str


class End(msgspec.Struct, frozen=True, tag="end"):
    """No more requests."""


class Go(msgspec.Struct, frozen=True, tag="go"):
    """The load's zero: ns of the machine's monotonic clock, the same for all processes."""

    origin: int


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """Warmed up, and waiting for Go."""


class Record(msgspec.Struct, frozen=True, tag="record", omit_defaults=True):
    """What came of one request. Times are ns: ``due`` and ``sent`` since the load's zero, all others since ``sent``.

    ``sent`` is when the client turned to the request, a connection that had to be made included (``wrote``). ``tokens``
    says how many each chunk brought, None where the server does not. ``output`` counts tokens, by the server's
    ``usage`` or, where it is silent, by ``chunks``. ``reconnects`` counts sends on a second connection after the server
    had closed an idle one without a byte of answer.
    """

    i: Count
    phase: Phase
    sent: Ns
    ok: bool
    due: Ns | None = None
    wrote: Ns | None = None
    first_byte: Ns | None = None
    end: Ns | None = None
    status: int = 0
    chunks: tuple[Ns, ...] = ()
    tokens: tuple[Count, ...] | None = None
    input: Count | None = None
    output: Count | None = None
    counted: Literal["usage", "chunks"] | None = None
    cached: Count | None = None
    finish: str | None = None
    kind: str | None = None
    error: str | None = None
    reconnects: Count = 0


class Done(msgspec.Struct, frozen=True, tag="done"):
    """How well one process kept up. ``unsent`` requests of the plan were left; delays of the event loop are seconds;
    ``cpu`` is the share of one core that it used."""

    unsent: Count
    loop_p99: float
    loop_max: float
    cpu: float


Instruction = Job | Sent | End | Go
Report = Ready | Record | Done
