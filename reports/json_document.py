"""The documents as JSON, and the JSON Schema that they are published with."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from profiler.errors import UsageError
from profiler.model.check import Check
from profiler.model.diagnosis import Diagnosis
from profiler.model.goodput import Goodput
from profiler.model.inspection import Inspection
from profiler.model.recommendation import RecommendationDocument, WhatIfDocument

Document = Diagnosis | Inspection | Check | Goodput | RecommendationDocument | WhatIfDocument
_DOCUMENTS: Final[dict[str, type[Document]]] = {
    "diagnosis": Diagnosis,
    "inspection": Inspection,
    "check": Check,
    "goodput": Goodput,
    "recommendation": RecommendationDocument,
    "whatif": WhatIfDocument,
}
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def to_json(document: Document) -> str:
    """The document, indented, ending in a newline. A number that is not finite is written as null."""
    # msgspec writes NaN and infinities as null; lone surrogates can't be encoded and become U+FFFD
    try:
        encoded = msgspec.json.encode(document)
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(_encodable(msgspec.to_builtins(document)))
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def schema(kind: str) -> str:
    """The JSON Schema of a kind of document."""
    if kind not in _DOCUMENTS:
        raise UsageError(f"no document is called {kind!r}; known: {', '.join(_DOCUMENTS)}")
    described = _nullable(msgspec.json.schema(_DOCUMENTS[kind]))
    head = {"$schema": _DIALECT, "$id": f"urn:serving-profiler:{kind}:1", "title": f"profiler.{kind}/1"}
    return json.dumps(head | described, indent=2, ensure_ascii=False) + "\n"


def _nullable(node: Any) -> Any:
    """A number may be null: it is what a value that is not finite is written as."""
    if isinstance(node, dict):
        changed = {key: _nullable(value) for key, value in node.items()}
        return changed | {"type": ["number", "null"]} if changed.get("type") == "number" else changed
    return [_nullable(value) for value in node] if isinstance(node, list) else node


def _encodable(node: Any) -> Any:
    if isinstance(node, str):
        return node.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(node, dict):
        return {_encodable(key): _encodable(value) for key, value in node.items()}
    return [_encodable(value) for value in node] if isinstance(node, (list, tuple)) else node
