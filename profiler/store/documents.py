"""Documents of our own as input: the baseline that ``inspect --json`` and ``diagnose --json`` keep."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from profiler.errors import BadInput
from profiler.model.baseline import Baseline
from profiler.store.source import FileSource

# Documents are far below this; what is larger is a trace or a result, and is opened as a run.
MOST_BYTES: Final = 16 << 20
WRITE: Final = "Write it anew from the run's folder: profiler inspect RUN --json > baseline.json"
NO_OBJECTIVE: Final = (
    "an objective (slo) needs single requests, and a stored document holds none. Leave it out, or name the run's folder"
)
_INSPECTION: Final = "profiler.inspection/1"
_DIAGNOSIS: Final = "profiler.diagnosis/1"
T = TypeVar("T")
_OBJECT: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*\{")
_OURS: Final = re.compile(rb'"schema"\s*:\s*"profiler\.\w+/\d+"')


class _Schema(msgspec.Struct):
    schema: object = None


class _Holder(msgspec.Struct):
    baseline: Baseline | UnsetType | None = UNSET


@dataclass(frozen=True)
class StoredBaseline:
    """A baseline and the file that it was read from; ``diagnosed``: of the two runs there, it is B, the newer."""

    baseline: Baseline
    path: str
    diagnosed: bool


def stored_baseline(path: Path) -> StoredBaseline | None:
    """The baseline in a document of ours; None where ``path`` is anything else, which then is opened as a run.

    Raises BadInput where it is a document of ours, and no baseline can be read from it.
    """
    data = _content(path)
    if data is None:
        return None
    schema = _decoded(path, data, _Schema).schema
    if not isinstance(schema, str) or not schema.startswith("profiler."):
        return None
    if schema not in (_INSPECTION, _DIAGNOSIS):
        raise BadInput(str(path), f"{schema} holds no baseline, {_INSPECTION} or {_DIAGNOSIS} was expected", WRITE,
                       "schema")  # fmt: skip
    found = _decoded(path, data, _Holder).baseline
    if isinstance(found, UnsetType):
        raise BadInput(str(path), "it was written before documents held a baseline", WRITE, "baseline")
    if found is None or not found.loads:
        reason = "it holds no baseline: its run has no benchmark result, or it was made anonymous"
        raise BadInput(str(path), reason, "Keep a run that was measured: profiler inspect RUN --json", "baseline")
    return StoredBaseline(found, str(path), schema == _DIAGNOSIS)


def _content(path: Path) -> bytes | None:
    """The file's bytes, None where they can't be a document of ours."""
    if not path.is_file():
        return None
    try:
        source = FileSource(path)
        if _OBJECT.match(source.head()) is None:
            return None
        with source.open() as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError:
        # Opening it as a run says why.
        return None
    return data if len(data) <= MOST_BYTES and _OURS.search(data) else None


def _decoded(path: Path, data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=kind)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at ")
        raise BadInput(str(path), f"no stored baseline: {reason}", WRITE, place.strip("`") or None) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        told = re.search(r"byte \d+", str(error))
        at = told[0] if told else f"byte {len(data)}"
        reason = "a whole JSON document was expected, and it is cut off or damaged"
        raise BadInput(str(path), reason, WRITE, at) from error
