"""Where a load goes: the address, what has to be shown to get in, and what the server says of itself.

Keys and headers are read from a variable of the environment or from files, so that they stand in no command line; they
are part of no record and of no message.
"""

from __future__ import annotations

import http.client
import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from profiler.collectors.json_text import decode, mapping, parse, string
from profiler.collectors.openai_api import endpoints
from profiler.collectors.redaction import redact_text
from profiler.errors import BadInput, UsageError
from profiler.model.extension import Endpoint, Engine

LARGEST: Final = 1 << 22
CONNECT_TIMEOUT: Final = 10.0


@dataclass(frozen=True)
class Target:
    """A server's address. ``headers`` hold secrets and are left out of every text about the target."""

    host: str
    port: int
    tls: bool
    prefix: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    ca_file: Path | None = None

    @property
    def url(self) -> str:
        """The address as it is shown and recorded."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return redact_text(f"{'https' if self.tls else 'http'}://{host}:{self.port}{self.prefix}")

    def all_headers(self) -> tuple[tuple[str, str], ...]:
        """Every header of a request but those of its body's length and its name."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (
            ("host", f"{host}:{self.port}"),
            ("user-agent", "serving-profiler"),
            ("accept", "text/event-stream, application/json"),
            ("content-type", "application/json"),
            *self.headers,
        )


@dataclass(frozen=True)
class Server:
    """What a server is: ``engine`` None where its list of models names none that is known."""

    model: str | None
    engine: Engine | None


def parse_target(url: str, headers: Sequence[tuple[str, str]] = (), ca_file: Path | None = None) -> Target:
    """The target of ``http://host:8000``; a trailing ``/v1`` is dropped. Raises UsageError."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{redact_text(url)}: no address ({error}). Write http://HOST:PORT") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise UsageError(f"{redact_text(url)}: no address of a server. Write http://HOST:PORT")
    if parts.username or parts.password:
        raise UsageError(
            "an address with a password would be seen by others. Put an Authorization line in --header-file"
        )
    tls = parts.scheme == "https"
    prefix = parts.path.rstrip("/").removesuffix("/v1")
    if not prefix.isascii() or any(sign.isspace() for sign in prefix):
        raise UsageError(f"{redact_text(url)}: the path holds signs that have to be written as %XX")
    return Target(parts.hostname, port or (443 if tls else 80), tls, prefix, tuple(headers), ca_file)


def secret_headers(
    key_variable: str | None = None, key_file: Path | None = None, header_file: Path | None = None
) -> tuple[tuple[str, str], ...]:
    """The headers of a key from the environment or a file, and of a file with ``Name: value`` lines.

    Raises UsageError, BadInput and OSError; none of them quotes a value.
    """
    found: list[tuple[str, str]] = []
    if key_variable is not None:
        key = os.environ.get(key_variable, "").strip()
        if not key:
            raise UsageError(f"--api-key-env {key_variable}: the variable is not set, or empty")
        found.append(("authorization", f"Bearer {key}"))
    if key_file is not None:
        key = decode(key_file.read_bytes()).strip()
        if not key:
            raise BadInput(str(key_file), "is empty", "Put the key alone in the file")
        found.append(("authorization", f"Bearer {key}"))
    if header_file is not None:
        for number, line in enumerate(decode(header_file.read_bytes()).splitlines(), 1):
            name, colon, value = line.partition(":")
            if not line.strip() or line.startswith("#"):
                continue
            if not colon or not name.strip().replace("-", "").replace("_", "").isalnum():
                raise BadInput(str(header_file), "no header", "Write one Name: value a line", f"line {number}")
            found.append((name.strip(), value.strip()))
    for name, value in found:
        if not name.isascii() or any(not 32 <= ord(sign) < 256 for sign in value):
            raise UsageError(f"the value for the header {name[:40]!r} holds signs that no header can carry")
    return tuple(found)


def ask(target: Target, engines: Sequence[Engine]) -> Server:
    """What the server's list of models says. Raises UsageError where nothing answers, or lets us in."""
    answer = _get(target, "/v1/models")
    listed = answer.get("data")
    card: Mapping[str, object] = mapping(listed[0]) if isinstance(listed, list) and listed else {}
    owner = card.get("owned_by")
    return Server(string(card.get("id")), next((one for one in engines if owner and one.owner == owner), None))


def endpoint_of(engine: Engine | None, name: str | None) -> Endpoint:
    """The endpoint as the engine spells it; a server that is not known gets OpenAI's own fields. Raises UsageError."""
    offered = endpoints() if engine is None or not engine.endpoints else engine.endpoints
    found = next((one for one in offered if name is None or one.name == name), None)
    if found is None:
        who = "a server that is not known" if engine is None else engine.title
        raise UsageError(f"--endpoint {name}: {who} has {', '.join(one.name for one in offered)}")
    return found


def _get(target: Target, path: str) -> Mapping[str, object]:
    connection: http.client.HTTPConnection
    if target.tls:
        context = ssl.create_default_context(cafile=None if target.ca_file is None else str(target.ca_file))
        connection = http.client.HTTPSConnection(target.host, target.port, timeout=CONNECT_TIMEOUT, context=context)
    else:
        connection = http.client.HTTPConnection(target.host, target.port, timeout=CONNECT_TIMEOUT)
    try:
        connection.request("GET", target.prefix + path, headers=dict(target.all_headers()))
        response = connection.getresponse()
        body = response.read(LARGEST)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise UsageError(f"{target.url}: nothing answers there ({reason}). Start the server, or check --url") from error
    finally:
        connection.close()
    if response.status in (401, 403):
        detail = f"the server refuses entry (status {response.status})"
        raise UsageError(f"{target.url}: {detail}. Name its key with --api-key-env or --api-key-file")
    return mapping(parse(decode(body)))
