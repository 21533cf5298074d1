"""Requests to a server under observation: few, bounded, counted, and with a key that appears nowhere.

Redirects are followed once and only on the same server; proxies are not used.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from profiler.collectors.json_text import decode, parse
from profiler.errors import UsageError
from profiler.model.live import Reply

LARGEST: Final = 1 << 26
TIMEOUT: Final = 10.0
_REDIRECTS: Final = (301, 302, 307, 308)


def tls(authority: Path | None) -> ssl.SSLContext:
    """Certificates are checked, against ``authority`` (a PEM file) or the system's own."""
    try:
        return ssl.create_default_context(cafile=None if authority is None else str(authority))
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"{authority}: no certificates in PEM form ({error})") from None


class Client:
    """One server at an http or https address. A connection is kept open for each client; use one a thread.

    ``requests`` and ``received`` (bytes of bodies) are what asking has cost so far.
    """

    def __init__(self, url: str, key: str | None = None, context: ssl.SSLContext | None = None) -> None:
        self._at = address(url)
        self._key, self._context = key, context
        self._connection: http.client.HTTPConnection | None = None
        self._lock = threading.Lock()
        self.requests = self.received = 0

    @property
    def url(self) -> str:
        """The address without a path's last slash."""
        return self._at.geturl().rstrip("/")

    @property
    def host(self) -> str:
        """The host's name or number."""
        return self._at.hostname or ""

    @property
    def port(self) -> int:
        """The port, also where the address leaves it to the scheme."""
        return self._at.port or (443 if self._at.scheme == "https" else 80)

    def again(self, url: str | None = None) -> Client:
        """Another client of this server, or of one that it names; the key goes to no other host."""
        key = self._key if url is None or address(url).hostname == self._at.hostname else None
        return Client(url or self.url, key, self._context)

    def get(self, path: str, timeout: float = TIMEOUT) -> Reply:
        """The answer; status 0 and the reason as text where there is none."""
        return self._send("GET", path, None, timeout)

    def post(self, path: str, body: Mapping[str, object] | None, timeout: float = TIMEOUT) -> Reply:
        """Like ``get``. A body is sent as JSON."""
        return self._send("POST", path, None if body is None else json.dumps(body).encode(), timeout)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connection; another request opens a new one."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _send(self, method: str, path: str, body: bytes | None, timeout: float) -> Reply:
        with self._lock:
            # A server may have closed a connection that was idle; only then a second try is the first one.
            for kept in (self._connection is not None, False):
                try:
                    return self._once(method, self._at.path.rstrip("/") + path, body, timeout)
                except (OSError, http.client.HTTPException) as error:
                    if self._connection is not None:
                        self._connection.close()
                        self._connection = None
                    if not (kept and isinstance(error, ConnectionError)):
                        return Reply(0, f"{type(error).__name__}: {error}")
            return Reply(0, "no answer")

    def _once(self, method: str, path: str, body: bytes | None, timeout: float, follow: bool = True) -> Reply:
        if self._connection is None:
            self._connection = self._open(timeout)
        connection = self._connection
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        headers = {"Accept": "*/*", "User-Agent": "serving-profiler"}
        headers |= {} if self._key is None else {"Authorization": f"Bearer {self._key}"}
        headers |= {} if body is None else {"Content-Type": "application/json"}
        self.requests += 1
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        data = answer.read(LARGEST)
        self.received += len(data)
        if answer.will_close or answer.read(1):
            connection.close()
            self._connection = None
        target = urlsplit(answer.headers.get("Location") or "")
        if follow and answer.status in _REDIRECTS and target.hostname in (None, self._at.hostname):
            query = f"?{target.query}" if target.query else ""
            return self._once(method, target.path + query, body, timeout, follow=False)
        text = decode(data)
        return Reply(answer.status, text, parse(text) if text.lstrip()[:1] in "{[" else None)

    def _open(self, timeout: float) -> http.client.HTTPConnection:
        host = self._at.hostname or ""
        if self._at.scheme == "https":
            return http.client.HTTPSConnection(host, self._at.port, timeout=timeout, context=self._context or tls(None))
        return http.client.HTTPConnection(host, self._at.port, timeout=timeout)


def address(url: str) -> SplitResult:
    """The parts of ``http://host:port[/path]``. Raises UsageError, also where it holds a password."""
    text = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise UsageError(f"{url!r} is no address of a server: write http://host:port")
    if parts.username or parts.password or parts.query:
        raise UsageError("the address holds a password or a query: give a key by --api-key-env or --api-key-file")
    return parts
