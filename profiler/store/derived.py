"""What an analysis makes of traces, kept beside their columns: made once for the same traces and the same code.

Numbers, texts and columns in dataclasses are written as MessagePack, nothing that could run. What is damaged, or was
made by other code, is made again.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from profiler.model.trace import Trace
from profiler.store.code import code_of

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

T = TypeVar("T")
_OPTIONS: Final[dict[int, int]] = {
    zstd.CompressionParameter.compression_level: 1,
    zstd.CompressionParameter.checksum_flag: 1,
}


class _Kept(msgspec.Struct, frozen=True):
    """``key``: of what traces and by what code ``value`` was made."""

    key: str
    value: msgspec.Raw


class _Column(msgspec.Struct, frozen=True, array_like=True):
    dtype: str
    values: bytes


def derived(
    traces: Sequence[Trace], what: str, kind: Any, code: Sequence[str], compute: Callable[[], T], of: str = ""
) -> T:
    """What ``compute`` makes of ``traces`` and of nothing else, as it was kept, or made and kept now.

    ``what`` names it, ``kind`` is its type, ``code`` the packages and modules that make it, and ``of`` tells what else
    it is made of: one is kept of each name. Where a trace itself is not
    kept, or the code can't be told, it is made each time.
    """
    places = [trace.kept for trace in traces if trace.kept is not None]
    version = code_of(*code) if places and len(places) == len(traces) else None
    if version is None:
        return compute()
    name = hashlib.sha256("|".join([what, *map(str, places)]).encode("utf-8", "surrogateescape")).hexdigest()[:24]
    file = places[0].with_name(f"{name}.derived")
    key = _key(version + of, traces)
    try:
        kept = msgspec.msgpack.decode(zstd.decompress(file.read_bytes()), type=_Kept)
        if kept.key == key:
            found: T = msgspec.msgpack.decode(kept.value, type=kind, dec_hook=_read)
            return found
    except (OSError, msgspec.MsgspecError, zstd.ZstdError, ValueError, TypeError):
        pass
    made = compute()
    _write(file, key, made)
    return made


def _key(version: str, traces: Sequence[Trace]) -> str:
    """Of the code and all that a trace holds beside what its kept columns do: what engines say of its names."""
    digest = hashlib.sha256(version.encode())
    for trace in traces:
        told = (trace.labels, trace.phases, trace.micro_batches, trace.handovers)
        digest.update(os.fsencode(trace.path))
        digest.update(msgspec.msgpack.encode([sorted(names.items()) for names in told]))
    return digest.hexdigest()


def _write(file: Path, key: str, value: object) -> None:
    part = file.with_suffix(f".part{os.getpid()}")
    try:
        packed = msgspec.msgpack.encode(_Kept(key, msgspec.Raw(msgspec.msgpack.encode(value, enc_hook=_written))))
        part.write_bytes(zstd.compress(packed, options=_OPTIONS))
        part.replace(file)
    except (OSError, UnicodeEncodeError):
        # A full or read-only disk, or a name that is no text: it is made again.
        return


def _written(value: object) -> object:
    if isinstance(value, np.ndarray):
        return _Column(value.dtype.str, np.ascontiguousarray(value).tobytes())
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(f"{type(value)} is not kept")


def _read(kind: type, value: Any) -> object:
    column = msgspec.convert(value, _Column)
    return np.frombuffer(column.values, np.dtype(column.dtype)).copy()
