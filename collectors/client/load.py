"""A load from beginning to end: the plan is written, each point is sent, and a run folder is left whatever happens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from profiler.collectors.client.answer import Places
from profiler.collectors.client.body import body_of, check
from profiler.collectors.client.crew import Crew
from profiler.collectors.client.job import Job, Record, Sent
from profiler.collectors.client.plan import Phase, Plan, digest, encode, read_plan
from profiler.collectors.client.result import SCHEMA, LoadEnd, LoadHead, Stopped, Zero
from profiler.collectors.client.target import Server, Target, ask, endpoint_of
from profiler.collectors.client.workload import Workload, make_plan
from profiler.collectors.redaction import redact, redact_command, redact_text
from profiler.errors import UsageError
from profiler.model.extension import Endpoint, Engine

FOLDER: Final = "load"
PLAN: Final = "plan.jsonl"
WARMUP_PLACES: Final = 8

Progress = Callable[[str, int, int], None]  # (the point's label, requests answered, requests planned)


@dataclass(frozen=True)
class Order:
    """A load that is ordered: ``work`` is planned anew, or the plan at ``plan`` is sent again. ``timeout`` is seconds
    for one request. ``engine``, ``model`` None: as the server says. ``command`` is recorded without its secrets;
    ``version`` is our own."""

    target: Target
    out: Path
    work: Workload = field(default_factory=Workload)
    plan: Path | None = None
    engine: str | None = None
    model: str | None = None
    endpoint: str | None = None
    ignore_eos: bool = True
    extra_body: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    processes: int = 1
    timeout: float = 600.0
    version: str = ""
    command: Sequence[str] = ()


@dataclass(frozen=True)
class Carried:
    """How an order was carried out: the run's folder, why it ended early (or None), and what has to be said."""

    out: Path
    stopped: Stopped | None
    notes: tuple[str, ...]


def send_load(order: Order, engines: Sequence[Engine], progress: Progress = lambda *_: None) -> Carried:
    """Send it. Raises UsageError and BadInput before the first request; a KeyboardInterrupt leaves a run that opens."""
    folder = order.out / FOLDER
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder}: holds a load already. Name another folder with --out")
    plan, data, notes = _plan(order)
    server = _server(order, engines)
    endpoint = endpoint_of(server.engine, order.endpoint)
    check(plan, endpoint)
    if order.processes > min([point.concurrency or order.processes for point in plan.head.points]):
        raise UsageError(f"--processes {order.processes}: more than requests in flight. Lower it")
    if server.engine is None:
        notes = (
            *notes,
            "the server is of no known engine: its output lengths are left to the model (see --extra-body)",
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PLAN).write_bytes(data)
    stopped: Stopped | None = None
    for index in range(len(plan.head.points)):
        head = _head(order, plan, server, endpoint, digest(data), index)
        if index == 0:
            _manifest(order, server, head)
        stopped = _point(order, plan, endpoint, server.model, head, progress)
        if stopped is not None:
            break
    return Carried(order.out, stopped, notes)


def _plan(order: Order) -> tuple[Plan, bytes, tuple[str, ...]]:
    if order.plan is not None:
        return (*read_plan(order.plan), ())
    plan, notes = make_plan(order.work)
    return plan, encode(plan), notes


def _server(order: Order, engines: Sequence[Engine]) -> Server:
    said = ask(order.target, engines)
    engine = said.engine
    if order.engine is not None:
        engine = next((one for one in engines if one.name == order.engine), None)
        if engine is None:
            raise UsageError(f"--engine {order.engine}: not known. Known are {', '.join(e.name for e in engines)}")
    model = order.model or said.model
    if model is None:
        raise UsageError(f"{order.target.url}: the server lists no model. Name it with --model")
    return Server(model, engine)


def _head(order: Order, plan: Plan, server: Server, endpoint: Endpoint, sha: str, index: int) -> LoadHead:
    return LoadHead(
        schema=SCHEMA,
        version=order.version,
        url=order.target.url,
        model=None if server.model is None else redact_text(server.model),
        engine=None if server.engine is None else server.engine.name,
        endpoint=endpoint.name,
        plan=sha,
        source=redact_text(plan.head.source),
        seed=plan.head.seed,
        prompts=plan.head.form,
        index=index,
        point=plan.head.points[index],
        requests=len(plan.of(index, "load")),
        processes=order.processes,
        ignore_eos=order.ignore_eos and endpoint.ignore_eos is not None,
        timeout=order.timeout,
        extra={str(key): redact(value, str(key)) for key, value in order.extra_body.items()},
    )


def _manifest(order: Order, server: Server, head: LoadHead) -> None:
    """``run.json``, unless the operator has written one: what it leaves out stands in the load's own files too."""
    path = order.out / "run.json"
    if path.exists():
        return
    workload: dict[str, object] = {"plan": head.plan, "seed": head.seed, "source": head.source, "url": head.url}
    if order.command:
        workload["command"] = redact_command(order.command)
    document: dict[str, object] = {"model": {"name": head.model}, "workload": workload}
    if order.engine is not None and server.engine is not None:
        # Only what was stated here is stated there; what the server's answer suggests is inferred on reading.
        document["engine"] = {"name": server.engine.name}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


def _point(
    order: Order, plan: Plan, endpoint: Endpoint, model: str | None, head: LoadHead, progress: Progress
) -> Stopped | None:
    """Send one point into its own file. What happens to the file's last line happens to none before it."""
    path = order.out / FOLDER / f"{head.index:02d}-{head.point.label}.jsonl"
    count = order.processes
    requests = {phase: plan.of(head.index, phase) for phase in _phases()}

    def share(number: int) -> Iterator[Sent]:
        for phase, ones in requests.items():
            for one in ones[number::count]:
                body = body_of(plan.head, one, endpoint, model, order.ignore_eos, order.extra_body)
                yield Sent(one.i, phase, one.due, body)

    with path.open("wb") as out:
        writer = _Writer(out, head, progress)
        crew = Crew(writer.record, writer.zero)
        try:
            asyncio.run(
                crew.run([_job(order, endpoint, head, n) for n in range(count)], [share(n) for n in range(count)])
            )
        finally:
            writer.end(crew)
    return crew.stopped


def _phases() -> tuple[Phase, Phase]:
    return "warmup", "load"


def _job(order: Order, endpoint: Endpoint, head: LoadHead, number: int) -> Job:
    """The job of one process: every ``processes``-th request, and an equal part of the places."""
    point, count = head.point, order.processes
    places = None if point.concurrency is None else point.concurrency // count + (number < point.concurrency % count)
    target = order.target
    return Job(
        host=target.host,
        port=target.port,
        tls=target.tls,
        ca_file=None if target.ca_file is None else str(target.ca_file),
        path=target.prefix + endpoint.path,
        headers=target.all_headers(),
        places=Places(
            endpoint.output,
            endpoint.input_tokens,
            endpoint.output_tokens,
            endpoint.cached_tokens,
            endpoint.part,
            endpoint.finish,
            endpoint.running,
        ),
        closed=point.rate is None,
        concurrency=places,
        duration=point.duration,
        timeout=order.timeout,
        warmup_concurrency=min(places or WARMUP_PLACES, WARMUP_PLACES),
    )


class _Writer:
    """Writes the lines of one load's file as they come."""

    def __init__(self, out: BinaryIO, head: LoadHead, progress: Progress) -> None:
        self._out, self._head, self._progress = out, head, progress
        self._answered = 0
        self._clock: int | None = None
        self._line(head)

    def zero(self, origin: int) -> None:
        """The load's zero, on the wall clock."""
        self._clock = time.time_ns() - time.monotonic_ns()
        self._line(Zero(origin + self._clock))

    def record(self, record: Record, line: bytes) -> None:
        """A record, with what the server wrote into its error cleared of secrets."""
        if record.error is not None:
            line = msgspec.json.encode(msgspec.structs.replace(record, error=redact_text(record.error))) + b"\n"
        self._out.write(line)
        self._out.flush()  # what was measured is kept even if this process is killed
        if record.phase == "load":
            self._answered += 1
            self._progress(self._head.point.label, self._answered, self._head.requests)

    def end(self, crew: Crew) -> None:
        """How it ended."""
        now = time.time_ns()
        drift = 0 if self._clock is None else now - time.monotonic_ns() - self._clock
        unsent = self._head.requests - self._answered
        self._line(LoadEnd(crew.stopped, unsent, now, drift, tuple(crew.done)))

    def _line(self, line: msgspec.Struct) -> None:
        self._out.write(msgspec.json.encode(line) + b"\n")
        self._out.flush()
