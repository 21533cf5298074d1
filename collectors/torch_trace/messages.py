"""What each collective moves, as the trace states it: the arguments that torch writes to ``record_param_comms`` and to
NCCL's kernels ("In msg nelems", "dtype", "Group size", …), or else the shapes of a collective's operator or annotation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from profiler.collectors.collective_calls import messages_of_calls
from profiler.collectors.torch_trace.decode import Args
from profiler.model.requests import Ints
from profiler.model.trace import COLLECTIVES, NO_ID, EventTable, Kind, Message

# Parts of the names of operators and annotations whose shapes are a collective's message.
WORDS: Final = (
    "all_reduce", "allreduce", "all_gather", "allgather", "reduce_scatter", "alltoall", "all_to_all", "nccl:", "c10d::"
)  # fmt: skip
# Torch's spellings, without what is no letter -> ours; the first that the name holds.
_OPERATIONS: Final = (
    *((name.replace("_", ""), name) for name in COLLECTIVES),
    ("send", "send_receive"),
    ("recv", "send_receive"),
)
# Bytes of an element: "dtype" and, behind c10::, "Input type".
_WIDTHS: Final = {
    "bfloat16": 2, "half": 2, "float16": 2, "float": 4, "float32": 4, "double": 8, "int": 4, "long": 8, "longint": 8,
    "short": 2, "char": 1, "signedchar": 1, "byte": 1, "unsignedchar": 1, "bool": 1, "float8_e4m3fn": 1,
    "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1,
}  # fmt: skip
_NOT_LETTERS: Final = re.compile(r"[^a-z]")
_SHAPES: Final = msgspec.json.Decoder(list[object])


class Stated:
    """The events of a file that state a message, in their order, and the different messages."""

    def __init__(self) -> None:
        self._codes: dict[Message, int] = {}
        self._rows: list[Ints] = []
        self._code: list[NDArray[np.int32]] = []

    def add(self, rows: Ints, codes: NDArray[np.int32], messages: Sequence[Message | None]) -> None:
        """Note rows and the message of each, by its place in ``messages``; None: they say too little."""
        known = np.array([-1 if m is None else self._codes.setdefault(m, len(self._codes)) for m in messages], np.int32)
        code = known[codes]
        self._rows.append(rows[code >= 0])
        self._code.append(code[code >= 0])

    @property
    def rows(self) -> Ints:
        """Rows of the event table."""
        return np.concatenate([np.zeros(0, np.int64), *self._rows])

    @property
    def codes(self) -> NDArray[np.int32]:
        """Which of ``kinds`` each of the rows states."""
        return np.concatenate([np.zeros(0, np.int32), *self._code])

    @property
    def kinds(self) -> tuple[Message, ...]:
        """The different messages."""
        return tuple(self._codes)


def is_message(name: str, args: Args | None) -> bool:
    """Whether an event's arguments are looked at; the scanner decides by the same."""
    if args is None:
        return False
    return bool(bytes(args.sent)) or (bool(bytes(args.shapes)) and any(word in name for word in WORDS))


def message_of(name: str, args: Args) -> Message | None:
    """The message; None where the arguments don't say enough or are not what they should be."""
    texts = (args.collective, args.sent, args.received, args.dtype, args.ranks, args.shapes, args.types)
    return _message(name, *map(bytes, texts))


# Layer after layer and step after step calls alike.
@lru_cache(4096)
def _message(
    name: str, collective: bytes, sent: bytes, received: bytes, dtype: bytes, ranks: bytes, shapes: bytes, types: bytes
) -> Message | None:
    stated = _number(sent)
    operation = operation_of(_text(collective) or name)
    if operation is None:
        return None
    if stated is not None:
        width = _WIDTHS.get(_text(dtype).lower())
        if width is None:
            return None
        out = _number(received)
        return Message(
            operation, stated * width, NO_ID if out is None else out * width, _number(ranks) or NO_ID, shapes=False
        )
    sizes = _sizes(shapes, types)
    if not sizes:
        return None
    # An operator that takes its output names both; the larger is what all ranks hold together.
    small, large = min(sizes[:2]), max(sizes[:2])
    if operation == "all_gather":
        return Message(operation, small, large if len(sizes) > 1 else NO_ID, NO_ID, shapes=True)
    if operation == "reduce_scatter":
        return Message(operation, large, NO_ID, NO_ID, shapes=True)
    taken = sizes[1] if operation == "all_to_all" and len(sizes) > 1 else sizes[0]
    return Message(operation, taken, NO_ID, NO_ID, shapes=True)


def operation_of(text: str) -> str | None:
    """The collective that torch's spelling of it, or a name that holds it, means."""
    letters = _NOT_LETTERS.sub("", text.lower())
    return next((ours for theirs, ours in _OPERATIONS if theirs in letters), None)


def by_correlation(events: EventTable, found: Stated, ranks: int) -> dict[int, Message]:
    """The message behind each correlation: a kernel's own, or that of the innermost range around its launch call.

    Each call of a collective has its number. ``ranks`` is the size of every group of the job, where it has but one.
    """
    rows, codes, kinds = found.rows, found.codes, found.kinds
    if not len(rows):
        return {}

    def numbered(call: int) -> Message:
        message = kinds[codes[call]]
        known = message.ranks if message.ranks != NO_ID else ranks
        one: Message = msgspec.structs.replace(message, call=call, ranks=known)
        return one

    kind = events.kind[rows]
    on_host = np.flatnonzero(np.isin(kind, np.array((Kind.OPERATOR, Kind.ANNOTATION), np.uint8)))
    ranges = events.select(rows[on_host])
    known = messages_of_calls(events, ranges.start, ranges.end, ranges.thread, lambda i: numbered(int(on_host[i])))
    # Of the kernels behind one launch, as a replay has them, the last one's message.
    kernels = np.flatnonzero(kind == Kind.KERNEL)[::-1]
    correlations, last = np.unique(events.correlation[rows[kernels]], return_index=True)
    for correlation, call in zip(correlations.tolist(), kernels[last].tolist(), strict=True):
        known[correlation] = numbered(call)
    known.pop(NO_ID, None)
    return known


def group_size(groups: object) -> int:
    """The ranks of a job's process groups (``pg_config``), where all that have several have as many; else NO_ID."""
    sizes = {g.get("pg_size") for g in groups if isinstance(g, dict)} if isinstance(groups, Sequence) else set()
    several = {size for size in sizes if isinstance(size, int) and size > 1}
    return several.pop() if len(several) == 1 else NO_ID


def _sizes(shapes: bytes, types: bytes) -> list[int]:
    """Bytes of each tensor among the operator's inputs, in order; lists of tensors and scalars are left out."""
    try:
        dimensions, kinds = _SHAPES.decode(shapes), _SHAPES.decode(types)
    except msgspec.MsgspecError:
        return []
    found = []
    for shape, kind in zip(dimensions, kinds, strict=False):
        width = _WIDTHS.get(kind.removeprefix("c10::").replace(" ", "").lower()) if isinstance(kind, str) else None
        if width and isinstance(shape, list) and shape and all(type(n) is int and 0 <= n < 2**40 for n in shape):
            size = width
            for n in shape:
                size *= n
            if 0 < size < 2**50:
                found.append(size)
    return found


def _number(text: bytes) -> int | None:
    return int(text) if text.isdigit() and len(text) < 16 else None


def _text(raw: bytes) -> str:
    return raw.strip(b'"').decode("ascii", "replace")
