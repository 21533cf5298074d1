"""What each collective moves, as the trace states it: the arguments that torch writes to ``record_param_comms`` and to
NCCL's kernels ("In msg nelems", "dtype", "Group size", …), or else the shapes of a collective's operator or annotation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from profiler.collectors.torch_trace.decode import Args
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


@dataclass(frozen=True)
class Found:
    """A message and the row of the event that states it."""

    row: int
    message: Message


def is_message(name: str, args: Args | None) -> bool:
    """Whether an event's arguments are looked at; the scanner decides by the same."""
    if args is None:
        return False
    return bool(bytes(args.sent)) or (bool(bytes(args.shapes)) and any(word in name for word in WORDS))


def message_of(name: str, args: Args) -> Message | None:
    """The message; None where the arguments don't say enough or are not what they should be."""
    stated = _number(args.sent)
    operation = operation_of(_text(args.collective) or name)
    if operation is None:
        return None
    if stated is not None:
        width = _WIDTHS.get(_text(args.dtype).lower())
        received = _number(args.received)
        if width is None:
            return None
        ranks = _number(args.ranks)
        return Message(
            operation, stated * width, NO_ID if received is None else received * width, ranks or NO_ID, shapes=False
        )
    sizes = _sizes(args)
    if not sizes:
        return None
    # An operator that takes its output names both; the larger is what all ranks hold together.
    small, large = min(sizes[:2]), max(sizes[:2])
    if operation == "all_gather":
        return Message(operation, small, large if len(sizes) > 1 else NO_ID, NO_ID, shapes=True)
    return Message(operation, large if operation == "reduce_scatter" else sizes[-1], NO_ID, NO_ID, shapes=True)


def operation_of(text: str) -> str | None:
    """The collective that torch's spelling of it, or a name that holds it, means."""
    letters = _NOT_LETTERS.sub("", text.lower())
    return next((ours for theirs, ours in _OPERATIONS if theirs in letters), None)


def by_correlation(events: EventTable, found: Iterable[Found], ranks: int) -> Mapping[int, Message]:
    """The message behind each correlation: a kernel's own, or that of the innermost range around its launch call.

    Each call of a collective has its number. ``ranks`` is the size of every group of the job, where it has but one.
    """
    known: dict[int, Message] = {}
    rows = list(found)
    if not rows:
        return known
    at = np.array([one.row for one in rows], np.int64)
    on_host = np.isin(events.kind[at], np.array((Kind.OPERATOR, Kind.ANNOTATION), np.uint8))
    calls = events.of(Kind.LAUNCH)
    calls = calls.select(calls.correlation != NO_ID)
    calls = calls.select(np.lexsort((calls.start, calls.thread)))
    # From the outermost range to the innermost, which overrides it.
    order = np.lexsort((-events.duration[at], events.start[at]))
    for i in order[on_host[order]].tolist():
        row = int(at[i])
        thread = int(events.thread[row])
        low, high = np.searchsorted(calls.thread, [thread, thread + 1])
        first, last = low + np.searchsorted(calls.start[low:high], [events.start[row], events.end[row]])
        for correlation in calls.correlation[first:last].tolist():
            outer = known.get(correlation)
            # An annotation states its inputs only; the operator around it also what comes out.
            whole = outer is not None and outer.received != NO_ID and outer.operation == rows[i].message.operation
            if not whole or rows[i].message.received != NO_ID:
                known[correlation] = _numbered(rows[i].message, i, ranks)
    for i in np.flatnonzero(events.kind[at] == Kind.KERNEL).tolist():
        known[int(events.correlation[at[i]])] = _numbered(rows[i].message, i, ranks)
    known.pop(NO_ID, None)
    return known


def group_size(groups: object) -> int:
    """The ranks of a job's process groups (``pg_config``), where all that have several have as many; else NO_ID."""
    sizes = {g.get("pg_size") for g in groups if isinstance(g, dict)} if isinstance(groups, Sequence) else set()
    several = {size for size in sizes if isinstance(size, int) and size > 1}
    return several.pop() if len(several) == 1 else NO_ID


def _numbered(message: Message, call: int, ranks: int) -> Message:
    known = message.ranks if message.ranks != NO_ID else ranks
    return msgspec.structs.replace(message, call=call, ranks=known)


def _sizes(args: Args) -> list[int]:
    """Bytes of each tensor among the operator's inputs, in order; lists of tensors and scalars are left out."""
    try:
        shapes = _SHAPES.decode(args.shapes)
        types = _SHAPES.decode(args.types)
    except msgspec.MsgspecError:
        return []
    found = []
    for shape, kind in zip(shapes, types, strict=False):
        width = _WIDTHS.get(kind.removeprefix("c10::").replace(" ", "").lower()) if isinstance(kind, str) else None
        if width and isinstance(shape, list) and shape and all(type(n) is int and 0 <= n < 2**40 for n in shape):
            size = width
            for n in shape:
                size *= n
            if 0 < size < 2**50:
                found.append(size)
    return found


def _number(raw: msgspec.Raw) -> int | None:
    text = bytes(raw)
    return int(text) if text.isdigit() and len(text) < 16 else None


def _text(raw: msgspec.Raw) -> str:
    return bytes(raw).strip(b'"').decode("ascii", "replace")
