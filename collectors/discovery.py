"""What stands behind an address: which engine or router, its version, model and settings, its processes and devices.

Only GET requests are sent, each path once. Routers are looked for first: they repeat what their servers say.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from profiler.collectors.components import COMPONENTS
from profiler.collectors.http_client import Client
from profiler.collectors.process_tree import Process, listener, output_of, ports_named, ports_of, tree
from profiler.collectors.redaction import redact
from profiler.errors import UsageError
from profiler.model.extension import Component, Engine
from profiler.model.live import Identity, Reply

GpusOf = Callable[[], Mapping[int, Sequence[int]]]


@dataclass(frozen=True)
class Discovery:
    """What was found. ``engine`` is None for a router and for a server that nothing here knows. ``settings`` is the
    server's own account of its settings, redacted, and ``facts`` what its engine reads in it. ``replies`` are the
    answers by path. ``processes`` is empty where the server's are not on this machine. ``marked`` are the addresses of
    workers that were told by their marks."""

    url: str
    engine: Engine | None
    component: Component | None
    identity: Identity
    settings: Mapping[str, object]
    facts: Mapping[str, object]
    processes: tuple[Process, ...] = ()
    log: str | None = None
    replies: Mapping[str, Reply] = field(default_factory=dict[str, Reply])
    marked: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def command(self) -> tuple[str, ...]:
        """The server's command line, redacted; empty where it is not known."""
        return self.processes[0].command if self.processes else ()

    @property
    def host_processes(self) -> tuple[Process, ...]:
        """Those whose stacks tell where the host's time goes; of a server whose roles nothing knows, the first."""
        return tuple(one for one in self.processes if one.host) or self.processes[:1]

    @property
    def title(self) -> str:
        """What it is, in words."""
        if self.engine is not None:
            return f"{self.engine.title} {self.identity.version or '(version not known)'}"
        return self.component.title if self.component is not None else "a server that no engine here knows"


def discover(client: Client, engines: Sequence[Engine], gpus_of: GpusOf) -> Discovery:
    """Ask what answers. ``gpus_of`` gives the driver's list of processes. Raises UsageError where nothing answers."""
    replies: dict[str, Reply] = {}

    def ask(path: str) -> Reply:
        if path not in replies:
            replies[path] = client.get(path)
        return replies[path]

    with client:
        first = ask("/v1/models")
        if first.status == 0:
            raise UsageError(f"{client.url}: no answer ({first.text}). Check the address, and that the server is up")
        if first.status in (401, 403):
            raise UsageError(
                f"{client.url}: the key was refused (status {first.status}). Give it by --api-key-env NAME"
            )
        component, identity = _component(ask)
        engine = None
        if component is None:
            engine, identity = _engine(ask, engines)
        settings, facts = _settings(engine, ask)
        found = Discovery(client.url, engine, component, identity, settings, facts, replies=replies)
        return _with_local_workers(_with_processes(found, client, gpus_of), client)


def url_of(pid: int) -> str:
    """The address of the one port on which a process or one of its children listens. Raises UsageError."""
    ports = ports_of(pid)
    if len(ports) != 1:
        what = f"listens on {', '.join(map(str, ports))}" if ports else "listens on no port that can be seen"
        raise UsageError(f"process {pid} {what}: give its --url")
    return f"http://127.0.0.1:{ports[0]}"


def _component(ask: Callable[[str], Reply]) -> tuple[Component | None, Identity]:
    for component in COMPONENTS:
        identity = None if component.identify is None else component.identify(ask)
        if identity is not None:
            return component, identity
    return None, Identity()


def _engine(ask: Callable[[str], Reply], engines: Sequence[Engine]) -> tuple[Engine | None, Identity]:
    for engine in engines:
        identity = None if engine.live is None else engine.live.identify(ask)
        if identity is not None:
            return engine, identity
    models = ask("/v1/models").fields.get("data")
    name = models[0].get("id") if isinstance(models, list) and models and isinstance(models[0], dict) else None
    return None, Identity(model=name if isinstance(name, str) else None)


def _settings(engine: Engine | None, ask: Callable[[str], Reply]) -> tuple[dict[str, object], Mapping[str, object]]:
    if engine is None or engine.live is None or engine.server_info is None:
        return {}, {}
    for path in engine.live.settings:
        answer = ask(path).fields
        facts = engine.server_info(answer)
        clean = redact(dict(answer)) if facts else {}
        if isinstance(clean, dict) and clean:
            return clean, facts
    return {}, {}


def _with_processes(found: Discovery, client: Client, gpus_of: GpusOf) -> Discovery:
    pid = listener(client.port) if _is_here(client.host) else None
    if pid is None:
        return found
    roles = () if found.engine is None or found.engine.live is None else found.engine.live.processes
    processes = tree(pid, roles, gpus_of())
    output = output_of(pid)
    return replace(found, processes=processes, log=None if output is None else str(output))


def _with_local_workers(found: Discovery, client: Client) -> Discovery:
    """With the workers of this machine that only their own environment names, each told by its mark."""
    variable, identity = None if found.component is None else found.component.worker_port, found.identity
    if variable is None or not any(identity.marks) or not _is_here(client.host):
        return found
    reached: dict[str, str] = {}
    for port in ports_named(variable):
        with client.again(f"http://127.0.0.1:{port}") as worker:
            text = worker.get("/metrics").text
        reached |= {mark: worker.url for mark in identity.marks if mark and mark in text}
    left = [(told, mark) for told, mark in zip(identity.unnamed, identity.marks, strict=True) if mark not in reached]
    workers = dict.fromkeys((*identity.workers, *(reached[mark] for mark in identity.marks if mark in reached)))
    unnamed, marks = tuple(told for told, _ in left), tuple(mark for _, mark in left)
    identity = msgspec.structs.replace(identity, workers=tuple(workers), unnamed=unnamed, marks=marks)
    return replace(found, identity=identity, marked=reached)


def _is_here(host: str) -> bool:
    """Whether a host is this machine: a loopback address, or a name or number of its own."""
    try:
        numbers = {info[4][0] for info in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    if any(ipaddress.ip_address(str(number).partition("%")[0]).is_loopback for number in numbers):
        return True
    try:
        own = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)}
    except OSError:
        return False
    return bool(own & numbers)
