"""What is known of a program that runs: how it is found behind an address, read while it serves, and traced.

Everything here is data and small functions in the engine's own file; what asks, samples and writes lies in the
collectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec


class Reply(msgspec.Struct, frozen=True):
    """What one request gave. ``document`` is the parsed JSON, None where the body is none; status 0: no answer."""

    status: int
    text: str = ""
    document: object | None = None

    @property
    def ok(self) -> bool:
        """Whether the address exists and answered."""
        return 200 <= self.status < 300

    @property
    def fields(self) -> Mapping[str, object]:
        """The answer's JSON object; empty where it is something else."""
        return self.document if self.ok and isinstance(self.document, dict) else {}


Ask = Callable[[str], Reply]  # GET of a path of the server, remembered: asking twice sends one request


class Identity(msgspec.Struct, frozen=True):
    """What a server says of itself. ``workers`` are addresses of the servers behind a router, ``unnamed`` what it
    says of workers whose address its answers do not hold, and ``marks``, where they are known, what the metrics of each
    of these contain and no other's do."""

    version: str | None = None
    model: str | None = None
    workers: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()


class TraceWindow(msgspec.Struct, frozen=True):
    """What is asked of an engine's own profiler: so many steps, in no more than ``seconds``. ``folder`` is a folder
    of the server's machine, None for the server's own choice; ``name`` marks the files."""

    steps: int
    seconds: float
    folder: str | None
    name: str


class TraceControl(msgspec.Struct, frozen=True):
    """How an engine's profiler is started and stopped over HTTP.

    ``body`` makes the request of a window (None: no body) as this version takes it. ``stops_itself`` says whether it
    ends after the steps that were asked for; it is told to stop all the same. ``chooses_folder`` is whether the
    request names the folder; else ``folder`` finds it in the server's command and settings. ``needs`` is what the
    operator has to do where the address answers 404.
    """

    body: Callable[[TraceWindow, str | None], Mapping[str, object] | None]
    stops_itself: Callable[[str | None], bool]
    chooses_folder: bool
    needs: str
    start: str = "/start_profile"
    stop: str = "/stop_profile"
    folder: Callable[[Sequence[str], Mapping[str, object]], str | None] = lambda command, settings: None
    files: str = "*.trace.json*"
    available: Callable[[Ask], bool | None] = lambda ask: None


class ProcessRole(msgspec.Struct, frozen=True):
    """A process of an engine by its title or command: ``pattern`` is searched, a group ``rank`` names its rank.
    ``host`` marks those whose stacks tell where the host's time goes."""

    role: str
    pattern: str
    host: bool = False


class Registrations(msgspec.Struct, frozen=True):
    """Files of this machine in which programs say where they publish their forward-pass metrics.

    ``variable`` is the environment variable of a process that names their folder, ``fallback`` where that is without
    it, relative to the folder for temporary files; ``pattern`` finds the files there and ``address`` the address in one
    of them. ``mark`` is what the metrics of the worker of that number contain and no other's do. ``needs`` says what it
    takes that they can be subscribed to.
    """

    variable: str
    fallback: str
    pattern: str
    address: Callable[[Mapping[str, object]], str | None]
    mark: Callable[[str], str | None]
    needs: str


class Live(msgspec.Struct, frozen=True):
    """An engine that runs. ``identify`` says whether the answers are this engine's, and who it is.

    ``metrics`` is the address of its Prometheus text and ``metrics_needs`` what turns it on; ``settings`` are the
    addresses of its settings, the first that answers counts; so with ``loads``, addresses of its load as it is at the
    moment, for ``Engine.loads``, which stand in for missing metrics. ``records`` is a list of steps that the server
    empties whenever it is read. ``steps_need`` says what makes it log every step, and ``steps_logged`` whether its
    settings (``setting.<knob>``) say that it does. ``passes`` gives, from the settings that the server states, the
    addresses where it publishes forward-pass metrics, and ``passes_need`` says what makes it. ``restart`` gives, for a
    tool ("nsys", "rocprofv3"), the command with which the operator has to start the server; its argument is the command
    in force.
    """

    identify: Callable[[Ask], Identity | None]
    metrics: str | None = "/metrics"
    metrics_needs: str = ""
    settings: tuple[str, ...] = ()
    settings_need: str = ""
    loads: tuple[str, ...] = ()
    records: str | None = None
    records_need: str = ""
    steps_need: str = ""
    steps_logged: Callable[[Mapping[str, object]], bool | None] = lambda facts: None
    passes: Callable[[Mapping[str, object]], Sequence[str]] = lambda settings: ()
    passes_need: str = ""
    notes: tuple[str, ...] = ()
    processes: tuple[ProcessRole, ...] = ()
    trace: TraceControl | None = None
    trace_needs: str = ""
    restart: Mapping[str, Callable[[Sequence[str]], Sequence[str]]] = msgspec.field(default_factory=dict)
