"""A document without what names a place or a person: paths, hosts, addresses and user names become placeholders.

Equal texts get equal placeholders, so that a reader can still tell two files or hosts apart.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

_URL: Final = re.compile(r"\b(https?|ssh|tcp|ws|wss)://[^/\s\"']+")
_ADDRESS: Final = re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b")
_MAIL: Final = re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b")
# An absolute path keeps its last part; a version or a model's name (org/model) is no path.
_PATH: Final = re.compile(r"(?<![\w.:/-])(?:~/|/|[A-Za-z]:\\)(?:[^\s\"'()\[\],;:|/\\]+[/\\])+([^\s\"'()\[\],;:|/\\]*)")
# "<host>_<pid>.<ns>.pt.trace.json" and "<address>_<pid>…" are how torch names its files.
_TRACE_FILE: Final = re.compile(r"[\w.-]+?(_\d+\.\d+\.pt\.trace\.json)")


class _Placeholders:
    def __init__(self) -> None:
        self._known: dict[str, dict[str, int]] = {}

    def of(self, kind: str, text: str) -> str:
        """``host-1``, ``host-2``, … by first appearance."""
        seen = self._known.setdefault(kind, {})
        return f"{kind}-{seen.setdefault(text, len(seen) + 1)}"

    def clean(self, text: str) -> str:
        """The text with every such part replaced."""
        text = _URL.sub(lambda m: f"{m[1]}://{self.of('host', m[0])}", text)
        text = _MAIL.sub(lambda m: self.of("user", m[0]), text)
        text = _TRACE_FILE.sub(lambda m: f"{self.of('host', m[0].removesuffix(m[1]))}{m[1]}", text)
        text = _PATH.sub(lambda m: f"…/{m[1]}", text)
        return _ADDRESS.sub(lambda m: self.of("address", m[0]), text)


def anonymized(document: T) -> T:
    """The same document with every text cleaned; numbers, units and the names of metrics, rules and causes stay."""
    found = _Placeholders()
    return msgspec.convert(_walk(msgspec.to_builtins(document), found), type(document))


def _walk(value: Any, found: _Placeholders) -> Any:
    if isinstance(value, str):
        return found.clean(value)
    if isinstance(value, dict):
        return {_walk(key, found): _walk(item, found) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_walk(item, found) for item in value]
    return value
